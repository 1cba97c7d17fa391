# SPDX-License-Identifier: Apache-2.0
"""A recording read by the differ while it is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import monotonic_ns
from typing import NamedTuple

from nri_scope.differ.differ import Differ
from nri_scope.differ.model import RoundDiff
from nri_scope.nri.methods import DEFAULT_REQUEST_TIMEOUT_MS
from nri_scope.recorder import lookup
from nri_scope.recorder.creations import Creations
from nri_scope.recorder.log import Log
from nri_scope.recorder.model import Event, Session
from nri_scope.recorder.reader import Recording

from .place import Place


class Seen(NamedTuple):
    """An event as it was read, and what is over by it."""

    event: Event | None
    """None: nothing came, which also says that a round is over."""
    request: bytes
    rounds: tuple[RoundDiff, ...]


class Follower:
    """Feeds a `Differ` with what is new in a recording, again and again.

    For one thread. Everything raises RecordingError where the file is at fault.
    """

    def __init__(
        self,
        recording: Recording,
        after: Place,
        *,
        monotonic_ns: Callable[[], int] = monotonic_ns,
    ) -> None:
        """``monotonic_ns`` is the clock of the recording host."""
        self.differ = Differ(keep=False, outcome=Creations(recording).outcome)
        self._recording = recording
        self._news = Log(recording)
        self._monotonic_ns = monotonic_ns
        self._after = after
        self._sessions: dict[int, Session] = {}

    def read(self) -> Iterator[Seen]:
        """What came since the last time, and rounds that are over because nothing came."""
        if self._news.has_news():
            yield from self._read_new()
        event = self.differ.open_since
        if event is not None and self._monotonic_ns() - event.mono_ns > self._patience_ns(event):
            yield Seen(None, b"", tuple(self.differ.flush()))

    def finish(self) -> Iterator[Seen]:
        """What is left of a recording that is complete."""
        yield from self._read_new()
        over = tuple(self.differ.flush())
        if over:
            yield Seen(None, b"", over)

    def _read_new(self) -> Iterator[Seen]:
        # In this order: what is newer than the sessions we know of is for the next time.
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

    def _patience_ns(self, event: Event) -> int:
        """How long the runtime may take to ask the next plugin about an event: its deadline.

        The plugin that is asked may use it up, whether we see it or not.
        """
        session = self._sessions.get(event.session)
        deadline_ms = session.request_timeout_ms if session else 0
        return event.timeout_ns or (deadline_ms or DEFAULT_REQUEST_TIMEOUT_MS) * 1_000_000
