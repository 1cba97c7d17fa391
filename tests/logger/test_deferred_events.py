# SPDX-License-Identifier: Apache-2.0
"""What waits for a recorder reaches it in order; what does not fit is counted."""

from __future__ import annotations

from nri_scope.events import Captured, Role, SessionStart
from nri_scope.logger.deferred_events import DeferredSink
from tests.logger.test_logger import ListSink

START = SessionStart(Role.LOGGER, "x", "00", "containerd", "2.1", "0.8.0", True, 1, 0, 0, 1)


def item(number: int, size: int = 10) -> Captured:
    return Captured(number, number, "StateChange", b"x" * size, b"", 0, "", 1, 0)


def test_hands_over_in_order_and_then_passes_on() -> None:
    deferred, sink = DeferredSink(), ListSink()
    sink.begin_session(START)
    session = deferred.begin_session(START)
    deferred.capture(session, item(1))
    deferred.note(None, 2, "note")
    deferred.note_gap(session, 1, 2, "gap", 3)
    assert len(sink.sessions) == 1
    deferred.attach(sink)
    deferred.capture(session, item(2))
    deferred.end_session(session, "over", 5)
    assert [(number, one.wall_ns) for number, one in sink.captured] == [(2, 1), (2, 2)]
    assert sink.notes == [(None, "note")]
    assert sink.gaps == [(2, "gap", 3)]
    assert sink.ends == [(2, "over")]


def test_what_does_not_fit_is_one_counted_gap() -> None:
    deferred, sink = DeferredSink(waiting_bytes=10_000), ListSink()
    session = deferred.begin_session(START)
    for number in range(100):
        deferred.capture(session, item(number, 1500))
        deferred.note(session, number, "remark")
    deferred.end_session(session, "over", 5)
    deferred.attach(sink)
    kept = len(sink.captured)
    assert 0 < kept < 7
    assert sink.gaps == [(None, "the recording could not be opened in time", 100 - kept)]
    assert sink.ends == [(1, "over")]
