# SPDX-License-Identifier: Apache-2.0
"""Feed a recording to the differ while it is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import monotonic_ns
from typing import NamedTuple

from nri_scope.events import Event, Session
from nri_scope.recording import lookup
from nri_scope.recording.creation_outcomes import Creations
from nri_scope.recording.display import duration
from nri_scope.recording.log_rows import Log
from nri_scope.recording.reader import Recording

from ..attribution.attributed_changes import RoundDiff
from ..attribution.differ import Differ
from .channel import ReadPosition

QUIET_NS = 10 * 10**9
"""Time without an event after which an open round is reported. Five plugins that use their whole
default deadline are rare."""


class Seen(NamedTuple):
    """An event as it was read, and the rounds that it completes."""

    event: Event | None
    """The event; None if rounds became complete without a further event."""
    request: bytes
    rounds: tuple[RoundDiff, ...]


class Follower:
    """Reader that feeds new events of a recording to a `Differ`.

    Not thread-safe. All methods raise RecordingError if the file is invalid.
    """

    def __init__(
        self,
        recording: Recording,
        after: ReadPosition,
        *,
        monotonic_ns: Callable[[], int] = monotonic_ns,
    ) -> None:
        """Follow a recording; ``monotonic_ns`` is the clock of the recording host."""
        self.differ = Differ(keep=False, outcome=Creations(recording).outcome)
        self._recording = recording
        self._news = Log(recording)
        self._monotonic_ns = monotonic_ns
        self._after = after
        self._sessions: dict[int, Session] = {}
        self._said = 0
        """First event of the round that `describe_open_round` described last."""

    def read(self) -> Iterator[Seen]:
        """Yield the events since the last call, with the rounds that they complete."""
        if not self._news.has_new_rows():
            return
        yield from self._read_new()
        if lookup.event_range(self._recording)[1] <= self._after.event:
            # The known sessions are as new as the events.
            over = tuple(self.differ.flush_over())
            if over:
                yield Seen(None, b"", over)

    def describe_open_round(self) -> str:
        """Describe a round that has been open for `QUIET_NS`, once; "" for none.

        The round may still continue: the number of further plugins is unknown.
        """
        one = self.differ.open
        if one is None or one.first.id == self._said:
            return ""
        quiet_ns = self._monotonic_ns() - one.stations[-1].event.mono_ns
        if quiet_ns < QUIET_NS:
            return ""
        self._said = one.first.id
        name = self.differ.name_of(one.first.container_id or one.first.pod_id)
        seen = ", ".join(station.plugin for station in one.stations)
        return (
            f"{one.name} of {name}: seen by {seen}, by no other connection for "
            f"{duration(quiet_ns)}; the event is shown when later events show its outcome"
        )

    def finish(self) -> Iterator[Seen]:
        """Yield the rest of a complete recording."""
        yield from self._read_new()
        over = tuple(self.differ.flush())
        if over:
            yield Seen(None, b"", over)

    def _read_new(self) -> Iterator[Seen]:
        # Before the sessions: events newer than these are left for the next call.
        newest = lookup.event_range(self._recording)[1]
        for session in self._recording.sessions():
            if session.id > self._after.session and self._sessions.get(session.id) != session:
                self._sessions[session.id] = session
                self.differ.begin(session)
        self.differ.lose(self._recording.gaps())
        for event, request, reply in self._recording.exchanges(after_id=self._after.event):
            if event.id > newest:
                break
            self._after = self._after._replace(event=event.id)
            yield Seen(event, request, tuple(self.differ.feed(event, request, reply)))
