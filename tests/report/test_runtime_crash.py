# SPDX-License-Identifier: Apache-2.0
"""The finding that iSulad ended at an update of a container, and when it is not made."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri_scope.differ import recording_differ
from nri_scope.recording.reading.reader import Recording
from nri_scope.report.finder import diagnose
from nri_scope.report.finding import Finding, FindingKind
from tests.replay.recordings import of_capture

CASES = Path(__file__).parents[1] / "data" / "cases" / "isulad"
PLUGINS: tuple[str, ...] = (
    "30-annotator",
    "60-cpu-policy",
    "00-probe-a",
    "50-probe-b",
    "95-probe-c",
)
"""The connections of the capture, whose last event is the UpdateContainer that ended iSulad."""
CLOSED = "closed by the runtime"
SECOND = 10**9


def findings(path: Path) -> list[Finding]:
    with Recording.open(path) as recording:
        return list(diagnose(recording).findings)


def crashed(path: Path) -> list[Finding]:
    return [finding for finding in findings(path) if finding.kind is FindingKind.CRASH]


def test_a_crash_by_a_request_of_the_cri_is_named(tmp_path: Path) -> None:
    ends = dict.fromkeys(PLUGINS, (SECOND, CLOSED))
    path = of_capture("isulad", tmp_path / "crash.nriscope.db", ended=ends)
    (found,) = crashed(path)
    assert found.title == "iSulad ended at an UpdateContainerResources request of the CRI"
    assert found.containers and found.event_count >= 1
    with Recording.open(path) as recording:
        *_, last = recording_differ.rounds(recording)
    assert last.name == "UpdateContainer" and not last.failure
    assert any("it closed the connection 1.00s after" in remark for remark in last.remarks)


@pytest.mark.parametrize(
    "ends",
    [
        {},
        dict.fromkeys(PLUGINS, (SECOND, "interrupted")),
        dict.fromkeys(PLUGINS, (60 * SECOND, CLOSED)),
    ],
)
def test_without_evidence_nothing_is_said(ends: dict[str, tuple[int, str]], tmp_path: Path) -> None:
    path = of_capture("isulad", tmp_path / "open.nriscope.db", ended=ends)
    assert not crashed(path)
    with Recording.open(path) as recording:
        *_, last = recording_differ.rounds(recording)
    assert last.name == "UpdateContainer"
    assert not any("it closed" in remark for remark in last.remarks)


def test_a_connection_with_later_events_shows_that_it_ran_on(tmp_path: Path) -> None:
    # This one got the update first, and was closed before the others got it.
    path = of_capture("isulad", tmp_path / "one.nriscope.db", ended={"95-probe-c": (-1, CLOSED)})
    assert not crashed(path)


def test_a_plugins_own_call_explains_the_end_of_its_connection() -> None:
    (found,) = findings(CASES / "kill-evict.nriscope.zip")
    assert found.kind is FindingKind.CRASH
    assert found.title == "iSulad ended at an UpdateContainers request of a plugin"
