# SPDX-License-Identifier: Apache-2.0
"""Make the responses of one call from what a recording contains, with bounded memory.

What was recorded since a call began is redacted before, as `record --redact` does. What the
recorder's ring removed before it was sent is a gap: numbers of events are consecutive, so if the
ring removed the event that is expected next, there is a gap up to the next one that is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from time import time_ns
from typing import NamedTuple

from nri_scope._gen.agent.nri_scope.agent import v1
from nri_scope.entries import Exchange, Item, time_of
from nri_scope.events import Event, Gap
from nri_scope.recording.creation_outcomes import stored_outcomes
from nri_scope.recording.entries import IncludedRows, Stopped, exchanges
from nri_scope.recording.lookup import event_range
from nri_scope.recording.reader import Recording
from nri_scope.share.agent_messages import response_of
from nri_scope.share.redacted_entries import redacted
from nri_scope.share.redaction import Redactor

from .node_recordings import Position, is_of_ring, newest_removed, time_of_event

OVERRUN = "older events were removed from the recording before they could be sent"
"""Reason of a gap in a stream whose receiver is slower than the recorder's ring."""

BATCH_BYTES = 1 << 20
"""Bytes of requests and replies that are read and sent together."""
_TOGETHER = 64
"""Number of events whose messages are read together."""


class TimedResponse(NamedTuple):
    """A response in the order of its time, and then of its creation."""

    at_ns: int
    number: int
    response: v1.GetEventsResponse
    passed: tuple[str, int, int] | None = None
    """Recording, and the number of the event up to which this accounts for all, with its time or
    0.
    """


class ResponseMaker:
    """Maker of the responses of one call."""

    def __init__(self, go_on: Callable[[], None]) -> None:
        """``go_on`` is called regularly; its exceptions end the work."""
        self._go_on = go_on
        self._numbers = count()

    def gap(self, name: str, gap: Gap, *, passed: int = 0) -> TimedResponse:
        """Return the response for a gap. ``passed``: last event that it accounts for."""
        place = (name, passed, 0) if passed else None
        return TimedResponse(gap.from_ns, next(self._numbers), response_of(name, gap), place)

    def responses(
        self,
        name: str,
        recording: Recording,
        items: Iterable[Item],
        began_ns: int,
        redactor: Redactor | None = None,
    ) -> Iterator[TimedResponse]:
        """Yield the responses for items; ``redactor``: for those that are not redacted yet.
        ``began_ns``: that of the recording that was made on the node.

        Events whose messages were removed meanwhile are left out. Raises RecordingError.
        """
        waiting: list[Item] = []
        events = size = 0
        for item in items:
            self._go_on()
            waiting.append(item)
            if isinstance(item, Event):
                events += 1
                size += item.size
            if events >= _TOGETHER or size >= BATCH_BYTES:
                yield from self._together(name, recording, waiting, began_ns, redactor)
                waiting, events, size = [], 0, 0
        yield from self._together(name, recording, waiting, began_ns, redactor)

    def _together(
        self,
        name: str,
        recording: Recording,
        items: Sequence[Item],
        began_ns: int,
        redactor: Redactor | None,
    ) -> Iterator[TimedResponse]:
        numbers = [item.id for item in items if isinstance(item, Event)]
        part = IncludedRows(until=max(numbers, default=0), kept=numbers)
        try:
            pages = list(exchanges(recording, part))
        except Stopped as stopped:
            raise stopped.cause from stopped
        outcomes = stored_outcomes(recording, numbers)
        found = {
            one.event.id: replace(one, outcome=outcomes.get(one.event.id), keys=None)
            for page in pages
            for one in page
        }
        responses = (self._response(name, item, began_ns, found, redactor) for item in items)
        yield from filter(None, responses)

    def _response(
        self,
        name: str,
        item: Item,
        began_ns: int,
        found: Mapping[int, Exchange],
        redactor: Redactor | None,
    ) -> TimedResponse | None:
        entry = found.get(item.id) if isinstance(item, Event) else item
        if entry is None:
            return None
        sent = entry if redactor is None else redacted(redactor, entry)
        response = response_of(name, sent, began_ns)
        place = None
        if isinstance(item, Event):
            place = name, item.id, item.at_ns
        elif isinstance(item, Gap) and is_of_ring(item) and item.lost:
            place = name, item.lost, 0
        return TimedResponse(time_of(item), next(self._numbers), response, place)


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
