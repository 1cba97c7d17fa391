# SPDX-License-Identifier: Apache-2.0
"""Make responses of GetEvents from what a recording contains, with bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from typing import NamedTuple

from nri_scope._gen.agent.nri_scope.agent import v1
from nri_scope.events import Event, Tapped
from nri_scope.recording.reader import Recording
from nri_scope.recording.tap_tables import tapped
from nri_scope.recording.timeline import Began, Ended, Item, time_of
from nri_scope.share.extract.exchanges import Exchange, Stopped, exchanges
from nri_scope.share.redaction import Redactor

from .event_messages import event_message, response_of
from .event_redaction import redacted_exchange, redacted_item, redacted_tapped

BATCH_BYTES = 1 << 20
"""Bytes of requests and replies that are read and sent together."""
_TOGETHER = 64
"""Number of events whose messages are read together."""


class TimedResponse(NamedTuple):
    """A response in the order of its time, and then of its creation."""

    at_ns: int
    number: int
    response: v1.GetEventsResponse


class ResponseMaker:
    """Maker of the responses of one call."""

    def __init__(self, go_on: Callable[[], None]) -> None:
        """``go_on`` is called regularly; its exceptions end the work."""
        self._go_on = go_on
        self._numbers = count()

    def other(self, name: str, item: Item) -> TimedResponse:
        """Return the response for an item other than an event."""
        match item:
            case Began(session):
                at_ns = session.started_ns
            case Ended(session):
                at_ns = session.ended_ns or session.started_ns
            case _:
                at_ns = time_of(item)
        return TimedResponse(at_ns, next(self._numbers), response_of(name, item))

    def responses(
        self,
        name: str,
        recording: Recording,
        items: Iterable[Item],
        redactor: Redactor | None = None,
    ) -> Iterator[TimedResponse]:
        """Yield the responses for items; ``redactor``: for those that are not redacted yet.

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
                yield from self._together(name, recording, waiting, redactor)
                waiting, events, size = [], 0, 0
        yield from self._together(name, recording, waiting, redactor)

    def _together(
        self, name: str, recording: Recording, items: Sequence[Item], redactor: Redactor | None
    ) -> Iterator[TimedResponse]:
        numbers = [item.id for item in items if isinstance(item, Event)]
        try:
            pages = list(exchanges(recording, numbers, until=max(numbers, default=0)))
        except Stopped as stopped:
            raise stopped.cause from stopped
        found = {one.event.id: one for page in pages for one in page}
        taps = {one.event: one for one in tapped(recording, numbers)}
        for item in items:
            if not isinstance(item, Event):
                yield self.other(name, item if redactor is None else redacted_item(redactor, item))
            elif (exchange := found.get(item.id)) is not None:
                yield self._event(name, exchange, taps.get(item.id), redactor)

    def _event(
        self, name: str, exchange: Exchange, tap: Tapped | None, redactor: Redactor | None
    ) -> TimedResponse:
        if redactor is not None:
            exchange = redacted_exchange(redactor, exchange)
            tap = None if tap is None else redacted_tapped(redactor, tap)
        response = v1.GetEventsResponse(event=event_message(name, exchange, tap))
        return TimedResponse(exchange.event.at_ns, next(self._numbers), response)
