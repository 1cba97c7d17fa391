# SPDX-License-Identifier: Apache-2.0
"""Progress of a replay while it runs: events begin and end, plugins print in between."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from .result import PlayedEvent, PrintedLine, Replayed

LINES_KEPT = 1_000
"""Maximum lines kept with one event, as a plugin may print without end."""

LINES_KEPT_IN_ALL = 100_000
"""Maximum lines of a whole replay whose events are kept: about 20 MiB of ordinary lines."""


class Audience:
    """Receives the progress of a replay. Override the methods of interest."""

    def began(self, replayed: Replayed) -> None:
        """Note that the recording is open, and no plugin has been started yet."""

    def event(self, played: PlayedEvent) -> None:
        """Note that an event is complete, with all replies and the output until then."""

    def line(self, line: PrintedLine) -> None:
        """Note that a plugin printed a line after the last event."""


@dataclass(slots=True)
class ReplayProgress:
    """The course of a replay, in order, reported to an audience and counted.

    With ``keep`` it is in the result, too, otherwise it is discarded once reported.
    """

    result: Replayed
    audience: Audience
    keep: bool = True
    last_id: int = 0
    """The number of the newest event of the recording."""
    _current: PlayedEvent = field(default_factory=lambda: PlayedEvent(0, "", "", 0))
    _over: bool = True
    _unsettled: tuple[PlayedEvent, Callable[[], None]] | None = None
    _room: int = field(default_factory=lambda: LINES_KEPT_IN_ALL)

    def begin(self, played: PlayedEvent) -> None:
        """Begin ``played``; output belongs to it from now on."""
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
        """End the current event, which ``complete`` completes when it is settled."""
        self._over = True
        self._unsettled = self._current, complete

    def settle(self) -> None:
        """Complete and report the event that ended last: at the latest before anything else is
        reported, or happens to a container.
        """
        if self._unsettled is not None:
            (played, complete), self._unsettled = self._unsettled, None
            complete()
            self._tell(played)

    def tell(self, played: PlayedEvent) -> None:
        """Report an immediate event in addition to the current one."""
        self.settle()
        self._add(played)
        self._tell(played)

    def note(self, event: str, fault: str = "") -> None:
        """Begin a lasting action that is not an event; output belongs to it."""
        self.begin(PlayedEvent(0, event, "", 0, fault=fault))
        self.end()

    def printed(self, line: PrintedLine) -> None:
        """Note that a plugin printed a line."""
        self.settle()
        if len(self._current.output) >= LINES_KEPT or not self._room:
            self._current.output_left_out += 1
            return
        if self.keep:
            # Lines that are discarded with their event no longer count.
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
