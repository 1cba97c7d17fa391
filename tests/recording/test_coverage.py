# SPDX-License-Identifier: Apache-2.0
"""Coverage: each moment of a time was observed, or is unobserved for one reason."""

from __future__ import annotations

from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nri_scope.events import KILLED, NO_SESSION, Gap, Role, Session
from nri_scope.nri.events import EventKind
from nri_scope.recorder.writer import Recorder
from nri_scope.recording.query.coverage import (
    AFTER,
    BEFORE,
    SYNCHRONIZING,
    UNSUBSCRIBED,
    UNSYNCHRONIZED,
    Coverage,
    coverage_of,
    with_unobserved,
)
from nri_scope.recording.reading.sessions import OBSERVING
from tests.amount import amount
from tests.recording.observed_times import observed
from tests.recording.traffic import NOW, a_start, an_item

ALL = 0
CREATE = EventKind.CreateContainer.bit
STOP = EventKind.StopContainer.bit
END = 40


def a_session(
    number: int,
    began: int,
    synced: int | None,
    ended: int | None,
    *,
    mask: int = ALL,
    role: Role = Role.LOGGER,
    reason: str = "over",
) -> Session:
    return Session(
        number, role, "scope", "10", "containerd", "2.1", "", False, mask, 0, 0, began, ended,
        reason, synced,
    )  # fmt: skip


def of(
    sessions: list[Session], gaps: list[Gap], low: int = 0, high: int = END, mask: int = 0
) -> Coverage:
    return coverage_of(sessions, gaps, low, high, END, mask)


def test_a_whole_session_is_observed_from_the_end_of_synchronize_on() -> None:
    found = of([a_session(1, 5, 8, 30)], [])
    assert [*found.unobserved] == [(0, 5, BEFORE), (5, 8, SYNCHRONIZING), (30, END, AFTER)]
    assert [*observed(found)] == [(8, 30)]
    assert of([a_session(1, 5, 8, 30)], [], 10, 20).is_whole


def test_a_session_that_never_synchronized_observed_nothing() -> None:
    found = of([a_session(1, 5, None, 30)], [], 5, 30)
    assert [*found.unobserved] == [(5, 30, UNSYNCHRONIZED)]


def test_another_session_covers_the_gap_of_one() -> None:
    gap = Gap(1, 1, 10, 20, "a gap", 3)
    one, other = a_session(1, 0, 0, END), a_session(2, 12, 15, END, role=Role.PROBE)
    assert [*of([one], [gap]).unobserved] == [(10, 20, "a gap")]
    assert [*of([one, other], [gap]).unobserved] == [(10, 15, "a gap")]
    everywhere = Gap(2, None, 30, 35, "all", None)
    assert [*of([one, other], [everywhere]).unobserved] == [(30, 35, "all")]


def test_events_that_were_not_subscribed_to_are_unobserved() -> None:
    only_pods = a_session(1, 0, 0, 20, mask=EventKind.RunPodSandbox.bit)
    assert of([only_pods], [], 0, 20).is_whole
    found = of([only_pods, a_session(2, 10, 10, 15)], [], 0, 20, CREATE)
    assert [*found.unobserved] == [(0, 10, UNSUBSCRIBED), (15, 20, UNSUBSCRIBED)]


def test_a_killed_recorder_observed_until_the_gap_that_the_next_one_found() -> None:
    killed = a_session(1, 0, 0, 10, reason=KILLED)
    gap = Gap(1, None, 10, 20, KILLED, None)
    found = of([killed, a_session(2, 20, 22, END)], [gap])
    assert [*found.unobserved] == [(10, 20, KILLED), (20, 22, SYNCHRONIZING)]


def test_a_moment_is_listed_beside_intervals() -> None:
    found = of([a_session(1, 0, 0, END)], [Gap(1, None, 7, 7, "damage", None)])
    assert [*found.unobserved] == [(7, 7, "damage")]
    assert [*observed(found)] == [(0, 7), (7, END)]


times = st.integers(0, END)


@st.composite
def sessions(draw: st.DrawFn, number: int) -> Session:
    began, synced, ended = sorted(draw(st.tuples(times, times, times)))
    return a_session(
        number,
        began,
        draw(st.sampled_from([synced, synced, None])),
        draw(st.sampled_from([ended, ended, None])),
        mask=draw(st.sampled_from([ALL, CREATE, EventKind.StopContainer.bit])),
        role=draw(st.sampled_from([Role.LOGGER, Role.PROBE, Role.TAP, Role.REPLAY])),
        reason="",
    )


