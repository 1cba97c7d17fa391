# SPDX-License-Identifier: Apache-2.0
"""Processes of launched plugins, with their output and exit status."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import select
import signal
import socket
from dataclasses import dataclass
from time import monotonic_ns

from nri_scope.end_reasons import EXIT_STATUS, with_exit
from nri_scope.errors import UsageError, reason_of
from nri_scope.process.channel import LoopChannel
from nri_scope.process.child import Child, describe_exit, spawn
from nri_scope.text.escape import safe

from .command import PluginProgram
from .output import LAST_KEPT, OnOutput, ProcessOutput, Stream

READ_SIZE = 64 << 10
"""Maximum bytes of output per read."""
READS_LAST = 16
"""Maximum reads after the process ended; enough for a pipe of 64 KiB, or of 1 MiB if enlarged."""
KEEPER_ENDS_S = 10.0
"""Seconds in which a keeper must end after it closed its channel."""
GRACE_S = 1.0
"""Default seconds in which a plugin may end by itself, and again after SIGTERM."""
LAST_SHOWN = 3
"""Number of last lines of stderr in the reason why a plugin's connection ended."""


@dataclass(frozen=True, slots=True)
class LeftBehind:
    """Process that was started by a plugin and outlived it.

    Real runtimes leave it running; here it is killed.
    """

    pid: int
    command: str
    """Command line, with control characters as they are."""
    detached: bool
    """Whether it left the plugin's session (setsid), as daemons do."""


