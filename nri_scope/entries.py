# SPDX-License-Identifier: Apache-2.0
"""What happens in a recording, as one stream of entries.

Readers yield these entries (`recording.reading.entries`), `recorder.complete_recording` writes
them, `share.redacted_entries` redacts them, and formats and the agent translate them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from nri_scope.events import (
    CONTAINER_STATUS,
    CapturedCall,
    Container,
    Event,
    Gap,
    Note,
    Pod,
    Printed,
    Session,
    Tapped,
    UserMark,
)

NEVER_CREATED = "the container was not created"


class OperationFate(Enum):
    """Result of a creation or an update."""

    CREATED = "created"
    FAILED = "failed"
    OPEN = "open"
    """The session ended before any event showed the result."""
    UNKNOWN = "unknown"
    """No event shows the result so far."""


class OperationOutcome(NamedTuple):
    """Outcome of a creation or an update, with the evidence."""

    fate: OperationFate
    event: int = 0
    """For FAILED: id of the event that shows the failure; 0 if a copy has another number for it."""
    name: str = ""
    """For FAILED: name of that event; "" if the failure is visible in StopContainer's container."""
    session: int = 0
    """For OPEN: id of the session that ended."""
    after_ns: int = 0
    """For OPEN: time from CreateContainer to the end of the session, in ns."""

    @property
    def words(self) -> str:
        """Reason for FAILED or OPEN; "" for others."""
        return self.words_of("CreateContainer")

    def words_of(self, operation: str) -> str:
        """Return the reason for FAILED or OPEN of this kind of event; "" for others."""
        event = f" (event {self.event})" if self.event else ""
        match self.fate:
            case OperationFate.FAILED if self.name == CONTAINER_STATUS:
                return f"{NEVER_CREATED}, by the CRI's answer{event}"
            case OperationFate.FAILED if self.name:
                return f"{self.name} followed instead of Post{operation}{event}"
            case OperationFate.FAILED:
                return f"{NEVER_CREATED}, as StopContainer shows it{event}"
            case OperationFate.OPEN:
                return f"Post{operation} had not come when session {self.session} ended"
        return ""


@dataclass(frozen=True, slots=True)
class Began:
    """Start of a session, before its first event."""

    session: Session


@dataclass(frozen=True, slots=True)
class Ended:
    """End of a session whose `Began` came earlier in the stream."""

    session: Session


class SubjectKeys(NamedTuple):
    """Keys of the `Pod` and `Container` entries that an event is about."""

    pod: int | None
    container: int | None
    updated: tuple[int, ...] = ()
    """Other containers that the event updates."""


class Omitted(NamedTuple):
    """Events of a session that were recorded between two events of a part of the recording."""

    seq: int
    """Position of the last one in its session."""
    events: int
    """How many there are."""


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """An event with everything that is recorded of it."""

    event: Event
    """``seq`` 0: one more than that of the session's last event in the stream."""
    request: bytes
    reply: bytes
    service: str = ""
    """The ttRPC service of the call; "" for the method's usual service."""
    tapped: Tapped | None = None
    outcome: OperationOutcome | None = None
    """Of a creation or an update whose later events are not all in the stream."""
    keys: SubjectKeys | None = None
    """None: the messages and the names in ``event`` tell the subjects."""
    omitted: Omitted | None = None
    """Events before this one that are not in the stream, which is a part of a recording."""

    @property
    def call(self) -> CapturedCall:
        """The event as it was captured."""
        event, tapped = self.event, self.tapped
        return CapturedCall(
            wall_ns=event.at_ns,
            mono_ns=event.mono_ns,
            method=event.method,
            request=self.request,
            reply=self.reply,
            status_code=event.status_code,
            status_message=event.status_message,
            took_ns=event.took_ns,
            timeout_ns=event.timeout_ns,
            service=self.service,
            held_ns=None if tapped is None else tapped.held_ns,
            metadata=() if tapped is None else tapped.metadata,
        )


@dataclass(frozen=True, slots=True)
class EarlierState:
    """What a session was sent in a part of Synchronize whose event is not in the recording."""

    session: int
    event: int
    at_ns: int | None
    """Wall clock time of the last part; None before it."""
    request: bytes
    """A SynchronizeRequest."""


@dataclass(frozen=True, slots=True)
class CallsByMetrics:
    """Calls of plugins by the runtime's metrics, which replace those with the same ``since_ns``."""

    since_ns: int
    until_ns: int
    calls: tuple[tuple[str, str, int, int, int], ...]
    """Plugin, operation, calls, errors, total time in ns."""


Item = Event | Gap | Began | Ended | Note | Printed
"""Entry of a log: its events have no messages."""
Entry = (
    Pod
    | Container
    | Began
    | EarlierState
    | RecordedCall
    | Gap
    | Note
    | UserMark
    | Printed
    | CallsByMetrics
    | Ended
)
"""Entry of a recording. A `Pod` precedes its containers, a `Began` the entries of its session."""


def time_of(item: Item) -> int:
    """Return the time of an item; for a gap, its start."""
    match item:
        case Began(session):
            return session.started_ns
        case Ended(session):
            return session.ended_ns or session.started_ns
        case Gap():
            return item.from_ns
        case _:
            return item.at_ns
