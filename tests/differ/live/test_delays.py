# SPDX-License-Identifier: Apache-2.0
"""A slow chain followed live: one plugin exceeds its deadline, another takes over half of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nri_scope.differ.attribution.attributed_changes import RoundDiff
from nri_scope.differ.render.wording import slow, slow_span
from nri_scope.recording.bundle.unpack import unpack
from nri_scope.recording.reading.reader import Recording

from .playing import Playing, entries_of

SLOW = Path(__file__).parents[2] / "data" / "cases" / "c24-slow-plugin.nriscope.zip"
"""30-sleepy takes 2.6 s with a deadline of 2 s, 40-half 1.3 s; both containers were created."""
STEP_NS = 1_000_000
"""Interval of reads; some fall between the end of a deadline and the next event."""


@pytest.fixture
def playing(tmp_path: Path) -> Iterator[tuple[Playing, range]]:
    """The case while it is written, and the times of the reads."""
    with Recording.open(unpack(SLOW, tmp_path)) as recording:
        entries, offset = entries_of(recording)
    moments = range(entries[0][0], entries[-1][0] + 2 * STEP_NS, STEP_NS)
    with Playing(tmp_path / "live.nriscope.db", entries, wall_minus_mono_ns=offset) as one:
        yield one, moments


def test_a_creation_with_a_missed_deadline_is_shown_once(playing: tuple[Playing, range]) -> None:
    one, moments = playing
    found = [diff for now in moments for diff in one.until(now)]
    found += one.end()
    created = [diff for diff in found if diff.name == "CreateContainer"]
    assert [diff.event for diff in created] == [13, 30]
    first, _ = created
    assert first.events == (13, 14, 15, 16, 17)
    assert not any(diff.failure or diff.missed_by or diff.remarks for diff in found)
    assert [len(diff.steps) for diff in created] == [5, 5]
    assert {str(step.owner) for diff in created for step in diff.steps} == {"20-env"}
    assert found == one.afterwards()
    assert one.reported_waits == []
    sleepy, half = (slow_span(span) for span in first.spans if slow(span))
    assert sleepy == (
        "30-sleepy (between 25-nri-scope and 35-nri-scope) took 2.00s, over the deadline of "
        "2.00s for one plugin"
    )
    assert half.endswith("took 1.30s, 65 % of the deadline of 2.00s")


def test_a_complete_round_is_shown_immediately(playing: tuple[Playing, range]) -> None:
    one, moments = playing
    shown_at: dict[int, int] = {}
    at: dict[int, RoundDiff] = {}
    for now in moments:
        for diff in one.until(now):
            shown_at[diff.event] = now
            at[diff.event] = diff
    with Recording.open(one.path) as recording:
        events = {event.id: event for event in recording.events()}
    for number, now in shown_at.items():
        last = events[at[number].events[-1]]
        assert now - (last.at_ns + last.took_ns) <= 2 * STEP_NS, at[number]
    # The newest round included.
    assert max(shown_at) == 69