class Process:
    """Process of a launched plugin, created by `Process.start`."""

    def __init__(
        self,
        command: PluginProgram,
        keeper: Child,
        pipes: dict[Stream, int],
        on_output: OnOutput | None,
        *,
        pass_output: bool = False,
    ) -> None:
        self.pid = 0
        self.command = command.argv
        self.output = ProcessOutput(
            self._forward if on_output is not None else None, passing=pass_output
        )
        self.exit_words = ""
        """``exit status 3`` or ``killed by SIGSEGV``; empty while it is running."""
        self.exit_code: int | None = None
        """Exit status, negative for a signal (`os.waitstatus_to_exitcode`); None if the process is
        running or its status is unknown."""
        self.closing = False
        """Whether the runtime closed the plugin's connection for the plugin to end by itself; set
        by the caller."""
        self.ending = False
        """Whether `end` was called."""
        self.ended_by_us = False
        """Whether it ended because the runtime closed its connection, or ended it by a signal."""
        self.left_behind: tuple[LeftBehind, ...] = ()
        """Processes that outlived the plugin; complete when `wait_gone` returns."""
        self._on_output = on_output
        self._command = command
        self._keeper = keeper
        self._pipes = dict(pipes)
        self._ended_ns = 0
        self._terminated = False
        self._clean = False
        self._exited = asyncio.Event()
        self._gone = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._started: asyncio.Future[None] = self._loop.create_future()
        # Polled after every event: one call, while reads would raise an exception for each pipe.
        self._printed = select.poll()
        for stream, pipe in self._pipes.items():
            self._loop.add_reader(pipe, self._read, stream)
            self._printed.register(pipe, select.POLLIN)
        self._channel = LoopChannel(keeper.socket, self._take, self._keeper_ended)
        self._channel.send(0, _start_message(command))

    @classmethod
    async def start(
        cls,
        command: PluginProgram,
        connection: socket.socket | None,
        on_output: OnOutput | None = None,
        *,
        pass_output: bool = False,
    ) -> Process:
        """Start ``command``, with ``connection`` as descriptor 3; return after its execve.

        Its output is forwarded to ``on_output``, with ``pass_output`` limited by a rate, otherwise
        by a size; only the last lines are stored. Raises `UsageError` if the command cannot be
        started.
        """
        keeper, pipes = _spawn_keeper(command.argv[0], connection)
        process = cls(command, keeper, pipes, on_output, pass_output=pass_output)
        try:
            await process._started
        except BaseException:
            await process.kill()
            raise
        return process

    @property
    def running(self) -> bool:
        """Whether the plugin itself is still running."""
        return not self.exit_words

    async def wait_exit(self, timeout: float | None = None) -> None:
        """Wait until the plugin has ended, or for ``timeout`` seconds.

        Its child processes may still be running then.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._exited.wait()

    async def wait_gone(self) -> None:
        """Wait until the plugin and all its descendants have ended. Call `end` first."""
        await self._gone.wait()

    async def stop(self, grace_s: float) -> None:
        """Wait up to ``grace_s`` for the plugin to exit, then as long after SIGTERM; then `end` it.

        The caller has closed its connection.
        """
        await self.wait_exit(grace_s)
        if self.running and self.pid and grace_s:
            self._terminated = True
            self._signal(signal.SIGTERM)
            await self.wait_exit(grace_s)
        self.end()

    @property
    def ending_words(self) -> str:
        """How it ended after its connection was closed; "" if it is running, or ended earlier."""
        if self.running or not self.ended_by_us:
            return ""
        if self.exit_code == -signal.SIGKILL and self.ending:
            return f"was killed{', as it ignored SIGTERM' if self._terminated else ''}"
        if not self._terminated:
            return f"ended by itself when its connection was closed, {self.exit_words}"
        return "ended " + (
            "by SIGTERM" if self.exit_code == -signal.SIGTERM else f"on SIGTERM, {self.exit_words}"
        )

    def end(self) -> None:
        """Send SIGKILL to the plugin, as runtimes do, without waiting for its descendants.

        The plugin cannot react to a close of its connection afterwards. Its children get a moment
        to end by themselves; then they are killed and listed in `left_behind`.
        """
        if self._gone.is_set():
            return
        self.ending = True
        self._kill_plugin()
        self._channel.finish()

    async def kill(self) -> None:
        """Kill the plugin, and wait until all its descendants have ended."""
        self.end()
        await self.wait_gone()

    def read_output(self) -> None:
        """Read all output so far, including bytes that the event loop has not read yet."""
        if self._printed.poll(0):
            self._read_rest()

    def explain(self, reason: str) -> str:
        """Return ``reason``, why the connection ended. For a plugin that ended without the runtime,
        add its exit status, and its crash, or else its last output.
        """
        if self.running or self.ended_by_us:
            return reason
        crash = self.output.crash_output.crash(self.exit_code, self._ended_ns)
        if crash is not None:
            return with_exit(reason, f"{self.exit_words}: {safe(str(crash))}")
        # Skip lines with which Python underlines a part of the line above.
        lines = [
            safe(line.strip())
            for line in _without_usage(self.output.last(Stream.STDERR, LAST_KEPT))
            if any(map(str.isalnum, line))
        ]
        last = lines[-LAST_SHOWN:]
        output = f"; its last output: {' | '.join(last)}" if last else ""
        return with_exit(reason, f"{self.exit_words}{output}")

    # -- messages of the keeper, and output -----------------------------------------------------

    def _forward(self, stream: Stream, line: str, mono_ns: int) -> None:
        try:
            if self._on_output is not None:
                self._on_output(stream, line, mono_ns)
        except Exception as error:  # noqa: BLE001 - on_output is the caller's code
            # A callback of the event loop called this method, and must continue.
            context = {"message": "on_output failed", "exception": error}
            self._loop.call_exception_handler(context)

    def _read(self, stream: Stream) -> bool:
        """Read once from a pipe; return whether there may be more."""
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
        """Read the output printed so far, within bounds: children of the plugin may still print."""
        for stream in Stream:
            for _ in range(READS_LAST):
                if not self._read(stream):
                    break

    def _take(self, _kind: int, payload: bytes) -> None:
        match json.loads(payload):
            case {"started": int(pid)}:
                self.pid = pid
                _settle(self._started)
            case {"failed": int(number), "step": str(step)}:
                _settle(self._started, self._command.problem(number, step))
            case {"exited": int(status)}:
                self._read_rest()
                self.ended_by_us = (
                    self.closing
                    or self._terminated
                    or (
                        self.ending
                        and os.WIFSIGNALED(status)
                        and os.WTERMSIG(status) == signal.SIGKILL
                    )
                )
                self.exit_code = os.waitstatus_to_exitcode(status)
                self._exit(describe_exit(self.exit_code))
            case {"left": list(left)}:
                self.left_behind = tuple(_left_behind(process) for process in left)
            case {"gone": bool()}:
                self._clean = True
            case _:
                pass

    def _exit(self, status: str) -> None:
        self.exit_words = status
        self._ended_ns = monotonic_ns()
        self._exited.set()

    def _kill_plugin(self) -> None:
        if self.pid and self.running:
            self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def _keeper_ended(self) -> None:
        if self._gone.is_set():
            return
        self._channel.close()
        self._keeper.stop(KEEPER_ENDS_S, terminate_s=0)
        if self.pid and not self._clean:
            # The keeper was killed, so descendants of the plugin can no longer be found.
            self._kill_plugin()
        self._read_rest()
        for stream in Stream:
            self._close_pipe(stream)
        if self.running:
            self._exit(f"{EXIT_STATUS} unknown")
        reason = " | ".join(self.output.last(Stream.STDERR, LAST_SHOWN)) or "the reason is unknown"
        _settle(self._started, UsageError(f"plugins cannot be launched: {reason}"))
        self._gone.set()


async def launch(
    command: PluginProgram, on_output: OnOutput | None = None, *, pass_output: bool = False
) -> tuple[Process, socket.socket]:
    """Start a plugin and return the runtime's end of the connection.

    The plugin inherits only descriptor 3. Its output, which real runtimes discard, is
    forwarded to ``on_output``; see `Process.start`.
    Raises `UsageError` if the plugin cannot be started.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with theirs:
        try:
            process = await Process.start(command, theirs, on_output, pass_output=pass_output)
            return process, ours
        except BaseException:
            ours.close()
            raise


