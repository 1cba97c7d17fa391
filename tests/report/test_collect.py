# SPDX-License-Identifier: Apache-2.0
"""Facts collected from a recording, and their bounds."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import many
from nri_scope.recording.query import lookup
from nri_scope.recording.reading.reader import Recording
from nri_scope.report import limits
from nri_scope.report.collect import collect
from nri_scope.report.html import html
from nri_scope.report.report_data import Facts, LaneMark
from tests.replay.recordings import RECORDING, of_capture
from tests.sample_names import (
    CHECKOUT,
    CHECKOUT_API,
    CHECKOUT_PROXY,
    LEDGER_POD,
    NAMESPACE,
    NIGHTLY,
    NIGHTLY_REPORT,
    NIGHTLY_UPLOAD,
    POSTGRES,
)

from . import problem_recordings


def facts_of(path: Path, reference: str | None = None) -> Facts:
    with Recording.open(path) as recording:
        return collect(recording, None if reference is None else lookup.find(recording, reference))


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("chain") / "chain.nriscope.db"
    return of_capture("containerd-2.4-beta", path)


def test_runtime_and_event_counts(chain: Path) -> None:
    facts = facts_of(chain)
    assert facts.file == "chain.nriscope.db"
    assert facts.runtimes == ("containerd 2.4.0-beta+unknown, NRI 0.12.2",)
    assert (facts.events, facts.pods, facts.containers) == (128, 2, 4)
    assert facts.by_event[0] == ("CreateContainer", 20, 0)
    assert facts.left_out == ()


def test_the_chain_is_in_call_order_and_includes_plugins_only_listed_for_validators(
    chain: Path,
) -> None:
    links = facts_of(chain).chain
    plugins = [link.title for link in links if not link.between]
    assert plugins == [
        *("00-probe-a", "20-device-injector", "30-env-injector", "50-probe-b"),
        *("60-cpu-policy", "95-probe-c"),
    ]
    listed = next(link for link in links if link.title == "20-device-injector")
    assert (listed.known_by, listed.timing) == ("listed for validators", None)
    (first, *_) = [link for link in links if link.between]
    assert first.title == "between 00-probe-a and 30-env-injector"
    assert first.known_by == "20-device-injector, and the runtime"
    assert first.timing is not None
    assert first.timing.count == 4


def test_changes_have_owners_and_evidence(chain: Path) -> None:
    changed = {one.name: one for one in facts_of(chain).changed}
    assert list(changed) == [
        *("shop/web/app", "shop/web/sidecar", "jobs/batch/job", "jobs/batch/broken"),
    ]
    rows = {(row.path, row.by, row.evidence) for row in changed["shop/web/app"].rows}
    assert ("env FOO", "30-env-injector, seen in event 25", "tap") in rows
    (devices,) = [row for row in rows if row[0] == "devices[/dev/nri-null]"]
    assert devices[1:] == ("20-device-injector, seen in event 25", "probes, validator")


def test_the_timeline_has_each_pod_with_its_containers_and_changes() -> None:
    line = facts_of(RECORDING).timeline
    assert line is not None
    lanes = [(lane.title, lane.is_pod) for lane in line.lanes]
    assert lanes == [
        (CHECKOUT, True),
        (CHECKOUT_API, False),
        (CHECKOUT_PROXY, False),
        (NIGHTLY, True),
        (NIGHTLY_REPORT, False),
        (NIGHTLY_UPLOAD, False),
    ]
    assert sum(line.counts) == 32
    broken = line.lanes[-1]
    assert broken.runs is None
    app = line.lanes[1]
    assert app.runs is not None
    assert app.begin <= app.runs[0] < app.runs[1] <= app.end
    assert LaneMark.CHANGED in {kind for _, kind, _ in app.marks}


def test_a_container_alone(chain: Path) -> None:
    facts = facts_of(chain, "shop/web/app")
    assert facts.about == "container shop/web/app"
    assert facts.containers == 1
    assert [one.name for one in facts.changed] == ["shop/web/app"]
    assert facts.timeline is not None
    assert [lane.title for lane in facts.timeline.lanes] == ["shop/web/app"]


def test_a_pod_with_its_containers(chain: Path) -> None:
    facts = facts_of(chain, "jobs/batch")
    assert facts.about == "pod jobs/batch"
    assert facts.timeline is not None
    assert [lane.title for lane in facts.timeline.lanes] == [
        *("jobs/batch", "jobs/batch/job", "jobs/batch/broken"),
    ]


def test_an_event_includes_all_connections(chain: Path) -> None:
    facts = facts_of(chain, "18")
    assert facts.about == "event 18 (CreateContainer)"
    assert {name for name, _, _ in facts.by_event} == {"CreateContainer"}
    assert facts.events == 5
    assert [one.name for one in facts.changed] == ["shop/web/app"]


def test_gaps_count_what_they_lost(tmp_path: Path) -> None:
    facts = facts_of(problem_recordings.with_gap(tmp_path))
    assert [gap.reason for gap in facts.gaps] == ["the disk was full"]
    assert facts.lost == 7
    assert facts.timeline is not None
    assert len(facts.timeline.gaps) == 1


def test_an_empty_recording(tmp_path: Path) -> None:
    facts = facts_of(problem_recordings.empty(tmp_path))
    assert facts.timeline is None
    assert facts.events == 0
    assert facts.findings == ()


@pytest.fixture(scope="module")
def many_events(tmp_path_factory: pytest.TempPathFactory) -> tuple[Facts, list[float]]:
    """Facts of many events, and the reported progress."""
    path = tmp_path_factory.mktemp("many_events") / "many.nriscope.db"
    many.write(path, 4_100)
    shares: list[float] = []
    with Recording.open(path) as recording:
        return collect(recording, on_progress=shares.append), shares


def test_long_lists_are_cut_and_counted(many_events: tuple[Facts, list[float]]) -> None:
    facts, _ = many_events
    assert facts.events == 4_100
    assert len(facts.changed) == limits.CONTAINERS_MAX
    assert facts.timeline is not None
    assert len(facts.timeline.lanes) == limits.LANES_MAX
    omitted = {one.what: (one.kept, one.all) for one in facts.left_out}
    assert omitted["changed containers"][0] == limits.CONTAINERS_MAX
    assert omitted["changed containers"][1] > 100
    assert omitted["pods and containers in the timeline"][1] > 10 * limits.LANES_MAX
    page = "".join(html(facts))
    assert len(page) < 2 << 20
    assert f"60 of {omitted['changed containers'][1]:,} changed containers are included." in page


def test_progress_is_reported(many_events: tuple[Facts, list[float]]) -> None:
    _, shares = many_events
    assert shares == sorted(shares)
    assert len(shares) == 2
    assert 0 < shares[0] < shares[-1] <= 1


RESTART = Path(__file__).parents[2] / "recordings" / "containerd-1.7-restart.nriscope.zip"


@pytest.mark.parametrize(
    ("what", "events", "gaps"),
    [
        (None, (1, 22), 1),
        # The connection was interrupted while this pod existed.
        (CHECKOUT, (3, 11), 1),
        (f"{NAMESPACE}/{LEDGER_POD}", (12, 22), 0),
        (f"{NAMESPACE}/{LEDGER_POD}/{POSTGRES}", (13, 20), 0),
    ],
)
def test_the_timeline_of_a_pod_is_its_own(
    what: str | None, events: tuple[int, int], gaps: int
) -> None:
    facts = facts_of(RESTART, what)
    with Recording.open(RESTART) as recording:
        found = [recording.event(number) for number in events]
    times = [one.at_ns for one in found if one is not None]
    assert facts.timeline is not None
    assert [facts.timeline.first_ns, facts.timeline.last_ns] == times
    assert [facts.first_ns, facts.last_ns] == times
    assert len(facts.timeline.gaps) == gaps
    if what is not None:
        lane = facts.timeline.lanes[0]
        assert (lane.begin, lane.end) == (0, facts.timeline.columns - 1)
