# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import threading
import time

from hypothesis import given
from hypothesis import strategies as st

from nri_scope.capture.queue import ITEM_BYTES, TOO_FAST, Inbox
from nri_scope.capture.sink import Begin, End
from nri_scope.events import Gap, Note
from tests.recording.traffic import a_start, an_item

_ITEM = 1000 + ITEM_BYTES


def _inbox(items: int) -> Inbox:
    return Inbox(items * _ITEM)


@given(st.lists(st.sampled_from(["put", "put", "put", "take"]), max_size=200), st.integers(1, 8))
def test_every_event_is_delivered_or_in_a_gap_at_its_place(steps: list[str], room: int) -> None:
    inbox = _inbox(room)
    taken = []
    sent = 0
    for step in steps:
        if step == "put":
            inbox.put(1, an_item("X", bytes(1000), wall_ns=sent))
            sent += 1
        else:
            entries = inbox.take(2, 1 << 20)
            inbox.done(entries)
            taken += entries
        waiting = len(inbox) * ITEM_BYTES
        assert waiting <= (room + 2) * _ITEM
    inbox.flush_gaps()
    taken += inbox.take(10_000, 1 << 30)
    expected = 0
    for entry in taken:
        if isinstance(entry, Gap):
            assert entry.from_ns == expected
            assert entry.lost == entry.dropped == entry.to_ns - entry.from_ns + 1
            assert entry.reason == TOO_FAST
            expected += entry.dropped
        else:
            assert isinstance(entry, tuple)
            assert entry[1].wall_ns == expected
            expected += 1
    assert expected == sent
    assert inbox.lost == sum(entry.dropped for entry in taken if isinstance(entry, Gap))


def test_a_full_inbox_accepts_events_after_a_quarter_is_free() -> None:
    inbox = _inbox(8)
    for number in range(20):
        inbox.put(1, an_item("X", bytes(1000), wall_ns=number))
    kept = len(inbox)
    inbox.done(inbox.take(1, 1 << 20))
    inbox.put(1, an_item("X", bytes(1000), wall_ns=20))
    assert len(inbox) == kept - 1
    inbox.done(inbox.take(2, 1 << 20))
    inbox.put(1, an_item("X", bytes(1000), wall_ns=21))
    entries = inbox.take(100, 1 << 20)
    assert [entry for entry in entries if isinstance(entry, Gap)] == [
        Gap(0, 1, kept, 20, TOO_FAST, 21 - kept, 21 - kept)
    ]


def test_a_full_inbox_accepts_sessions_and_gaps_but_no_notes() -> None:
    inbox = _inbox(1)
    for _ in range(5):
        inbox.put(1, an_item("X", bytes(1000)))
    before = len(inbox)
    inbox.put_control(Note(0, 1, 0, "a note"))
    assert len(inbox) == before
    inbox.put_control(End(1, "over", 0))
    inbox.put_control(Begin(2, a_start()))
    entries = inbox.take(100, 1 << 20)
    # The gap comes before the end of the session that it belongs to.
    assert [type(entry) for entry in entries[before:]] == [Gap, End, Begin]


def test_each_session_has_its_own_gaps() -> None:
    inbox = _inbox(1)
    for number in range(6):
        inbox.put(1 + number % 2, an_item("X", bytes(1000), wall_ns=number))
    inbox.flush_gaps()
    gaps = [entry for entry in inbox.take(100, 1 << 20) if isinstance(entry, Gap)]
    assert sorted((gap.session, gap.lost) for gap in gaps) == [(1, 2), (2, 3)]


def test_take_is_limited_by_number_and_bytes() -> None:
    inbox = _inbox(100)
    for _ in range(50):
        inbox.put(1, an_item("X", bytes(1000)))
    assert len(inbox.take(7, 1 << 20)) == 7
    assert len(inbox.take(100, 3000)) == 3


def test_the_first_event_wakes_a_sleeping_thread() -> None:
    inbox = _inbox(100)
    woken: list[int] = []

    def sleep() -> None:
        inbox.sleep_while_empty(-1)
        woken.append(len(inbox))

    for _ in range(50):
        sleeper = threading.Thread(target=sleep)
        sleeper.start()
        inbox.put(1, an_item("X", b""))
        sleeper.join(10)
        assert not sleeper.is_alive()
        inbox.take(10, 1 << 20)
    assert woken == [1] * 50


def test_ringing_twice_wakes_once() -> None:
    inbox = _inbox(1)
    inbox.wake()
    inbox.wake()
    assert _seconds_asleep(inbox, 60) < 30
    assert _seconds_asleep(inbox, 0.05) > 0.04


def _seconds_asleep(inbox: Inbox, timeout: float) -> float:
    began = time.monotonic()
    inbox.sleep(timeout)
    return time.monotonic() - began
