# SPDX-License-Identifier: Apache-2.0
"""The recorder of ``tui --live``: a process of its own, so that no drawing keeps it waiting."""

from __future__ import annotations

import os
import select
import signal
import threading
import traceback
from contextlib import suppress
from time import monotonic
from typing import NoReturn, Self

from nri_scope.errors import NriScopeError, UsageError
from nri_scope.logger.background import Background
from nri_scope.logger.run import RecordOptions, record

FAILED = 2
"""Exit status of a recorder that could not do its work."""
NICER = 5
"""Steps of niceness between the process that answers the runtime and the one that draws."""
READY_SECONDS = 5.0
"""For the recorder to say that it records, waits or cannot."""
STOP_SECONDS = 30.0
"""For it to write what is left."""
_CHUNK = 1 << 16
_NOTICE, _FAILURE = "+", "!"


class RecorderProcess:
    """The recorder, as the process that draws sees it. For one thread; nothing here blocks but
    `ready` and `stop`.
    """

    def __init__(self, pid: int, words: int, control: int) -> None:
        """Use `fork`."""
        self._pid = pid
        self._words = words
        self._control = control
        self._waiting = b""
        self._over = False
        self._status: int | None = None
        self.latest = ""
        """What it told last."""
        self.notices: list[str] = []
        self.failure = ""
        """Why it could not do its work; "" where it can."""

    @classmethod
    def fork(cls, options: RecordOptions) -> Self:
        """Begin to record. To be called before there are threads or an event loop."""
        words, words_out = os.pipe()
        control_in, control = os.pipe()
        pid = os.fork()
        if not pid:
            os.close(words)
            os.close(control)
            _work(options, words_out, control_in)
        os.close(words_out)
        os.close(control_in)
        os.set_blocking(words, False)
        with suppress(OSError):
            # The one that answers the runtime goes first.
            os.nice(NICER)
        return cls(pid, words, control)

    @property
    def ended(self) -> bool:
        """Whether it records no more."""
        return self._over

    def ready(self, seconds: float = READY_SECONDS) -> None:
        """Wait until it said something. Raises UsageError where it cannot record."""
        until = monotonic() + seconds
        while not (self.latest or self._over) and (left := until - monotonic()) > 0:
            select.select([self._words], [], [], left)
            self.hear()
        self._check()

    def hear(self) -> None:
        """Take what it said meanwhile."""
        while not self._over:
            try:
                chunk = os.read(self._words, _CHUNK)
            except BlockingIOError:
                return
            if not chunk:
                self._over = True
            *lines, self._waiting = (self._waiting + chunk).split(b"\n")
            for line in lines:
                self._take(line.decode(errors="replace"))

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        """Have it write what is left, and wait for its end. Raises UsageError where it failed."""
        self._signal(signal.SIGINT)
        until = monotonic() + seconds
        while not self._over and (left := until - monotonic()) > 0:
            select.select([self._words], [], [], left)
            self.hear()
        if not self._over:
            self._signal(signal.SIGKILL)
        self.close()
        self._check()

    def close(self) -> None:
        """Wait for the end of a process that has ended, and leave no descriptor behind."""
        if self._status is None:
            _, status = os.waitpid(self._pid, 0)
            self._status = os.waitstatus_to_exitcode(status)
            os.close(self._words)
            os.close(self._control)

    def _signal(self, number: signal.Signals) -> None:
        if self._status is None:
            with suppress(ProcessLookupError):
                os.kill(self._pid, number)

    def _take(self, line: str) -> None:
        if line[:1] == _FAILURE:
            self.failure = line[1:]
        self.latest = line[1:]
        self.notices.append(line[1:])
        del self.notices[:-100]

    def _check(self) -> None:
        if self.failure:
            raise UsageError(self.failure)


def _work(options: RecordOptions, words: int, control: int) -> NoReturn:
    status = FAILED
    try:
        # No key of the terminal ends it: the process that draws says when it is over.
        os.setsid()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nowhere, descriptor)
        status = _record(options, words, control)
    except BaseException as error:  # noqa: BLE001 - nothing of the other process may run on here
        _write(words, _FAILURE, "".join(traceback.format_exception_only(error)))
    finally:
        os._exit(status)


def _record(options: RecordOptions, words: int, control: int) -> int:
    # In the background: a screen that stands still must not keep the runtime waiting.
    notices: Background[str] = Background(
        lambda text: _write(words, _NOTICE, text), waiting_max=200
    )
    threading.Thread(target=_leave_with, args=(control,), name="control", daemon=True).start()
    try:
        record(options, notices.put)
    except NriScopeError as error:
        notices.close()
        _write(words, _FAILURE, str(error))
        return FAILED
    notices.close()
    return 0


def _leave_with(control: int) -> None:
    """End in good order when the other process is gone, however that came."""
    while os.read(control, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def _write(words: int, kind: str, text: str) -> None:
    line = kind + " ".join(text.split()) + "\n"
    with suppress(OSError):
        os.write(words, line.encode(errors="replace"))
