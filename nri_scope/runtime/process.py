# SPDX-License-Identifier: Apache-2.0
"""The process of a plugin that the runtime launched, and what is known of it afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import signal
import socket
from dataclasses import dataclass
from time import monotonic_ns

from nri_scope.errors import UsageError

from .command import Command
from .output import LAST_KEPT, OnOutput, Output, Stream
from .spawn import Keeper, spawn_keeper

READ_SIZE = 64 << 10
"""Bytes of output that are read at once."""
READS_LAST = 16
"""Reads after the end: a pipe holds 64 KiB, or 1 MiB where the plugin made it larger."""
REPORT_MAX = 256 << 10
"""Bytes of one report of the keeper; it stays below that."""
LAST_SHOWN = 3
"""Last lines of a plugin's stderr that its connection's end is explained with."""


@dataclass(frozen=True, slots=True)
class LeftBehind:
    """A process that a plugin started and that was still there when the plugin was not.

    A real runtime would have left it running; here it is killed.
    """

    pid: int
    command: str
    """Its command line, control characters and all."""
    detached: bool
    """It had left the plugin's session, as daemons do."""


class Process:
    """A launched plugin's process. Make one with `Process.start`."""

    def __init__(
        self,
        command: Command,
        keeper: Keeper,
        on_output: OnOutput | None,
        *,
        pass_output: bool = False,
    ) -> None:
        self.pid = 0
        self.command = command.argv
        self.output = Output(self._tell if on_output is not None else None, passing=pass_output)
        self.exit_words = ""
        """``exit status 3`` or ``killed by SIGSEGV``; empty as long as it is running."""
        self.exit_code: int | None = None
        """As of `os.waitstatus_to_exitcode`: -9 for SIGKILL; None while it is running, or where
        nobody knows."""
        self.ending = False
        """The runtime has begun to end it."""
        self.ended_by_us = False
        """It was killed by the runtime, which is how launched plugins end."""
        self.left_behind: tuple[LeftBehind, ...] = ()
        """Complete when `wait_gone` returns."""
        self.survived = False
        """Something of it could not be killed."""
        self._on_output = on_output
        self._command = command
        self._keeper = keeper
        self._pipes = dict(keeper.pipes)
        self._clean = False
        self._exited = asyncio.Event()
        self._gone = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._started: asyncio.Future[None] = self._loop.create_future()
        # Asked after every event: one call, where reading would be an exception for each pipe.
        self._printed = select.poll()
        for stream, pipe in self._pipes.items():
            self._loop.add_reader(pipe, self._read, stream)
            self._printed.register(pipe, select.POLLIN)
        self._loop.add_reader(keeper.control, self._read_reports)

    @classmethod
    async def start(
        cls,
        command: Command,
        connection: socket.socket,
        on_output: OnOutput | None = None,
        *,
        pass_output: bool = False,
    ) -> Process:
        """Start ``command`` with ``connection`` as descriptor 3, and return once it runs.

        With ``pass_output`` what it prints is told as long as it runs, and only the last lines are
        kept. Raises `UsageError` when it cannot be started.
        """
        keeper = spawn_keeper(command, connection)
        process = cls(command, keeper, on_output, pass_output=pass_output)
        try:
            await process._started
        except BaseException:
            await process.kill()
            raise
        return process

    @property
    def running(self) -> bool:
        """The plugin itself has not ended yet."""
        return not self.exit_words

    async def wait_exit(self, timeout: float | None = None) -> None:
        """Wait until the plugin has ended, or for ``timeout`` seconds.

        What it started itself may still be there then.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._exited.wait()

    async def wait_gone(self) -> None:
        """Wait until nothing of it is left, which only `end` brings about."""
        await self._gone.wait()

    def end(self) -> None:
        """Begin to end it, in the only way that runtimes know: SIGKILL.

        It runs no further when this returns: called before its connection is closed it does not
        notice that any more. Its children get a moment to notice, then they are killed too, and
        reported.
        """
        if self._gone.is_set():
            return
        self.ending = True
        self._kill_plugin()
        with contextlib.suppress(OSError):
            self._keeper.control.shutdown(socket.SHUT_WR)

    async def kill(self) -> None:
        """End it, and wait until nothing of it is left."""
        self.end()
        await self.wait_gone()

    def hear_out(self) -> None:
        """Take what it has printed by now, not only what the event loop has noticed."""
        if self._printed.poll(0):
            self._read_rest()

    def explain(self, reason: str) -> str:
        """The reason why its connection ended, with how it ended itself if it did that first."""
        if self.running or self.ended_by_us:
            return reason
        # Not the lines with which Python underlines a place in the line before.
        said_last = [
            _printable(line.strip())
            for line in self.output.last(Stream.STDERR, LAST_KEPT)
            if any(map(str.isalnum, line))
        ]
        last = said_last[-LAST_SHOWN:]
        said = f"{_SAID}{' | '.join(last)}" if last else ""
        return f"{reason}{_ENDED}{self.exit_words}{said}"

    # -- following ----------------------------------------------------------------------------

    def _tell(self, stream: Stream, line: str, mono_ns: int) -> None:
        try:
            if self._on_output is not None:
                self._on_output(stream, line, mono_ns)
        except Exception as error:  # noqa: BLE001 - it is somebody else's code
            # We are in a callback of the loop, and what else it has to do must be done.
            context = {"message": "on_output failed", "exception": error}
            self._loop.call_exception_handler(context)

    def _read(self, stream: Stream) -> bool:
        """Read what is there once; whether there may be more."""
        pipe = self._pipes.get(stream)
        if pipe is None:
            return False
        try:
            data = os.read(pipe, READ_SIZE)
        except BlockingIOError:
            return False
        if data:
            self.output.feed(stream, data, monotonic_ns())
        else:
            self._close_pipe(stream)
        return bool(data)

    def _close_pipe(self, stream: Stream) -> None:
        pipe = self._pipes.pop(stream, None)
        if pipe is not None:
            self._loop.remove_reader(pipe)
            self._printed.unregister(pipe)
            os.close(pipe)
            self.output.finish(stream)

    def _read_rest(self) -> None:
        """Read what it printed before it ended. Children may go on printing: not for ever."""
        for stream in Stream:
            for _ in range(READS_LAST):
                if not self._read(stream):
                    break

    def _read_reports(self) -> None:
        while True:
            try:
                data = self._keeper.control.recv(REPORT_MAX)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self._keeper_ended()
                return
            self._take(json.loads(data))

    def _take(self, report: dict[str, object]) -> None:
        match report:
            case {"started": int(pid)}:
                self.pid = pid
                _settle(self._started)
            case {"failed": int(number), "step": str(step)}:
                _settle(self._started, self._command.problem(number, step))
            case {"exited": int(status)}:
                self._read_rest()
                self.ended_by_us = (
                    self.ending and os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
                )
                self.exit_code = os.waitstatus_to_exitcode(status)
                self._exit(exit_words(self.exit_code))
            case {"left": list(left)}:
                self.left_behind = tuple(_left_behind(one) for one in left)
            case {"gone": bool(gone)}:
                self._clean = True
                self.survived = not gone
            case _:
                pass

    def _exit(self, words: str) -> None:
        self.exit_words = words
        self._exited.set()

    def _kill_plugin(self) -> None:
        if self.pid and self.running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def _keeper_ended(self) -> None:
        self._loop.remove_reader(self._keeper.control)
        self._keeper.control.close()
        # Somebody who waits for any child of this process may have been faster.
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._keeper.pid, 0)
        if self.pid and not self._clean:
            # Somebody killed the keeper. What the plugin started cannot be found any more.
            self.survived = True
            self._kill_plugin()
        self._read_rest()
        for stream in Stream:
            self._close_pipe(stream)
        if self.running:
            self._exit("exit status unknown")
        words = " | ".join(self.output.last(Stream.STDERR, LAST_SHOWN))
        _settle(self._started, UsageError(f"plugins cannot be launched: {words or 'no reason'}"))
        self._gone.set()


_ENDED = ": the plugin ended, "
_SAID = "; its last words: "


def exit_in(explained: str) -> str:
    """The exit status or signal in what `Process.explain` said; "" where there is none."""
    return explained.partition(_ENDED)[2].partition(_SAID)[0]


def exit_words(code: int) -> str:
    """An exit code, negative for a signal, in words: ``exit status 3``, ``killed by SIGSEGV``."""
    if code >= 0:
        return f"exit status {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


def _settle(future: asyncio.Future[None], error: UsageError | None = None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)


def _left_behind(found: object) -> LeftBehind:
    match found:
        case [int(pid), str(command), bool(detached)]:
            return LeftBehind(pid, command, detached)
    raise TypeError(f"not a process: {found!r}")


def _printable(text: str) -> str:
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )
