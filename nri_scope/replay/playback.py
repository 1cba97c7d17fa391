# SPDX-License-Identifier: Apache-2.0
"""Options of a playback, its control by a debugger, and its progress, reported to a listener."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Protocol

from google.protobuf.message import Message

from .faults import NONE, Faults
from .result import PlayedEvent, PrintedLine, Replayed
from .script import ReplayStep

LINES_KEPT = 1_000
"""Maximum number of output lines stored with one event."""

LINES_KEPT_IN_ALL = 100_000
"""Maximum number of output lines stored in one replay: about 20 MiB of ordinary lines."""


class ReplayListener:
    """Receiver of a replay's progress. Override the methods of interest."""

    def began(self, replayed: Replayed) -> None:
        """Handle the start: the recording is open, and no plugin is started yet."""

    def notice(self, text: str) -> None:
        """Handle a message for the user, about how a plugin is started."""

    def lost(self, plugin: str, reason: str) -> None:
        """Handle a plugin that disconnected early, during a request or between two."""

    def event(self, played: PlayedEvent) -> None:
        """Handle a complete event, with all replies and the output so far."""

    def line(self, line: PrintedLine) -> None:
        """Handle a line that a plugin printed after the last event was reported."""

    def printed(self, line: PrintedLine) -> None:
        """Handle any line that a plugin printed, as soon as it was read."""


@dataclass(slots=True)
class ReplayProgress:
    """Events and output of a replay, reported to an audience in order, and counted.

    With ``keep``, events are also stored in the result.
    """

    result: Replayed
    audience: ReplayListener
    keep: bool = True
    last_id: int = 0
    """Number of the newest recorded event."""
    _current: PlayedEvent = field(default_factory=lambda: PlayedEvent(0, "", "", 0))
    _over: bool = True
    _unsettled: tuple[PlayedEvent, Callable[[], None]] | None = None
    _room: int = field(default_factory=lambda: LINES_KEPT_IN_ALL)
    meanwhile: Callable[[], None] | None = None
    """Called after a request was sent, while the plugin works on its reply; None to `settle`."""

    def begin(self, played: PlayedEvent) -> None:
        """Begin an event; later output is attributed to it."""
        self._current = played
        self._over = False
        self.last_id = played.event_id or self.last_id
        self._add(played)

    def end(self) -> None:
        """End the current event, unless it has already ended."""
        self.settle()
        if not self._over:
            self._over = True
            self._tell(self._current)

    def end_later(self, complete: Callable[[], None]) -> None:
        """End the current event; `settle` calls ``complete`` and reports it."""
        self._over = True
        self._unsettled = self._current, complete

    def settle(self) -> None:
        """Complete and report the event ended by `end_later`.

        Must be called before the next report, and before the next change of the world.
        """
        if self._unsettled is not None:
            (played, complete), self._unsettled = self._unsettled, None
            complete()
            self._tell(played)

    def sent(self) -> None:
        """Do deferred work, as a request was sent and the plugin works on its reply."""
        if self.meanwhile is not None:
            self.meanwhile()
        else:
            self.settle()

    def tell(self, played: PlayedEvent) -> None:
        """Report another event, without replacing the current one."""
        self.settle()
        self._add(played)
        self._tell(played)

    def note(self, event: str, fault: str = "", *, note: str = "") -> None:
        """Report an action that is not an event; later output is attributed to it."""
        self.begin(PlayedEvent(0, event, "", 0, fault=fault, note=note))
        self.end()

    def printed(self, line: PrintedLine) -> None:
        """Store a line that a plugin printed, within the limits."""
        self.settle()
        self.audience.printed(line)
        if len(self._current.output) >= LINES_KEPT or not self._room:
            self._current.output_left_out += 1
            return
        if self.keep:
            # Without ``keep``, lines are discarded with their event and need no limit.
            self._room -= 1
        self._current.output.append(line)
        if self._over:
            self.audience.line(line)

    def _add(self, played: PlayedEvent) -> None:
        if self.keep:
            self.result.events.append(played)

    def _tell(self, played: PlayedEvent) -> None:
        self.result.tally.count(played)
        self.audience.event(played)


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


def pause_s(before_ns: int, next_ns: int, speed: float) -> float:
    """Return the seconds to wait between events recorded at these times; none at infinite speed."""
    return max(0, next_ns - before_ns) / 1e9 / speed


@dataclass(frozen=True, slots=True)
class PlaybackOptions:
    """Options for playing a script."""

    speed: float | None = None
    """Speed of events in relation to the recorded times: 2 is twice as fast. None to send each as
    soon as the previous one is answered."""
    max_idle_s: float = inf
    """Maximum duration of a pause, in seconds."""
    faults: Faults = NONE
    effects: bool = True
    """Whether replies affect later requests; otherwise each request is sent as recorded."""
    max_took_ns: int = 0
    """Maximum response time that the user accepts; 0 for no limit but the deadline."""
    control: StepControl | None = None
    """Decides on each event, if set; it needs ``effects``."""
    timeout_s: float | None = None
    """Deadline of each request, in seconds; None for the recorded ones, infinity for none."""
