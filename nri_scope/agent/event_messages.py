# SPDX-License-Identifier: Apache-2.0
"""Convert what a recording contains to messages of the agent's service, with bounded memory.

What was recorded since a call began is redacted before, as `record --redact` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields, replace
from itertools import count
from typing import Any, NamedTuple

from nri_scope._gen.agent.nri_scope.agent import v1
from nri_scope.events import Event, Gap, Note, Printed, Session, Tapped
from nri_scope.recorder.complete_recording import start_values
from nri_scope.recording.creation_outcomes import Outcome, stored_outcomes
from nri_scope.recording.reader import Recording
from nri_scope.recording.tap_tables import tapped
from nri_scope.recording.timeline import Began, Ended, Item, time_of
from nri_scope.share.extract.exchanges import Exchange, Stopped, exchanges
from nri_scope.share.extract.message_changes import is_known
from nri_scope.share.redaction import NameKind, Redactor

from .cursor import is_of_ring
from .redactors import SharedRedactor

_LISTS = {"changed", "owners"}
_SAME = {one.name for one in fields(v1.Event)} & {one.name for one in fields(Event)} - _LISTS
"""Fields of an event that its message has, too."""


def session_message(recording: str, session: Session, began_ns: int = 0) -> v1.Session:
    """Return the message of a session; ``began_ns``: that of its recording."""
    return v1.Session(
        recording=recording,
        id=session.id,
        recording_began_ns=began_ns,
        **start_values(session),
    )


def event_message(
    recording: str, exchange: Exchange, tapped: Tapped | None, outcome: Outcome | None
) -> v1.Event:
    """Return the message of an event; ``outcome``: that of a creation in a part of a recording."""
    event = exchange.event
    same: dict[str, Any] = {name: getattr(event, name) for name in _SAME}
    return v1.Event(
        recording=recording,
        **same,
        request=exchange.request,
        reply=exchange.reply,
        service=exchange.service,
        changed=list(event.changed),
        owners=list(event.owners),
        held_ns=None if tapped is None else tapped.held_ns,
        metadata=[
            v1.Metadata(key=key, value=value)
            for key, value in (() if tapped is None else tapped.metadata)
        ],
        outcome=None
        if outcome is None
        else v1.CreationOutcome(
            fate=outcome.fate.value,
            event=outcome.event,
            name=outcome.name,
            session=outcome.session,
            after_ns=outcome.after_ns,
        ),
    )


def response_of(recording: str, item: Item, began_ns: int = 0) -> v1.GetEventsResponse:
    """Return the response for an item other than an event, without its cursor; ``began_ns``: that
    of the recording.
    """
    match item:
        case Began(session):
            return v1.GetEventsResponse(session=session_message(recording, session, began_ns))
        case Ended(session):
            return v1.GetEventsResponse(
                session_end=v1.SessionEnd(
                    recording=recording,
                    id=session.id,
                    reason=session.end_reason,
                    ended_ns=session.ended_ns,
                )
            )
        case Gap():
            return v1.GetEventsResponse(
                gap=v1.Gap(
                    recording=recording,
                    session=item.session,
                    from_ns=item.from_ns,
                    to_ns=item.to_ns,
                    reason=item.reason,
                    lost=item.lost,
                )
            )
        case Note():
            return v1.GetEventsResponse(
                note=v1.Note(
                    recording=recording, session=item.session, at_ns=item.at_ns, text=item.text
                )
            )
        case Printed():
            return v1.GetEventsResponse(
                output=v1.PluginOutput(
                    recording=recording,
                    session=item.session,
                    at_ns=item.at_ns,
                    stream=item.stream,
                    text=item.text,
                    id=item.id,
                )
            )
        case Event():
            raise TypeError("an event needs its messages")


def redacted_item(redactor: Redactor, item: Item) -> Item:
    """Return an item other than an event, redacted."""
    match item:
        case Began(session):
            return Began(redacted_session(redactor, session))
        case Ended(session):
            reason = redactor.text(session.end_reason, "session.end_reason")
            return Ended(replace(session, end_reason=reason))
        case Gap():
            return replace(item, reason=redactor.text(item.reason, "gap.reason"))
        case Note():
            return replace(item, text=redactor.text(item.text, "note.text"))
        case Printed():
            return item._replace(text=redactor.text(item.text, "output.text"))
        case Event():
            raise TypeError("an event needs its messages")


def redacted_session(redactor: Redactor, session: Session) -> Session:
    """Return a session with redacted names."""
    names: dict[str, Any] = redactor.session_names(session)
    return replace(session, **names)


def redacted_tapped(redactor: Redactor, one: Tapped) -> Tapped:
    """Return what a tap recorded of an event, redacted."""
    metadata = tuple(redactor.keyed(key, value, "tapped.metadata") for key, value in one.metadata)
    return one._replace(metadata=metadata)


def redacted_exchange(redactor: Redactor, one: Exchange) -> Exchange:
    """Return an event, redacted."""
    event = one.event
    # The request must come first: it sets the container to which the other texts belong.
    request = redactor.request(event.method, one.request, service=one.service)
    reply = redactor.reply(event.method, one.reply, service=one.service) if one.reply else b""

    def known(text: str, place: str) -> str:
        return text if is_known(text) else redactor.text(text, place)

    texts: dict[str, Any] = redactor.event_texts(event)
    changed = replace(
        event,
        plugin=redactor.name(NameKind.PLUGIN, event.plugin),
        runtime=redactor.name(NameKind.RUNTIME, event.runtime),
        method=known(event.method, "event.method"),
        event=known(event.event, "event.event"),
        namespace=redactor.name(NameKind.NAMESPACE, event.namespace),
        pod=redactor.name(NameKind.POD, event.pod),
        container=redactor.name(NameKind.CONTAINER, event.container),
        pod_id=redactor.id(event.pod_id),
        container_id=redactor.id(event.container_id),
        changed=tuple(map(redactor.path, event.changed)),
        owners=tuple(redactor.name(NameKind.PLUGIN, title) for title in event.owners),
        **texts,
    )
    service = known(one.service, "event.service") if one.service else ""
    return one._replace(event=changed, request=request, reply=reply, service=service)


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
