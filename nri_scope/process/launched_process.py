# SPDX-License-Identifier: Apache-2.0
"""The helper process between the runtime and a plugin that it launches.

The helper starts the plugin and ensures that none of the plugin's processes outlive it. Orphaned
descendants of a plugin, including daemons, become children of the nearest "child subreaper"
(prctl(2)). The process that uses nri-scope may have children of its own, and must not inherit, reap
or kill processes that it did not start; so the helper is the subreaper, for one plugin.

The plugin inherits descriptors 0 to 2 of the helper, and its connection, unless it is external. It
is killed when the other end of the channel is closed, which also happens when the runtime itself is
killed. The first message on the channel is the order: a JSON object with path, argv, environment,
cwd and folders (see `PluginProgram`), in which each byte is a Latin-1 character. The helper reports
events as JSON objects:

- ``started``: the plugin's process id
- ``failed``: the errno of the failed start, and ``step``: ``cwd``, ``folders`` or ``exec``
- ``exited``: the plugin's wait status
- ``left``: processes still running a moment after the plugin's end, each as [pid, command line,
  whether the process has left the plugin's session]
- ``gone``: whether all of the plugin's processes have ended; the last message

This module imports few modules, as they delay the plugin's start.
"""

# Importing pathlib would double the start time.
# ruff: noqa: PTH123, PTH208

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import time
from collections.abc import Callable, Iterator

from .channel import ChannelReader, message
from .signals import ignore_stop_signals

PLUGIN = 3
"""Descriptor of the plugin's connection."""
CONTROL = 4
"""Descriptor of this process's end of the channel."""

LINGER_S = 1.0
"""Seconds in which the plugin's children may exit after it without being reported as left."""
KILL_S = 5.0
"""Maximum seconds spent killing. SIGKILL has no effect while a process sleeps in the kernel; a
process may also fork faster than it is killed, or belong to another user."""

LEFT_MAX = 50
"""Maximum number of processes named in one message."""
COMMAND_MAX = 200
"""Maximum length of a command line in bytes."""

PR_SET_CHILD_SUBREAPER = 36


