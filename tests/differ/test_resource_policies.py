# SPDX-License-Identifier: Apache-2.0
"""Changes that real resource policies made to other containers, against what /proc showed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nri_scope.cli.main import run
from nri_scope.recording.reading.reader import Recording

DATA = Path(__file__).parents[1] / "data" / "policies"
TRUTH = json.loads((DATA / "truth.json").read_text())
CREATED = "jobs/batch/job"
CPUS = "/linux/resources/cpu/cpus"


def requests(policy: str, capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    assert run(["diff", str(DATA / f"{policy}.nriscope.zip"), "--format", "json"]) == 1
    document = json.loads(capsys.readouterr().out)
    found: list[dict[str, object]] = [*document["changes"], *document["requests"]]
    return sorted(found, key=lambda one: int(str(one["event"])))


@pytest.mark.parametrize("policy", ["balloons", "topology-aware"])
def test_processors_of_all_containers_are_attributed_to_the_policy(
    policy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = requests(policy, capsys)
    with Recording.open(DATA / f"{policy}.nriscope.zip") as recorded:
        events = {event.id: event for event in recorded.events()}
    now: dict[object, object] = {}
    for step in TRUTH:
        for change in found:
            event = events[int(str(change["event"]))]
            if event.event != step["event"] or change["path"] != CPUS:
                continue
            assert change["owner"] == f"90-{policy}"
            assert change["evidence"] == ["tap"]
            assert change["before"] == now.get(change["container"])
            is_other = change["container"] != f"{event.namespace}/{event.pod}/{event.container}"
            assert change["side_effect"] == is_other
            now[change["container"]] = change["after"]
            # Only later events of the container itself can show its processors.
            outcome = "seen" if change["container"] == CREATED else "requested"
            assert change["outcome"]["kind"] == outcome  # type: ignore[index]
        assert now == step["cpus"]
    assert {one["owner"] for one in found} == {f"90-{policy}"}


@pytest.mark.parametrize("policy", ["balloons", "topology-aware"])
@pytest.mark.parametrize("container", list(TRUTH[-1]["cpus"]))
def test_blame_names_the_policy_for_the_final_processors(
    policy: str, container: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["blame", str(DATA / f"{policy}.nriscope.zip"), container]) == 0
    (line,) = [one for one in capsys.readouterr().out.splitlines() if " cpus: " in one]
    assert line.startswith(f"90-{policy} ")
    assert f" cpus: '{TRUTH[-1]['cpus'][container]}'" in line
