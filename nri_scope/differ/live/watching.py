# SPDX-License-Identifier: Apache-2.0
"""The process beside the one that answers the runtime: it reads, thinks, asks and shows."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from nri_scope.differ.differ import Differ
from nri_scope.errors import NriScopeError
from nri_scope.recorder.reader import Recording

from .chain import ChainWatch
from .channel import Asked, ChainSeen, Closed, Failed, FinishAsking, Open, Ready, Waits, WatcherEnd
from .following import Follower, Seen
from .questions import Starting, is_gone, worth_asking

if TYPE_CHECKING:
    from .cri_thread import CriThread

POLL_SECONDS = 0.02
"""Between two looks at the recording, which cost microseconds where nothing came."""
LEFT_ALONE_SECONDS = 5.0
"""For showing what is there when the other process was killed."""


class Audience(Protocol):
    """Who is shown what is over."""

    @property
    def nobody_reads(self) -> bool:
        """Whether there is nobody left: that ends it all."""
        ...

    def show(self, differ: Differ, seen: Seen) -> None:
        """An event that was read, and what is over by it."""
        ...


class Watcher:
    """Follows one recording from `Open` to `Closed`."""

    def __init__(
        self,
        end: WatcherEnd,
        audience: Audience,
        *,
        own_name: str,
        cri: Path | None,
        abandoned: Callable[[], None],
    ) -> None:
        """``abandoned`` is called when the other process has gone and showing takes too long."""
        self._end = end
        self._audience = audience
        self._abandoned = abandoned
        self._chain = ChainWatch(own_name)
        self._cri_path = cri
        self._cri: CriThread | None = None
        self._starting = Starting()
        self._news = threading.Event()
        self._finish_asking = False
        self._asking_finished = False
        self._complete = False
        self.opened = False
        """Whether there was a recording to look at."""
        self.left_alone = False
        """Whether the other process ended without a word."""

    def run(self) -> bool:
        """Watch; returns whether all went well. What did not is told to the other process."""
        try:
            if self._cri_path is not None:
                from .cri_thread import CriThread

                self._cri = CriThread(self._cri_path, self._end)
            self._end.send(Ready())
            opened = self._end.receive()
            if not isinstance(opened, Open):
                self.left_alone = opened is None
                return True
            self.opened = True
            threading.Thread(target=self._listen, name="control", daemon=True).start()
            with Recording.open(opened.path) as recording:
                self._follow(Follower(recording, opened.after))
        except NriScopeError as error:
            self._end.send(Failed(error))
            return False
        return True

    def _follow(self, follower: Follower) -> None:
        while not self._complete and not self._audience.nobody_reads:
            for seen in follower.read():
                self._take(follower, seen)
            words = follower.waits()
            if words:
                self._end.send(Waits(words))
            if self._finish_asking and not self._asking_finished:
                # Only now: what came until the probes left has been read.
                self._asking_finished = True
                if self._cri is not None:
                    self._cri.want(self._starting.rest())
                    self._cri.finish()
                else:
                    self._end.send(Asked(0, 0))
            if self._cri is not None and not self._asking_finished:
                self._cri.want(self._starting.due(time.monotonic()))
            self._news.wait(POLL_SECONDS)
        for seen in follower.finish():
            self._take(follower, seen)

    def _take(self, follower: Follower, seen: Seen) -> None:
        # Reading and showing take long; whoever waits for this processor may be the runtime.
        os.sched_yield()
        if seen.event is not None:
            chain = self._chain.look(seen.event, seen.request)
            if chain is not None:
                self._end.send(ChainSeen(chain))
        if self._cri is not None and not self._asking_finished:
            wanted = worth_asking(seen.event, seen.rounds)
            failed = self._starting.failed(seen.event, time.monotonic())
            self._cri.want({*wanted, failed} - {""})
            gone = is_gone(seen.event)
            if gone:
                self._cri.forget(gone)
        self._audience.show(follower.differ, seen)
        os.sched_yield()

    def _listen(self) -> None:
        while True:
            match self._end.receive():
                case FinishAsking():
                    self._finish_asking = True
                case Closed():
                    self._complete = True
                    self._news.set()
                    return
                case None:
                    self.left_alone = self._complete = True
                    self._news.set()
                    time.sleep(LEFT_ALONE_SECONDS)
                    self._abandoned()
                    return
                case _:
                    pass