@st.composite
def recordings(draw: st.DrawFn) -> tuple[list[Session], list[Gap]]:
    found = [draw(sessions(number)) for number in range(1, draw(st.integers(0, 4)) + 1)]
    gaps: list[Gap] = []
    for number in range(draw(st.integers(0, 4))):
        low, high = sorted(draw(st.tuples(times, times)))
        of_session = draw(st.sampled_from([None, 1, 2, 3]))
        gaps.append(Gap(number, of_session, low, high, f"gap {number}", None))
    return found, gaps


@given(recordings(), times, times, st.sampled_from([0, CREATE, CREATE | STOP]))
@settings(max_examples=amount(1_000, 300))
def test_each_moment_is_observed_or_unobserved(
    recording: tuple[list[Session], list[Gap]], one: int, other: int, mask: int
) -> None:
    low, high = sorted((one, other))
    known, gaps = recording
    roles = {session.role for session in known} & OBSERVING or {Role.REPLAY}
    coverage = of(known, gaps, low, high, mask)
    lasting = [interval for interval in coverage.unobserved if interval.to_ns > interval.from_ns]
    parts = sorted([*observed(coverage), *((each.from_ns, each.to_ns) for each in lasting)])
    # Together they are the whole time, and moments only split what was observed.
    assert sum(end - begin for begin, end in parts) == high - low
    assert all(end == begin for (_, end), (begin, _) in pairwise(parts))
    seen = {moment for begin, end in observed(coverage) for moment in range(begin, end)}
    for moment in range(low, high):
        is_observed = all(
            any(
                session.role in roles
                and session.synced_ns is not None
                and session.synced_ns
                <= moment
                < (END if session.ended_ns is None else session.ended_ns)
                and (not event or not session.mask or session.mask & event)
                and not any(
                    gap.session in (None, session.id) and gap.from_ns <= moment < gap.to_ns
                    for gap in gaps
                )
                for session in known
            )
            for event in ([one for one in (CREATE, STOP) if mask & one] or [0])
        )
        assert is_observed == (moment in seen)


@given(recordings(), times, times)
@settings(max_examples=amount(300, 100))
def test_a_shorter_time_has_the_same_intervals(
    recording: tuple[list[Session], list[Gap]], one: int, other: int
) -> None:
    low, high = sorted((one, other))
    whole, part = of(*recording), of(*recording, low, high)
    cut = [
        (max(each.from_ns, low), min(each.to_ns, high), each.why)
        for each in whole.unobserved
        if each.from_ns < high and each.to_ns > low
    ]
    assert [tuple(each) for each in part.unobserved if each.to_ns > each.from_ns] == [
        each for each in cut if each[1] > each[0]
    ]


def test_many_gaps_and_sessions_take_no_quadratic_time() -> None:
    size = 20_000
    known = [a_session(number, number, number, 3 * size) for number in range(1, size)]
    gaps = [Gap(number, number, number, 3 * size, NO_SESSION, None) for number in range(1, size)]
    found = coverage_of(known, gaps, 0, 3 * size, 3 * size)
    assert [*found.unobserved] == [(0, 1, BEFORE), (1, 3 * size, NO_SESSION)]


def test_many_killed_recorders_take_no_quadratic_time() -> None:
    size = 20_000
    known = [a_session(number, number, number, None, reason=KILLED) for number in range(1, size)]
    gaps = [Gap(number, None, number, number + 1, KILLED, None) for number in range(1, size)]
    found = coverage_of(known, gaps, 1, size, size)
    assert [*found.unobserved] == [(1, size, KILLED)]


@pytest.mark.parametrize("is_synchronized", [True, False])
def test_what_a_run_did_not_observe_concerns_its_own_sessions(
    tmp_path: Path, *, is_synchronized: bool
) -> None:
    path = tmp_path / "r.nriscope.db"
    for began, synced in (NOW, False), (NOW + END * 10**9, is_synchronized):
        with closing(Recorder.open(path)) as recorder:
            session = recorder.begin_session(a_start(started_ns=began))
            if synced:
                recorder.capture(session, an_item("Synchronize", wall_ns=began + 1))
            recorder.capture(session, an_item("StateChange", b"\x08\x01", wall_ns=began + 10**9))
            recorder.end_session(session, "over", began + 2 * 10**9)
    words = with_unobserved("recorded", path, NOW + 10 * 10**9)
    assert (UNSYNCHRONIZED in words) is not is_synchronized
    assert (words == "recorded") is is_synchronized
    assert UNSYNCHRONIZED in with_unobserved("recorded", path, NOW)
    words = with_unobserved("recorded", tmp_path / "none", NOW)
    assert words.startswith("recorded; what was observed is not known: ")
