# SPDX-License-Identifier: Apache-2.0
"""The writer as a process of its own: ``python -m nri_scope.recorder.process DESCRIPTOR``.

It ends when it is told to, and when the other end is gone: then it still writes what has come.
"""

from __future__ import annotations

import gc
import signal
import socket
import sys
import time

from nri_scope.errors import NriScopeError
from nri_scope.recorder.file import RecordingFile
from nri_scope.recorder.filter import parse
from nri_scope.recorder.inbox import Inbox
from nri_scope.recorder.model import Captured, Event
from nri_scope.recorder.pipe import Finish, Opened, Order, Pipe, Problem, Progress
from nri_scope.recorder.ring import Ring
from nri_scope.recorder.worker import Worker
from nri_scope.recorder.writing import Writing

AHEAD_BYTES = 4 << 20
"""What may wait here; the rest waits at the other end, where there is a bound."""
_PAUSE = 0.005
_NO_LIMIT = 1 << 62
ORPHANED_SECONDS = 10.0
"""How long to go on writing once the other end is gone."""


def main(descriptor: int) -> None:
    """Write until told otherwise."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # The other end is told by these as well, and knows what else there is to do.
        signal.signal(number, signal.SIG_IGN)
    pipe = Pipe(socket.socket(fileno=descriptor))
    order = pipe.receive()
    if not isinstance(order, Order):
        return
    try:
        writer = _Writer(pipe, order)
    except NriScopeError as error:
        pipe.send(error)
        return
    gc.collect()
    gc.freeze()
    writer.run()


class _Writer:
    def __init__(self, pipe: Pipe, order: Order) -> None:
        self._pipe = pipe
        self._inbox = Inbox(_NO_LIMIT)
        where = None if order.where is None else parse(order.where)
        writing = Writing(
            RecordingFile.open(order.path),
            Ring(order.max_size, order.max_age_seconds),
            None if where is None else where.matches,
            want_events=order.wants_events,
            background=True,
        )
        self._worker = Worker(
            self._inbox,
            writing,
            order.batch_seconds,
            self._stored if order.wants_events else None,
            lambda text: self._tell(Problem(text)),
        )
        self._told: Progress | None = None
        pipe.send(Opened(writing.next_session))
        self._worker.start()

    def run(self) -> None:
        """Take what comes, but not more than can be written."""
        seconds = ORPHANED_SECONDS
        while (message := self._pipe.receive()) is not None:
            if isinstance(message, Finish):
                seconds = message.seconds
                break
            assert isinstance(message, list)
            for entry in message:
                if isinstance(entry, tuple):
                    self._inbox.put(*entry)
                else:
                    self._inbox.tell(entry)
            self._report()
            while self._inbox.waiting_bytes > AHEAD_BYTES:
                time.sleep(_PAUSE)
                self._report()
        self._worker.finish(time.monotonic() + seconds)
        self._worker.join(seconds + 1.0)
        self._report(last=True)

    def _report(self, *, last: bool = False) -> None:
        progress = Progress(self._worker.tally, self._worker.removed, self._inbox.reason, last)
        if progress != self._told:
            self._tell(progress)
            self._told = progress

    def _stored(self, event: Event, item: Captured) -> None:
        self._tell((event, item))

    def _tell(self, message: Progress | Problem | tuple[Event, Captured]) -> None:
        try:
            self._pipe.send(message)
        except OSError:
            # Nobody is left to be told; what there is to write is written nevertheless.
            return


if __name__ == "__main__":
    main(int(sys.argv[1]))
