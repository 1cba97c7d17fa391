# SPDX-License-Identifier: Apache-2.0
"""The emulated iSulad, against what a real one did with 59 replies to CreateContainer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.events import METHODS
from nri_scope.nri.request_subject import container_of, decode_request
from nri_scope.recording.reading.reader import Recording
from nri_scope.runtime.lifecycle import own_request
from tests.isulad.cases import FOLDER
from tests.replay.recordings import recording
from tests.runtime_emulation.scripts import ROOT

BASE = FOLDER / "base.nriscope.zip"
REPLIES: dict[str, dict[str, Any]] = json.loads(
    (FOLDER / "replies-and-outcomes.json").read_text(encoding="utf-8")
)["replies"]
ALONE = ("err", "slow", "2-err-then-ann")
"""Replies after which the plugin gets no further request."""

PLUGIN = f"""#!{sys.executable}
import json, sys, time
sys.path.insert(0, {str(ROOT)!r})
from nri_scope._gen.nri import api_pb2 as api
from nri_scope.plugin import run, serving

serving._reply = lambda kind, reply: reply.SerializeToString()
number, known = int(sys.argv.pop(1)), json.load(open(sys.argv.pop(1)))["replies"]

class Replying:
    def create_container(self, pod, container):
        given = known[container.name]["replies_hex"]
        reply = given[number] if number < len(given) else "0a00"
        if reply == "err":
            raise RuntimeError("no")
        if reply.startswith("slow:"):
            time.sleep(float(reply[5:]))
        return api.CreateContainerResponse.FromString(
            bytes.fromhex(reply if reply[0] == "0" else "")
        )

run(Replying(), name=f"r{{number}}", index="10")
"""


class Outcome(NamedTuple):
    creation: str
    start: str | None
    changes: dict[str, list[Any]] | None


def named_copies(names: Sequence[str]) -> Iterator[tuple[str, Message]]:
    """Yield the recorded events of the container without plugins, once for each name."""
    with Recording.open(BASE) as opened:
        events = [
            (event.event, _own(event.event, decode_request(event.method, request).message))
            for event, request, _ in opened.exchanges()
            if event.container == "c" or event.event == "RunPodSandbox"
        ]
    yield events[0]
    for number, name in enumerate(names, 1):
        for event, request in events[1:]:
            copy = type(request)()
            copy.CopyFrom(request)
            one = container_of(event, copy)
            assert one is not None
            one.name, one.id = name, f"{number:064x}"
            yield event, copy


def _own(event: str, message: Message | None) -> Message:
    """Return the event's own request, also of a StateChange."""
    assert message is not None
    if isinstance(message, api.StateChangeEvent):
        return own_request(METHODS[event].request, message)
    return message


def predicted(folder: Path, names: Sequence[str]) -> dict[str, Outcome]:
    """Replay copies of the container to plugins that give the replies of these cases."""
    path = recording(folder / "copies.nriscope.db", named_copies(names))
    plugin = folder / "plugin"
    plugin.write_text(PLUGIN)
    plugin.chmod(0o755)
    cases = FOLDER / "replies-and-outcomes.json"
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "nri_scope", "replay", path, "--profile", "isulad"),
            *("--plugin", f"10={plugin} 0 {cases}", "--plugin", f"20={plugin} 1 {cases}"),
            *("--format", "json"),
        ],
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode in (0, 1), ran.stderr
    found = json.loads(ran.stdout)["containers"]
    return {name: outcome_of(found[f"mx/m1/{name}"]) for name in names}


def outcome_of(container: dict[str, Any]) -> Outcome:
    if container["runtime_died"]:
        return Outcome("isulad died", None, None)
    if not container["created"]:
        return Outcome("failed", None, None)
    changes = {one["path"]: [one["before"], one["after"]] for one in container["changes"]}
    return Outcome("ok", "FAILED" if container["start_failure"] else "ok", changes)


def true_outcome(case: dict[str, Any]) -> Outcome:
    start, changes = case["start"], case["spec_changes"]
    assert case["isulad_alive"] == (case["creation"] != "isulad died")
    return Outcome(
        case["creation"],
        start and start.split()[0],
        changes and {pointer_of(path): values_of(pair) for path, pair in changes.items()},
    )


def pointer_of(path: str) -> str:
    """Return the JSON pointer of a path such as ``/mounts[/mnt/a]``."""
    base, _, key = path.removesuffix("]").partition("[")
    # A plus marks the second of two members.
    key = key.removesuffix("+").replace("~", "~0").replace("/", "~1")
    return f"{base}/{key}" if key else base


def values_of(pair: list[Any]) -> list[Any]:
    """Return values as JSON; those of members are JSON texts."""
    return [
        json.loads(one) if isinstance(one, str) and one.startswith("{") else one for one in pair
    ]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    names = [name for name in REPLIES if name not in ALONE]
    found = predicted(tmp_path_factory.mktemp("outcomes"), names)
    for name in ALONE:
        found |= predicted(tmp_path_factory.mktemp(name), [name])
    return found


@pytest.mark.parametrize("name", REPLIES)
def test_replay_predicts_what_a_real_isulad_did(name: str, outcomes: dict[str, Outcome]) -> None:
    if name == "cpu-cpus-mems-bad" and (os.cpu_count() or 1) > 77:
        pytest.skip("this machine has CPU 77")
    assert outcomes[name] == true_outcome(REPLIES[name])