class Keeper:
    """Supervisor of one plugin, from its start until none of its processes remain."""

    def __init__(self) -> None:
        self._plugin = 0
        """Process id of the plugin, and id of its session. The plugin is only reaped after
        SIGKILL was sent to it, so that no other process can have this id by then."""
        self._has_exited = False
        wakeup, signal_end = os.pipe()
        os.set_blocking(wakeup, False)
        os.set_blocking(signal_end, False)
        self._wakeup = wakeup
        # Python writes to the wakeup descriptor only for signals with a handler.
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(signal_end, warn_on_full_buffer=False)

    def start(self, order: dict[str, object]) -> bool:
        """Start the plugin as a runtime does; on failure, report it and return False."""
        try:
            self._plugin = _execute(
                _to_bytes(order["path"]),
                _all_to_bytes(order["argv"]),
                dict(_split_variable(text) for text in _all_to_bytes(order["environment"])),
                _to_bytes(order["cwd"]),
                [os.fsdecode(folder) for folder in _all_to_bytes(order["folders"])],
            )
        except OSError as error:
            _report(failed=error.errno, step=error.strerror)
            return False
        _report(started=self._plugin)
        return True

    def supervise(self) -> None:
        """Report the plugin's exit and reap orphans until the runtime closes the channel."""
        poll = select.poll()
        poll.register(CONTROL, select.POLLIN)
        poll.register(self._wakeup, select.POLLIN)
        while all(descriptor != CONTROL for descriptor, _ in poll.poll()):
            self._clear_wakeup()
            self._check_exit()
            for pid in _children(os.getpid(), ended=True):
                if pid != self._plugin:
                    os.waitpid(pid, os.WNOHANG)

    def kill(self) -> None:
        """Kill the plugin, as a runtime does, then its descendants, which runtimes leave alive."""
        os.kill(self._plugin, signal.SIGKILL)
        self._wait_until(self._check_exit, KILL_S)
        self._wait_until(lambda: not _reap(), LINGER_S)
        left = list(_descendants(os.getpid())) if _reap() else []
        _report(left=[_describe(pid, self._plugin) for pid in left[:LEFT_MAX]])
        deadline = time.monotonic() + KILL_S
        while _reap() and time.monotonic() < deadline:
            # Only direct children: their ids cannot be reused before they are reaped here. When
            # they end, their own children become direct children.
            for pid in _children(os.getpid()):
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    continue
            self._wait(0.05)
        _report(gone=not _reap())

    def _check_exit(self) -> bool:
        """Return whether the plugin has exited; report its exit the first time."""
        if not self._has_exited:
            result = os.waitid(os.P_PID, self._plugin, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if result is not None:
                self._has_exited = True
                status = result.si_status
                _report(exited=status << 8 if result.si_code == os.CLD_EXITED else status)
        return self._has_exited

    def _wait_until(self, done: Callable[[], bool], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not done() and (remaining := deadline - time.monotonic()) > 0:
            self._wait(remaining)

    def _wait(self, seconds: float) -> None:
        """Wait up to ``seconds`` for a child to end."""
        select.select([self._wakeup], [], [], seconds)
        self._clear_wakeup()

    def _clear_wakeup(self) -> None:
        try:
            while os.read(self._wakeup, 1024):
                pass
        except BlockingIOError:
            pass


def _execute(
    path: bytes,
    argv: list[bytes],
    environment: dict[bytes, bytes],
    cwd: bytes,
    folders: list[str],
) -> int:
    """Start a program as the leader of a session; return its process id.

    Raises an `OSError` whose text is the step that failed. os.posix_spawn is not used, because many
    builds of Python cannot create a session with it.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        step = "cwd"
        try:
            os.setsid()
            os.chdir(cwd)
            step = "folders"
            if folders:
                # Most plugins do not need this module.
                from .folder_namespace import replace_folder

                replace_folder(*folders)
            step = "exec"
            for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
                signal.signal(number, signal.SIG_DFL)
            os.execve(path, argv, environment)
        except OSError as error:
            os.write(writing, f"{error.errno} {step}".encode())
        finally:
            os._exit(127)
    os.close(writing)
    # A successful exec closes the other end.
    error_number, _, failed_step = os.read(reading, 100).decode().partition(" ")
    os.close(reading)
    if failed_step:
        os.waitpid(pid, 0)
        raise OSError(int(error_number), failed_step)
    return pid


def _reap() -> bool:
    """Reap all children that have ended; return whether others remain."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if not pid:
            return True


def _children(parent: int, *, ended: bool = False) -> list[int]:
    return [pid for pid, its_parent in _processes(ended=ended) if its_parent == parent]


def _descendants(ancestor: int) -> Iterator[int]:
    children: dict[int, list[int]] = {}
    for pid, parent in _processes():
        children.setdefault(parent, []).append(pid)
    waiting = children.get(ancestor, [])
    while waiting:
        pid = waiting.pop(0)
        yield pid
        waiting += children.get(pid, [])


def _processes(*, ended: bool = False) -> Iterator[tuple[int, int]]:
    """Yield pid and parent's pid of each running process, or with ``ended`` of each zombie."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            state, parent, *_ = _stat(int(name)) or ("", "0")
            if state and (state in "ZX") is ended:
                yield int(name), int(parent)


def _stat(pid: int) -> list[str]:
    """Return the fields of proc_pid_stat(5) from "state" on; [] if the process is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []


def _describe(pid: int, session: int) -> tuple[int, str, bool]:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            command = file.read(COMMAND_MAX).rstrip(b"\0").replace(b"\0", b" ")
        if not command:
            with open(f"/proc/{pid}/comm", "rb") as file:
                command = b"[" + file.read(COMMAND_MAX).rstrip(b"\n") + b"]"
    except OSError:
        command = b""
    return pid, command.decode("utf-8", "backslashreplace"), _stat(pid)[3:4] != [str(session)]


def _to_bytes(text: object) -> bytes:
    assert isinstance(text, str)
    return text.encode("latin-1")


def _split_variable(assignment: bytes) -> tuple[bytes, bytes]:
    name, _, value = assignment.partition(b"=")
    return name, value


def _all_to_bytes(texts: object) -> list[bytes]:
    assert isinstance(texts, list)
    return [_to_bytes(text) for text in texts]


def _report(**report: object) -> None:
    data = message(0, json.dumps(report).encode())
    try:
        while data:
            data = data[os.write(CONTROL, data) :]
    except OSError:
        # The runtime is gone; the plugin must still be killed.
        pass


def _receive_order() -> dict[str, object] | None:
    """Wait for the order; return None if the runtime is gone."""
    reader = ChannelReader()
    while data := os.read(CONTROL, 64 << 10):
        for _, payload in reader.feed(data):
            order: dict[str, object] = json.loads(payload)
            return order
    return None


def _take_over(descriptor: int, connection: int | None) -> None:
    """Move the channel to `CONTROL` and the plugin's connection to `PLUGIN`; close all others."""
    # The number is above all others, so as not to overwrite a descriptor that is still to be moved.
    above = os.dup2(descriptor, max(descriptor, connection or 0, CONTROL) + 1)
    if connection is None:
        os.dup2(0, PLUGIN, inheritable=False)
    else:
        os.dup2(connection, PLUGIN)
    os.dup2(above, CONTROL, inheritable=False)
    for name in os.listdir("/proc/self/fd"):
        # The plugin must not inherit other descriptors.
        if int(name) > CONTROL:
            try:
                os.close(int(name))
            except OSError:
                # The descriptor of the listing itself is closed already.
                pass


def main(descriptor: int, *arguments: str) -> None:
    """Run as the keeper of one plugin. ``arguments``: the descriptor of its connection, unless it
    is external, and its name, shown in process lists.
    """
    _take_over(descriptor, int(arguments[0]) if len(arguments) > 1 else None)
    # This process must not end before the runtime.
    ignore_stop_signals()
    order = _receive_order()
    if order is None:
        return
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    keeper = Keeper()
    if not keeper.start(order):
        return
    # Only the plugin may have these descriptors open; otherwise its exit would not close them.
    for descriptor in (1, 2, 3):
        os.dup2(0, descriptor)
    os.chdir("/")
    keeper.supervise()
    keeper.kill()
