# SPDX-License-Identifier: Apache-2.0
"""Make the responses of one call from what a recording contains, with bounded memory.

Entries that were recorded after a call began are redacted first, as `record --redact` does. Events
that the recorder's ring removed before they were sent become a gap. Numbers of events are
consecutive: if the expected event was removed, the gap ends before the next event that remains.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from time import time_ns
from typing import NamedTuple

from nri_scope._gen.agent.nri_scope.agent import v1
from nri_scope.entries import Ended, Item, RecordedCall, time_of
from nri_scope.events import Event, Gap, Session
from nri_scope.recording.node_files import NUMBERS
from nri_scope.recording.query.creation_outcomes import stored_outcomes
from nri_scope.recording.query.lookup import event_range
from nri_scope.recording.reading.entries import IncludedRows, Stopped, exchanges
from nri_scope.recording.reading.reader import Recording
from nri_scope.share.agent_messages import response_of
from nri_scope.share.redacted_entries import redacted
from nri_scope.share.redaction import Redactor

from .node_recordings import Position, RecordingNumbers, is_of_ring, newest_removed, time_of_event

OVERRUN = "older events were removed from the recording before they could be sent"
"""Reason of a gap in a stream whose receiver is slower than the recorder's ring."""

BATCH_BYTES = 1 << 20
"""Bytes of requests and replies that are read and sent together."""
_BATCH_EVENTS = 64
"""Number of events whose messages are read together."""


class SentUpTo(NamedTuple):
    """Position in a recording: the last event that is covered by a response or an earlier one."""

    recording: str
    event: int
    at_ns: int = 0
    """Time of the event; 0 if unknown."""


class TimedResponse(NamedTuple):
    """A response in the order of its time, and then of its creation."""

    at_ns: int
    number: int
    response: v1.GetEventsResponse
    sent: SentUpTo | None = None
    """None if it covers no event."""


class ResponseSource(NamedTuple):
    """Source of responses: a recording, or a part of one."""

    name: str
    """Name of the recording on the node."""
    recording: Recording
    began_ns: int
    """Beginning of the recording that was made on the node."""
    redactor: Redactor | None = None
    """None if the entries are redacted already, or are sent as recorded."""


class ResponseMaker:
    """Maker of the responses of one call."""

    def __init__(self, go_on: Callable[[], None], numbers: RecordingNumbers) -> None:
        """``go_on`` is called regularly; its exceptions end the work."""
        self._go_on = go_on
        self._recording_numbers = numbers
        self._numbers = count()

    def gap(self, name: str, gap: Gap, *, passed: int = 0) -> TimedResponse:
        """Return the response for a gap. ``passed``: last event that it accounts for."""
        sent = SentUpTo(name, passed) if passed else None
        return TimedResponse(gap.from_ns, next(self._numbers), response_of(name, gap), sent)

    def end(self, name: str, session: Session) -> TimedResponse:
        """Return the response for the end of a session, after everything until then."""
        response = response_of(name, Ended(session))
        return TimedResponse(time_of(Ended(session)) + 1, next(self._numbers), response)

    def responses(self, source: ResponseSource, items: Iterable[Item]) -> Iterator[TimedResponse]:
        """Yield the responses for items of a recording.

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
            if events >= _BATCH_EVENTS or size >= BATCH_BYTES:
                yield from self._batch(source, waiting)
                waiting, events, size = [], 0, 0
        yield from self._batch(source, waiting)

    def _batch(self, source: ResponseSource, items: Sequence[Item]) -> Iterator[TimedResponse]:
        numbers = [item.id for item in items if isinstance(item, Event)]
        part = IncludedRows(until=max(numbers, default=0), kept=numbers)
        try:
            pages = list(exchanges(source.recording, part))
        except Stopped as stopped:
            raise stopped.cause from stopped
        outcomes = stored_outcomes(source.recording, numbers)
        calls = {
            call.event.id: replace(call, outcome=outcomes.get(call.event.id), keys=None)
            for page in pages
            for call in page
        }
        responses = (self._response(source, item, calls) for item in items)
        yield from filter(None, responses)

    def _response(
        self, source: ResponseSource, item: Item, calls: Mapping[int, RecordedCall]
    ) -> TimedResponse | None:
        entry = calls.get(item.id) if isinstance(item, Event) else item
        if entry is None:
            return None
        content = entry if source.redactor is None else redacted(source.redactor, entry)
        response = response_of(source.name, content, source.began_ns)
        sent = None
        if isinstance(item, Event):
            sent = SentUpTo(source.name, item.id, item.at_ns)
            self._number(source, response)
        elif isinstance(item, Gap) and is_of_ring(item) and item.lost:
            sent = SentUpTo(source.name, item.lost)
        return TimedResponse(time_of(item), next(self._numbers), response, sent)

    def _number(self, source: ResponseSource, response: v1.GetEventsResponse) -> None:
        """Give an event its number on the node, see `NUMBERS`."""
        before = self._recording_numbers.of(source.name, source.began_ns) * NUMBERS
        event = response.event
        assert event is not None
        event.id += before
        if event.outcome is not None and event.outcome.event:
            event.outcome.event += before

    def with_overruns(
        self,
        source: ResponseSource,
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
            sent = response.sent
            if sent is not None and response.response.event is not None:
                yield from self._overrun(source, reached, sent.event, is_filtered)
                reached = Position(sent.event, sent.at_ns)
            yield response
        yield from self._overrun(source, reached, until.event + 1, is_filtered)

    def _overrun(
        self, source: ResponseSource, reached: Position, next_event: int, is_filtered: bool
    ) -> Iterator[TimedResponse]:
        if next_event <= reached.event + 1:
            return
        recording = source.recording
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
        yield self.gap(source.name, gap, passed=last)
