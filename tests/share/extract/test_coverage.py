# SPDX-License-Identifier: Apache-2.0
"""A part of a recording tells what was observed as the whole one does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

import nri_scope
from nri_scope.events import LATE_SYNCHRONIZE, LEFT_OUT
from nri_scope.filter import parse
from nri_scope.nri.events import EventKind
from nri_scope.recording.query.coverage import CHANGING, Coverage, Unobserved, coverage
from nri_scope.recording.reading.reader import Recording
from nri_scope.share.extract import Selection, extract
from nri_scope.share.formats.jsonl import read_back
from tests.recording.observed_times import observed
from tests.sample_names import CHECKOUT

ROOT = Path(__file__).parents[3]
FILES = (
    ROOT / "recordings" / "demo.nriscope.db",
    ROOT / "recordings" / "containerd-2.1-restart.nriscope.zip",
    ROOT / "recordings" / "containerd-1.7-crash-loop.nriscope.zip",
    ROOT / "recordings" / "containerd-2.4.nriscope.zip",
)
LATE = ROOT / "tests" / "data" / "cases" / "c17-late-synchronize-tap.nriscope.zip"
FILTERS = (
    "event:CreateContainer",
    f"pod:{CHECKOUT} OR pod:shop/web",
    "container:*",
    "event:StopContainer",
)
PARTS = [*product(FILES, FILTERS), (LATE, "event:Configure"), (LATE, "event:Synchronize")]


def inside(times: tuple[int, int], whole: Coverage, whys: set[str]) -> bool:
    """Return whether an interval is one that the other recording did not observe, as it says."""
    return any(
        other.from_ns <= times[0] and times[1] <= other.to_ns and other.why in whys
        for other in whole.unobserved
    )


def part_of(path: Path, where: str, copy: Path) -> None:
    with Recording.open(path) as source:
        extract(source, copy, Selection(parse(where)))


def json_lines_of(path: Path, where: str, copy: Path) -> None:
    lines = copy.with_suffix(".jsonl")
    with nri_scope.open(path) as source:
        source.export(lines, source.selection(where), form="jsonl")
    read_back(lines, copy)


def in_microseconds(found: Coverage) -> Coverage:
    """Return a coverage with the times that JSON lines have."""
    unobserved = (
        Unobserved(from_ns // 1000, to_ns // 1000, why) for from_ns, to_ns, why in found.unobserved
    )
    return Coverage(found.from_ns // 1000, found.to_ns // 1000, tuple(unobserved))


@pytest.mark.parametrize(("path", "where"), PARTS, ids=lambda part: getattr(part, "name", part))
@pytest.mark.parametrize("copied", [part_of, json_lines_of])
@pytest.mark.parametrize("mask", [0, EventKind.CreateContainer.bit, CHANGING])
def test_a_part_observed_what_the_whole_did(
    path: Path, where: str, copied: Callable[[Path, str, Path], None], mask: int, tmp_path: Path
) -> None:
    copied(path, where, tmp_path / "part.db")
    in_units = in_microseconds if copied is json_lines_of else replace
    with Recording.open(path) as source:
        from_ns, to_ns = coverage(source).from_ns, coverage(source).to_ns
        from_ns, to_ns = from_ns // 1000 * 1000, to_ns // 1000 * 1000
        whole = in_units(coverage(source, from_ns, to_ns, mask))
        events = sum(1 for _ in source.events())
        synced = [session.synced_ns for session in source.sessions()]
    with Recording.open(tmp_path / "part.db") as copy:
        part = in_units(coverage(copy, from_ns, to_ns, mask))
        if copied is part_of:
            assert [session.synced_ns for session in copy.sessions()] == synced
        left_out = sum(gap.lost or 0 for gap in copy.gaps() if gap.is_left_out)
        assert left_out + sum(1 for _ in copy.events()) == events
    known = sum(to_ns - from_ns for from_ns, to_ns in observed(part))
    unknown = sum(one.to_ns - one.from_ns for one in part.unobserved)
    assert known + unknown == whole.to_ns - whole.from_ns
    for from_ns, to_ns, why in part.unobserved:
        assert why == LEFT_OUT or inside((from_ns, to_ns), whole, {why})
    for from_ns, to_ns in observed(part):
        assert any(low <= from_ns and to_ns <= high for low, high in observed(whole))


def test_nothing_is_observed_after_a_late_reply_to_synchronize() -> None:
    """containerd 1.7.24 keeps the connection open, and sends the plugin nothing more."""
    with Recording.open(LATE) as recording:
        (interval,) = coverage(recording).unobserved
        (session,) = recording.sessions()
        synchronize = next(event for event in recording.events() if event.event == "Synchronize")
    assert interval.why == LATE_SYNCHRONIZE
    assert interval.from_ns == synchronize.at_ns + synchronize.timeout_ns
    assert interval.to_ns == session.ended_ns
