# SPDX-License-Identifier: Apache-2.0
"""Make responses of GetEvents from what a recording contains, with bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import count
from typing import NamedTuple

from nri_scope._gen.agent.nri_scope.agent import v1
from nri_scope.events import Event, Gap, Tapped
from nri_scope.recording.creation_outcomes import Outcome, stored_outcomes
from nri_scope.recording.reader import Recording
from nri_scope.recording.tap_tables import tapped
from nri_scope.recording.timeline import Item, time_of
from nri_scope.share.extract.exchanges import Exchange, Stopped, exchanges
from nri_scope.share.redaction import Redactor

from .cursor import is_of_ring
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

    def other(self, name: str, item: Item, *, began_ns: int = 0, passed: int = 0) -> TimedResponse:
        """Return the response for an item other than an event.

        ``began_ns``: that of its recording. ``passed``: last event that a gap accounts for.
        """
        response = response_of(name, item, began_ns)
        place = (name, passed, 0) if passed else None
        return TimedResponse(time_of(item), next(self._numbers), response, place)

    def responses(
        self,
        name: str,
        recording: Recording,
        items: Iterable[Item],
        began_ns: int,
        redaction: Redaction = _no_redaction,
    ) -> Iterator[TimedResponse]:
        """Yield the responses for items; ``redaction``: for those that are not redacted yet.
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
                yield from self._together(name, recording, waiting, began_ns, redaction)
                waiting, events, size = [], 0, 0
        yield from self._together(name, recording, waiting, began_ns, redaction)

    def _together(
        self,
        name: str,
        recording: Recording,
        items: Sequence[Item],
        began_ns: int,
        redaction: Redaction,
    ) -> Iterator[TimedResponse]:
        numbers = [item.id for item in items if isinstance(item, Event)]
        try:
            pages = list(exchanges(recording, numbers, until=max(numbers, default=0)))
        except Stopped as stopped:
            raise stopped.cause from stopped
        found = {one.event.id: one for page in pages for one in page}
        taps = {one.event: one for one in tapped(recording, numbers)}
        outcomes = stored_outcomes(recording, numbers)
        with redaction() as known:
            # Not yielded here: the redactor is for one thread at a time.
            responses = [
                self._response(
                    *(name, item, began_ns, found, taps, outcomes),
                    None if known is None else known.redactor,
                )
                for item in items
            ]
        yield from filter(None, responses)

    def _response(
        self,
        name: str,
        item: Item,
        began_ns: int,
        found: Mapping[int, Exchange],
        taps: Mapping[int, Tapped],
        outcomes: Mapping[int, Outcome],
        redactor: Redactor | None,
    ) -> TimedResponse | None:
        if not isinstance(item, Event):
            passed = (item.lost or 0) if isinstance(item, Gap) and is_of_ring(item) else 0
            item = item if redactor is None else redacted_item(redactor, item)
            return self.other(name, item, began_ns=began_ns, passed=passed)
        exchange, tap = found.get(item.id), taps.get(item.id)
        if exchange is None:
            return None
        if redactor is not None:
            exchange = redacted_exchange(redactor, exchange)
            tap = None if tap is None else redacted_tapped(redactor, tap)
        message = event_message(name, exchange, tap, outcomes.get(item.id))
        response = v1.GetEventsResponse(event=message)
        event = exchange.event
        place = name, event.id, event.at_ns
        return TimedResponse(event.at_ns, next(self._numbers), response, place)
