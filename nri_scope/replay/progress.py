# SPDX-License-Identifier: Apache-2.0
"""Progress of a running replay: events, and output of plugins between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from .result import PlayedEvent, PrintedLine, Replayed

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
