# SPDX-License-Identifier: Apache-2.0
"""Make responses of GetEvents from what a recording contains, with bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
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
from .redactors import SharedRedactor

BATCH_BYTES = 1 << 20
"""Bytes of requests and replies that are read and sent together."""
_TOGETHER = 64
"""Number of events whose messages are read together."""


Redaction = Callable[[], AbstractContextManager[SharedRedactor | None]]
"""Returns a context manager that holds the redactor; None if there is none."""


def _no_redaction() -> AbstractContextManager[SharedRedactor | None]:
    return nullcontext()


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
        redaction: Redaction = _no_redaction,
    ) -> Iterator[TimedResponse]:
        """Yield the responses for items; ``redaction``: for those that are not redacted yet.

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
                yield from self._together(name, recording, waiting, redaction)
                waiting, events, size = [], 0, 0
        yield from self._together(name, recording, waiting, redaction)

    def _together(
        self, name: str, recording: Recording, items: Sequence[Item], redaction: Redaction
    ) -> Iterator[TimedResponse]:
        numbers = [item.id for item in items if isinstance(item, Event)]
        try:
            pages = list(exchanges(recording, numbers, until=max(numbers, default=0)))
        except Stopped as stopped:
            raise stopped.cause from stopped
        found = {one.event.id: one for page in pages for one in page}
        taps = {one.event: one for one in tapped(recording, numbers)}
        with redaction() as known:
            # Not yielded here: the redactor is for one thread at a time.
            responses = [
                self._response(name, item, found, taps, None if known is None else known.redactor)
                for item in items
            ]
        yield from filter(None, responses)

    def _response(
        self,
        name: str,
        item: Item,
        found: Mapping[int, Exchange],
        taps: Mapping[int, Tapped],
        redactor: Redactor | None,
    ) -> TimedResponse | None:
        if not isinstance(item, Event):
            return self.other(name, item if redactor is None else redacted_item(redactor, item))
        exchange, tap = found.get(item.id), taps.get(item.id)
        if exchange is None:
            return None
        if redactor is not None:
            exchange = redacted_exchange(redactor, exchange)
            tap = None if tap is None else redacted_tapped(redactor, tap)
        response = v1.GetEventsResponse(event=event_message(name, exchange, tap))
        return TimedResponse(exchange.event.at_ns, next(self._numbers), response)
