# SPDX-License-Identifier: Apache-2.0
"""Follow a recording while another process writes it: attribute and show."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from nri_scope.errors import UsageError
from nri_scope.events import Event
from nri_scope.nri.changes import consulted_plugins
from nri_scope.nri.identity import check_index
from nri_scope.nri.lifecycle import VALIDATE
from nri_scope.recording.reader import Recording

from ..attribution.differ import Differ
from .channel import ChainSeen, Closed, Message, ReadPosition, ToRecorder
from .growing_recording import Follower, Seen


class ChainWatch:
    """Detector of the plugins other than nri-scope's own connections."""

    def __init__(self, own_name: str) -> None:
        self._own_name = own_name
        self._known: tuple[str, ...] | None = None

    def look(self, event: Event, request: bytes) -> tuple[str, ...] | None:
        """Return the indices of all other plugins, ascending; None if unchanged or unknown."""
        if event.event != VALIDATE or event.mark:
            return None
        plugins = consulted_plugins(request)
        if plugins is None:
            return None
        found = tuple(sorted(index for index, name in plugins if name != self._own_name))
        if found == self._known:
            return None
        try:
            for index in found:
                check_index(index)
        except UsageError:
            return None
        self._known = found
        return found


POLL_SECONDS = 0.02
"""Time between two checks of the recording; a check of an unchanged file takes microseconds."""


class ReplayListener(Protocol):
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
        tell: Callable[[ToRecorder], None],
        audience: ReplayListener,
        say: Callable[[str], None],
        *,
        own_name: str,
    ) -> None:
        self._tell = tell
        self._audience = audience
        self._say = say
        self._chain = ChainWatch(own_name)
        self._opened: ReadPosition | None = None
        self._closed: Closed | None = None

    @property
    def needless(self) -> bool:
        """Whether the file is to be removed."""
        return self._closed is not None and self._closed.needless

    def hear(self, message: Message) -> None:
        """Handle a message of the recorder. Thread-safe."""
        match message:
            case ReadPosition():
                self._opened = message
            case Closed():
                self._closed = message
            case _:
                pass

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
        if seen.event is not None:
            chain = self._chain.look(seen.event, seen.request)
            if chain is not None:
                self._tell(ChainSeen(chain))
        self._audience.show(follower.differ, seen)
        os.sched_yield()
