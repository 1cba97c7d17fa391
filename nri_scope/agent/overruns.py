# SPDX-License-Identifier: Apache-2.0
"""Find what a recorder's ring removed before it was sent.

Numbers of events are consecutive. So there is one rule: if the ring removed the event that is
expected next, a gap up to the next one that is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from time import time_ns

from nri_scope.events import Gap
from nri_scope.recording.lookup import event_range
from nri_scope.recording.reader import Recording

from .cursor import Position, newest_removed, time_of_event
from .responses import ResponseMaker, TimedResponse

OVERRUN = "older events were removed from the recording before they could be sent"
"""Reason of a gap in a stream whose receiver is slower than the recorder's ring."""


def with_overruns(
    make: ResponseMaker,
    name: str,
    recording: Recording,
    responses: Iterable[TimedResponse],
    after: Position,
    until: Position,
    *,
    is_filtered: bool,
) -> Iterator[TimedResponse]:
    """Yield responses, with gaps for events after a position that the ring removed.

    ``until``: the last event that is expected. With ``is_filtered``, the number of lost
    events is unknown, and a gap may stand for events that were read and not selected.
    """
    reached = after
    for response in responses:
        event = response.response.event
        if event is not None:
            yield from _overrun(make, name, recording, reached, event.id, is_filtered)
            reached = Position(event.id, event.at_ns)
        yield response
    yield from _overrun(make, name, recording, reached, until.event + 1, is_filtered)


def _overrun(
    make: ResponseMaker,
    name: str,
    recording: Recording,
    reached: Position,
    next_event: int,
    is_filtered: bool,
) -> Iterator[TimedResponse]:
    if next_event <= reached.event + 1:
        return
    oldest, _ = event_range(recording)
    if 0 < oldest <= reached.event + 1:
        return
    removed = newest_removed(recording)
    last = min(removed.event, next_event - 1)
    if last <= reached.event:
        return
    to_ns = time_of_event(recording, last + 1) or removed.at_ns or time_ns()
    began = (session.started_ns for session in recording.sessions())
    from_ns = reached.at_ns or min(began, default=to_ns)
    lost = None if is_filtered else last - reached.event
    gap = Gap(0, None, min(from_ns, to_ns), to_ns, OVERRUN, lost)
    yield make.gap(name, gap, passed=last)
