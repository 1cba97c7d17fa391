# SPDX-License-Identifier: Apache-2.0
"""The recorder of a command that shows what is recorded, as a process of its own.

``tui --live`` and ``diff --live`` share this arrangement: the command itself is the viewer, which
has the terminal and its signals; the recorder answers the runtime and writes the file; the viewer
reads that file. Over the channel between them the recorder tells what a user wants to know, and
either may tell what its own kind of recorder adds. A recorder ends in good order when it is sent a
stop signal, and when the viewer is gone, however that came.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import threading
import traceback
from collections.abc import Callable
from typing import Any

from nri_scope.errors import NriScopeError, UsageError
from nri_scope.process.channel import ThreadChannel
from nri_scope.process.child import keep_exit_statuses, spawn

from .background_output import Background
from .run import RecordOptions, record

FAILED = 2
"""Exit status of a recorder that could not do its work."""
READY_SECONDS = 15.0
"""For the recorder to say that it records, waits or cannot."""
STOP_SECONDS = 30.0
"""For it to write what is left."""
END_SECONDS = 2.0
"""For a process that has nothing left to do."""
NOTICES_MAX = 200
"""Messages that may wait for a viewer that stands still."""
_OPTIONS, _NOTICE, _FAILURE, _OWN = range(4)
"""Kinds of messages; from the last one on are those of one kind of recorder, from 0 for it."""


class RecorderProcess:
    """The recorder, as the viewer sees it. Nothing here blocks but `ready` and `stop`."""

    def __init__(
        self,
        module: str,
        *,
        nicer: int,
        on_notice: Callable[[str], None] = lambda text: None,
        on_message: Callable[[int, bytes], None] = lambda kind, payload: None,
    ) -> None:
        """Start the process, which calls ``main`` of ``module``; it waits for `begin`.

        ``nicer``: steps of niceness between it and this one, as the one that answers the runtime
        goes first. The other two are called in another thread. Raises UsageError.
        """
        self.latest = ""
        """What it told last."""
        self.failure = ""
        """Why it could not do its work; "" where it can."""
        self._on_notice = on_notice
        self._on_message = on_message
        self._asked_to_stop = 0
        self._told = threading.Event()
        keep_exit_statuses()
        self._child = spawn(
            module,
            failure="the process that records cannot be started",
            # It learns of that by its channel, but not while it is stopped.
            on_parents_death=signal.SIGCONT,
        )
        self._channel = ThreadChannel(self._child.socket)
        os.nice(nicer)
        self._listening = threading.Thread(target=self._listen, name="recorder", daemon=True)
        self._listening.start()

    @property
    def ended(self) -> bool:
        """Whether it records no more."""
        return not self._listening.is_alive()

    def begin(self, options: object) -> None:
        """Have it record; it gets a copy of ``options``."""
        self._channel.send(_OPTIONS, pickle.dumps(options))

    def tell(self, kind: int, payload: bytes) -> None:
        """Tell it something; one that has ended does not hear it."""
        self._channel.send(_OWN + kind, payload)

    def signal(self, number: int) -> None:
        """Pass a stop signal on."""
        self._asked_to_stop = number
        self._child.signal(number)
        # One that was stopped has something to bring to an end, too.
        self._child.signal(signal.SIGCONT)

    def ready(self, seconds: float = READY_SECONDS) -> None:
        """Wait until it said something. Raises UsageError where it cannot record."""
        self._told.wait(seconds)
        self.check()

    def stop(self, number: int = 0, seconds: float = STOP_SECONDS) -> None:
        """Wait until it has written what is left and has ended, after a signal if one is given.

        Where that takes longer than ``seconds`` it is ended all the same.
        """
        if number and not self.ended:
            self.signal(number)
        self._listening.join(seconds)
        end = self._child.stop(END_SECONDS if self.ended else 0)
        if end.code not in (0, -self._asked_to_stop) and not self.failure:
            self.failure = f"the process that records has ended, {end.words}"

    def check(self) -> None:
        """Raise UsageError where it could not do its work."""
        if self.failure:
            raise UsageError(self.failure)

    def _listen(self) -> None:
        while (told := self._channel.receive()) is not None:
            kind, payload = told
            if kind >= _OWN:
                self._on_message(kind - _OWN, payload)
                continue
            text = payload.decode(errors="replace")
            if kind == _FAILURE:
                self.failure = text
            else:
                self._on_notice(text)
            self.latest = text
            self._told.set()
        self._told.set()


class Viewer:
    """The viewer, as the recorder sees it, for any thread; nothing here blocks.

    A viewer that stands still must not keep the runtime waiting: what it is told is skipped then.
    """

    def __init__(self, descriptor: int) -> None:
        self._channel = ThreadChannel(socket.socket(fileno=descriptor))
        self._telling = Background(self._send, waiting_max=NOTICES_MAX)
        self._early: list[tuple[int, bytes]] = []

    def options(self) -> Any:
        """Wait for the options; None where the viewer is gone instead."""
        while (told := self._channel.receive()) is not None:
            if told[0] == _OPTIONS:
                return pickle.loads(told[1])
            self._early.append(told)
        return None

    def say(self, text: str) -> None:
        """Tell what a user wants to know."""
        self._telling.put((_NOTICE, _line(text)))

    def tell(self, kind: int, payload: bytes) -> None:
        """Tell something else."""
        self._telling.put((_OWN + kind, payload))

    def fail(self, text: str) -> None:
        """Tell why the work cannot be done."""
        self._telling.put((_FAILURE, _line(text)))

    def listen(self, on_message: Callable[[int, bytes], None], on_gone: Callable[[], None]) -> None:
        """Have another thread call these with what the viewer tells, and when it is gone."""

        def work() -> None:
            for kind, payload in self._early:
                on_message(kind - _OWN, payload)
            while (told := self._channel.receive()) is not None:
                on_message(told[0] - _OWN, told[1])
            on_gone()

        threading.Thread(target=work, name="viewer", daemon=True).start()

    def close(self) -> None:
        """Tell what still waits, for a moment at most."""
        self._telling.close()

    def _send(self, told: tuple[int, bytes]) -> None:
        self._channel.send(*told)


def _line(text: str) -> bytes:
    return " ".join(text.split()).encode(errors="replace")


def serve(descriptor: int, work: Callable[[Viewer, Any], None]) -> int:
    """Do ``work`` with the options that the viewer sends; returns the exit status.

    What it raises is told to the viewer. A viewer that is gone before has nothing to record.
    """
    viewer = Viewer(descriptor)
    try:
        options = viewer.options()
        if options is not None:
            work(viewer, options)
        return 0
    except KeyboardInterrupt:
        # Before there was anything to bring to an end.
        return 0
    except NriScopeError as error:
        viewer.fail(str(error))
    except BaseException as error:  # noqa: BLE001 - it has no other place to tell it
        viewer.fail("internal error: " + "".join(traceback.format_exception_only(error)))
    finally:
        viewer.close()
    return FAILED


def main(descriptor: int) -> int:
    """Run the recorder of ``tui --live``."""
    return serve(descriptor, _record)


def _record(viewer: Viewer, options: RecordOptions) -> None:
    viewer.listen(lambda kind, payload: None, lambda: os.kill(os.getpid(), signal.SIGTERM))
    record(options, viewer.say)
