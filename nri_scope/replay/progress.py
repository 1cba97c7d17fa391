# SPDX-License-Identifier: Apache-2.0
"""Progress of a replay while it goes on: events begin and end, plugins print in between."""

from __future__ import annotations

from dataclasses import dataclass, field

from .result import PlayedEvent, PrintedLine, Replayed

LINES_KEPT = 1_000
"""Lines that are kept with one event. A plugin may print without end."""

LINES_KEPT_IN_ALL = 100_000
"""The same for a whole replay whose events are kept: about 20 MiB of ordinary lines."""


class Audience:
    """Hears of a replay as it goes on. Override what you want to hear."""

    def began(self, replayed: Replayed) -> None:
        """Note that the recording is open, and no plugin has been started yet."""

    def event(self, played: PlayedEvent) -> None:
        """Note that an event is over, with all replies and what was printed until then."""

    def line(self, line: PrintedLine) -> None:
        """Note that a plugin printed something after the last event."""


@dataclass(slots=True)
class Story:
    """The course of a replay, in order, reported to an audience and counted.

    With ``keep`` it is in the result too, else it is forgotten once it has been told.
    """

    result: Replayed
    audience: Audience
    keep: bool = True
    last_id: int = 0
    """The number of the newest event of the recording."""
    _current: PlayedEvent = field(default_factory=lambda: PlayedEvent(0, "", "", 0))
    _over: bool = True
    _room: int = field(default_factory=lambda: LINES_KEPT_IN_ALL)

    def begin(self, played: PlayedEvent) -> None:
        """Begin ``played``; what is printed belongs to it from now on."""
        self._current = played
        self._over = False
        self.last_id = played.event_id or self.last_id
        self._add(played)

    def end(self) -> None:
        """End it, if it is not already over."""
        if not self._over:
            self._over = True
            self._tell(self._current)

    def tell(self, played: PlayedEvent) -> None:
        """Report something that happened at once, beside the current event."""
        self._add(played)
        self._tell(played)

    def note(self, event: str, fault: str = "") -> None:
        """Begin something that is not an event and lasts; what is printed belongs to it."""
        self.begin(PlayedEvent(0, event, "", 0, fault=fault))
        self.end()

    def printed(self, line: PrintedLine) -> None:
        """Note that a plugin printed something."""
        if len(self._current.output) >= LINES_KEPT or not self._room:
            self._current.output_left_out += 1
            return
        if self.keep:
            # What is forgotten with its event takes no room any more.
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
