# SPDX-License-Identifier: Apache-2.0
"""Control of a replay by a debugger: what to do with each event, before and after it is sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from google.protobuf.message import Message

from .result import PlayedEvent
from .script import ReplayStep

SENT_AGAIN = "sent again"
"""`PlayedEvent.note` of an event that was sent again, with the same or another request."""
EDITED = "the request was edited"
"""`PlayedEvent.note` of an event whose request was edited."""
ANSWERED = "answered by hand in place of"
"""Start of `PlayedEvent.note` of an event that a decision answered; the plugins follow."""
SKIPPED = "skipped in the debugger"
"""`PlayedEvent.skipped` of an event that a decision skipped."""


@dataclass(frozen=True, slots=True)
class PendingEvent:
    """An event before it is sent."""

    event_id: int
    """Id in the recording; 0 for an event that the profile adds."""
    event: str
    """Name of the event."""
    subject: str
    """``namespace/pod`` or ``namespace/pod/container``; "" if it has neither."""
    step: ReplayStep
    """The recorded event, or that to which the profile adds this one."""
    request: Message | None
    """The request, with the adjustments of this replay's plugins; None if it cannot be decoded, and
    is sent as recorded. It must not be modified."""
    plugins: tuple[str, ...]
    """The plugins that subscribe to the event, in the order in which they are asked."""
    processes: tuple[tuple[str, int], ...] = ()
    """All plugins that this replay launched and their process ids."""


@dataclass(frozen=True, slots=True)
class StepDecision:
    """What to do with one event."""

    again: bool = False
    """Whether to send the event before again, and then ask for another decision. A creation that
    failed is not repeated for the runtime: it still sends no later events of that container."""
    request: Message | None = None
    """Request to send in place of the pending one, of the same type; None for the pending one."""
    skip: bool = False
    """Whether the event takes effect without being sent."""
    answers: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """Replies, serialised, to use without asking these plugins (``NN-name``)."""


SEND = StepDecision()
"""Send the event as it is."""


class StepControl(Protocol):
    """Caller that decides on each event of a replay."""

    async def before(self, pending: PendingEvent | None) -> StepDecision:
        """Return the decision on an event that is about to be sent; None for the end."""
        ...

    def after(self, pending: PendingEvent, played: PlayedEvent) -> None:
        """Handle an event that was sent, with all replies and the output so far."""
        ...