_USAGE = re.compile("Usage( of .*)?:$")


def _without_usage(lines: list[str]) -> list[str]:
    """Leave out the usage that Go programs print below an error in their options."""
    for number, line in enumerate(lines):
        following = lines[number + 1 :]
        if number and _USAGE.match(line) and all(text[:1] in ("", " ", "\t") for text in following):
            return lines[:number]
    return lines


def _spawn_keeper(plugin: str, connection: socket.socket | None) -> tuple[Child, dict[Stream, int]]:
    """Start a keeper for one plugin, with ``connection`` to inherit and pipes for the output.

    Raises `UsageError` if the system rejects that.
    """
    failure = "plugins cannot be launched"
    with contextlib.ExitStack() as own, contextlib.ExitStack() as passed:
        pipes: dict[Stream, int] = {}
        writing: list[int] = []
        try:
            for stream in Stream:
                pipes[stream], end = os.pipe()
                own.callback(os.close, pipes[stream])
                passed.callback(os.close, end)
                os.set_blocking(pipes[stream], False)
                writing.append(end)
        except OSError as error:
            raise UsageError(f"{failure}: {reason_of(error)}") from error
        keeper = spawn(
            "nri_scope.process.launched_process",
            plugin,
            failure=failure,
            # The keeper must outlive us, to kill the plugin when the channel is closed.
            on_parents_death=0,
            descriptors=() if connection is None else (connection.fileno(),),
            output=(writing[0], writing[1]),
            with_site=False,
        )
        own.pop_all()
        return keeper, pipes


def _start_message(command: PluginProgram) -> bytes:
    message = {
        "path": _encoded(command.path),
        "argv": [_encoded(word) for word in command.argv],
        "environment": [_encoded(f"{name}={to}") for name, to in command.environment.items()],
        "cwd": _encoded(command.cwd),
        "folders": [_encoded(folder) for folder in command.folders],
    }
    return json.dumps(message).encode()


def _encoded(text: str) -> str:
    """Return the bytes of ``text`` as Latin-1 characters, as JSON cannot have arbitrary bytes."""
    return os.fsencode(text).decode("latin-1")


def _settle(future: asyncio.Future[None], error: UsageError | None = None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)


def _left_behind(report: object) -> LeftBehind:
    match report:
        case [int(pid), str(command), bool(detached)]:
            return LeftBehind(pid, command, detached)
    raise TypeError(f"not a process: {report!r}")
