# SPDX-License-Identifier: Apache-2.0
"""A writer in a process of its own, as seen from here.

Python lets one thread run at a time. With the writer in a thread, a reply that is due waits for it
now and then; with the writer in another process it never does.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from nri_scope.errors import NriScopeError, RecordingError
from nri_scope.recorder.inbox import Inbox
from nri_scope.recorder.model import Captured, Event
from nri_scope.recorder.pipe import Finish, Opened, Order, Pipe, Problem, Progress
from nri_scope.recorder.tally import Tally

COLLECT_SECONDS = 0.015
"""Of the time that a batch may take, what passes here."""
_EVENTS = 8
_BYTES = 64 << 10
"""What is sent at once: the more, the longer a reply may have to wait for it."""
_BUFFER = 1 << 20
_EXIT_SECONDS = 2.0


class Apart:
    """Moves what comes in from the inbox to a writer's process, until it is told to finish.

    To a `Recorder` it is what a `Worker` is.
    """

    def __init__(
        self,
        inbox: Inbox,
        order: Order,
        on_event: Callable[[Event, Captured], None] | None,
        on_problem: Callable[[str], None] | None,
    ) -> None:
        """Start the process and have it open the file. Raises what opening raises."""
        self.tally = Tally()
        self.removed = 0
        self._inbox = inbox
        self._path = order.path
        self._on_event = on_event
        self._on_problem = on_problem
        self._finishing = False
        self._seconds = 0.0
        self._sent = 0
        self._ended = threading.Event()
        self._process, self._pipe = _spawn(order.path)
        self._pipe.send(order)
        answer = self._pipe.receive()
        if not isinstance(answer, Opened):
            self._pipe.close()
            words = _exit_words(self._process)
            if isinstance(answer, NriScopeError):
                raise answer
            raise RecordingError(order.path, f"cannot record: the writer's process {words}")
        self.next_session = answer.next_session
        self._threads = [
            threading.Thread(target=self._move, name="nri-scope-sender", daemon=True),
            threading.Thread(target=self._listen, name="nri-scope-listener", daemon=True),
        ]

    def start(self) -> None:
        """Begin to work."""
        for thread in self._threads:
            thread.start()

    def finish(self, deadline: float) -> None:
        """Have everything written and end; what cannot be written by then (monotonic) is lost."""
        self._seconds = max(deadline - time.monotonic(), 0.0)
        self._finishing = True
        self._inbox.ring()

    def join(self, timeout: float) -> bool:
        """Wait for the end; returns whether it ended."""
        ended = self._ended.wait(timeout)
        if ended:
            self._pipe.close()
            _exit_words(self._process)
        return ended

    @property
    def in_hand(self) -> int:
        """Events sent to the writer of which nobody knows what became of them."""
        tally = self.tally
        return max(0, self._sent - tally.recorded - tally.filtered - tally.lost)

    # -- to the writer ------------------------------------------------------------------------

    def _move(self) -> None:
        inbox = self._inbox
        try:
            while True:
                if not inbox and not self._finishing:
                    inbox.settle()
                if not inbox:
                    if self._finishing:
                        break
                    inbox.sleep_while_empty(-1.0)
                    if inbox and not self._finishing:
                        inbox.sleep(COLLECT_SECONDS)
                entries = inbox.take(_EVENTS, _BYTES)
                if entries:
                    self._sent += sum(type(entry) is tuple for entry in entries)
                    self._pipe.send(entries)
                    inbox.done(entries)
            self._pipe.send(Finish(self._seconds))
        except OSError:
            # The listener knows more.
            return

    # -- from the writer ----------------------------------------------------------------------

    def _listen(self) -> None:
        last = False
        while (message := self._pipe.receive()) is not None:
            match message:
                case Progress():
                    self.tally, self.removed = message.tally, message.removed
                    self._inbox.reason = message.reason
                    last = message.last
                case Problem(text):
                    self._say(text)
                case (Event() as event, Captured() as item) if self._on_event is not None:
                    self._on_event(event, item)
                case _:
                    pass
        if not last:
            words = f"the writer's process {_exit_words(self._process)}"
            self._inbox.reason = words
            self._inbox.shut()
            self._say(f"{self._path}: recording has ended: {words}")
        self._ended.set()

    def _say(self, text: str) -> None:
        if self._on_problem is not None:
            try:
                self._on_problem(text)
            except Exception:  # noqa: BLE001 - nobody is left to be told
                self._on_problem = None


def _spawn(path: Path) -> tuple[subprocess.Popen[bytes], Pipe]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
    with theirs:
        try:
            process = subprocess.Popen(
                # -P: a module in the current folder must not be taken for one of ours.
                [sys.executable, "-P", "-m", "nri_scope.recorder.process", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                # What a terminal sends to us is ours to pass on.
                process_group=0,
            )
        except OSError as error:
            ours.close()
            raise RecordingError(
                path, f"cannot record: the writer's process cannot be started: {error.strerror}"
            ) from error
    return process, Pipe(ours)


def _exit_words(process: subprocess.Popen[bytes]) -> str:
    try:
        status = process.wait(_EXIT_SECONDS)
    except subprocess.TimeoutExpired:
        return "does not answer"
    if status < 0:
        return f"was killed by {signal.Signals(-status).name}"
    return f"ended with status {status}"
