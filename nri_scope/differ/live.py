# SPDX-License-Identifier: Apache-2.0
"""Follow a recording that probes are writing: attribute its changes and show them.

In: the path of the growing file, messages of the recorder process. Out: rounds for a renderer. This
module runs in a process of its own, the viewer, and never replies to a runtime.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic_ns
from typing import NamedTuple, Protocol, TypeAlias

from nri_scope.events import Event, Session
from nri_scope.recording.query import lookup
from nri_scope.recording.query.log_rows import Log
from nri_scope.recording.reading.reader import Recording
from nri_scope.text.quantities import duration

from .attribution.attributed_changes import RoundDiff
from .attribution.differ import Differ
from .recording_differ import LaterOutcomes

POLL_SECONDS = 0.02
"""Time between two checks of the recording; a check of an unchanged file takes microseconds."""


class RoundListener(Protocol):
    """The receiver of finished rounds."""

    @property
    def has_no_reader(self) -> bool:
        """Whether the output was closed by its reader, which ends the viewer."""
        ...

    def show(self, differ: Differ, seen: Seen) -> None:
        """Show an event that was read, and the rounds that it completes."""
        ...


class Watcher:
    """Viewer of one recording, from the message `ReadPosition` to `Closed`."""

    def __init__(
        self,
        audience: RoundListener,
        say: Callable[[str], None],
    ) -> None:
        self._audience = audience
        self._say = say
        self._opened: ReadPosition | None = None
        self._closed: Closed | None = None

    @property
    def needless(self) -> bool:
        """Whether the file is to be removed."""
        return self._closed is not None and self._closed.needless

    def hear(self, message: Message) -> None:
        """Handle a message of the recorder. Thread-safe."""
        if isinstance(message, ReadPosition):
            self._opened = message
        else:
            self._closed = message

    def watch(self, path: Path, recorder_ended: Callable[[], bool]) -> bool:
        """Show the recording at ``path`` until it is complete or the output is closed.

        Return whether there was a recording. Raises RecordingError.
        """
        while self._opened is None:
            if recorder_ended():
                return False
            time.sleep(POLL_SECONDS)
        with Recording.open(path) as recording:
            self._follow(Follower(recording, self._opened), recorder_ended)
        return True

    def _follow(self, follower: Follower, recorder_ended: Callable[[], bool]) -> None:
        while not (self._closed or recorder_ended() or self._audience.has_no_reader):
            for seen in follower.read():
                self._take(follower, seen)
            words = follower.describe_open_round()
            if words:
                self._say(words)
            time.sleep(POLL_SECONDS)
        for seen in follower.finish():
            self._take(follower, seen)

    def _take(self, follower: Follower, seen: Seen) -> None:
        # Reading and showing take long; yield the processor to the runtime.
        os.sched_yield()
        self._audience.show(follower.differ, seen)
        os.sched_yield()


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
        self.differ = Differ(keep=False, around=LaterOutcomes(recording))
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
        round_ = self.differ.open
        if round_ is None or round_.first.id == self._said:
            return ""
        quiet_ns = self._monotonic_ns() - round_.parts[-1].event.mono_ns
        if quiet_ns < QUIET_NS:
            return ""
        self._said = round_.first.id
        name = self.differ.name_of(round_.first.container_id or round_.first.pod_id)
        seen = ", ".join(part.plugin for part in round_.parts)
        return (
            f"{round_.name} of {name}: seen by {seen}, by no other connection for "
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
        self.differ.replace_gaps(self._recording.gaps())
        for event, request, reply in self._recording.exchanges(after_id=self._after.event):
            if event.id > newest:
                break
            self._after = self._after._replace(event=event.id)
            yield Seen(event, request, tuple(self.differ.feed(event, request, reply)))


class ReadPosition(NamedTuple):
    """From the recorder: the file exists, and recording continues after this position."""

    event: int
    """The newest event's id; 0 for none."""
    session: int
    """The id of the last session; 0 for none."""

    @classmethod
    def end_of(cls, recording: Recording) -> ReadPosition:
        """Return the current end of a file to be continued, whose earlier events are not shown."""
        sessions = (session.id for session in recording.sessions())
        return cls(lookup.event_range(recording)[1], max(sessions, default=0))


class Closed(NamedTuple):
    """From the recorder: the recording is complete."""

    needless: bool
    """Whether the file is new and empty, as nri-scope never connected, and is to be removed."""


Message: TypeAlias = ReadPosition | Closed

_TYPES = (ReadPosition, Closed)


def encode(message: Message) -> tuple[int, bytes]:
    """Return the kind and payload of a message."""
    return _TYPES.index(type(message)), json.dumps(message).encode()


def decode(kind: int, payload: bytes) -> Message:
    """Return the message that `encode` turned into this kind and payload."""
    message: Message = _TYPES[kind](*json.loads(payload))
    return message
