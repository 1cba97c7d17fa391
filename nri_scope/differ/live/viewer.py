# SPDX-License-Identifier: Apache-2.0
"""Follow a recording while another process writes it: attribute, query the CRI, and show."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from nri_scope.recording.reader import Recording

from ..attribution.differ import Differ
from .chain import ChainWatch
from .channel import (
    ChainSeen,
    Closed,
    CriPollingEnded,
    FinishAsking,
    Message,
    ReadPosition,
    ToRecorder,
)
from .cri_queue import Starting, is_gone, worth_asking
from .growing_recording import Follower, Seen

if TYPE_CHECKING:
    from .cri_thread import CriThread

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
        self._cri: CriThread | None = None
        self._starting = Starting()
        self._opened: ReadPosition | None = None
        self._finish_asking = False
        self._asking_finished = False
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
            case FinishAsking():
                self._finish_asking = True
            case Closed():
                self._closed = message
            case _:
                pass

    def ask(self, cri: Path) -> None:
        """Also query the CRI at this socket. Raises ConnectError or RpcError if there is no CRI."""
        from .cri_thread import CriThread

        self._cri = CriThread(cri, self._tell)

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
            if self._finish_asking and not self._asking_finished:
                # All events before the probes disconnected have been read now.
                self._asking_finished = True
                if self._cri is not None:
                    self._cri.want(self._starting.rest())
                    self._cri.finish()
                else:
                    self._tell(CriPollingEnded(0, 0))
            if self._cri is not None and not self._asking_finished:
                self._cri.want(self._starting.due(time.monotonic()))
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
        if self._cri is not None and not self._asking_finished:
            wanted = worth_asking(seen.event, seen.rounds)
            failed = self._starting.failed(seen.event, time.monotonic())
            self._cri.want({*wanted, failed} - {""})
            gone = is_gone(seen.event)
            if gone:
                self._cri.forget(gone)
        self._audience.show(follower.differ, seen)
        os.sched_yield()
