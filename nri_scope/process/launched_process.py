# SPDX-License-Identifier: Apache-2.0
"""The helper process between the runtime and a plugin that it launches.

It starts the plugin and ensures that none of the plugin's processes remain at the end. Orphaned
descendants of a plugin, including daemons, become children of the nearest "child subreaper"
(prctl(2)). The process that uses nri-scope may have children of its own, and must not inherit, reap
or kill processes that it did not start; so the helper process is the subreaper, for one plugin.

The plugin's descriptors 0 to 2 are those of this process. The plugin is killed when the other end
of the channel is closed, which also happens when the runtime itself is killed. The first message is
the order: a JSON object of path, argv, environment and cwd, with bytes as Latin-1. Events are
reported as JSON messages, each an object with one of these keys:

- ``started``: the plugin's process id
- ``failed``: the errno of the failed start, and ``step``: ``cwd`` or ``exec``
- ``exited``: the plugin's wait status
- ``left``: processes that still existed then, as [pid, command line, whether it had left the
  plugin's session]
- ``gone``: whether all of these processes could be killed; the last message

Imports are few, and never from other packages of nri-scope, as they delay the plugin's start.
"""

# Importing pathlib takes as long as the rest of the start.
# ruff: noqa: PTH123, PTH208

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import time
from collections.abc import Callable, Iterator

from .messages import MessageReader, message
from .signals import ignore_stop_signals

PLUGIN = 3
"""The descriptor of the plugin's connection."""
CONTROL = 4
"""The descriptor of this process's end of the channel."""

LINGER_S = 1.0
"""Seconds for the plugin's children to notice that it and its connection are gone; children that
exit in this time do not count as left behind."""
KILL_S = 5.0
"""Seconds to continue killing. No process survives SIGKILL, except while it sleeps in the kernel;
but a process may fork faster than it is killed, or belong to another user."""

LEFT_MAX = 50
"""Maximum number of processes named in one message."""
COMMAND_MAX = 200
"""Maximum length of a command line in bytes."""

PR_SET_CHILD_SUBREAPER = 36


class Keeper:
    """Supervises one plugin from its start until none of its processes remain."""

    def __init__(self) -> None:
        self._plugin = 0
        """The process id of the plugin, and of its session. The plugin is not reaped before the
        runtime ends it, so that no other process has this id when the runtime kills it."""
        self._exited = False
        wakeup, ours = os.pipe()
        os.set_blocking(wakeup, False)
        os.set_blocking(ours, False)
        self._wakeup = wakeup
        # Without a handler, the signal would not reach the wakeup descriptor.
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(ours, warn_on_full_buffer=False)

    def start(self, order: dict[str, object]) -> bool:
        """Start the plugin as a runtime does; on failure, report it and return False."""
        step = "cwd"
        try:
            os.chdir(_encoded(order["cwd"]))
            step = "exec"
            self._plugin = _execute(
                _encoded(order["path"]),
                _all_encoded(order["argv"]),
                dict(_variable(one) for one in _all_encoded(order["environment"])),
            )
        except OSError as error:
            _report(failed=error.errno, step=step)
            return False
        _report(started=self._plugin)
        return True

    def follow(self) -> None:
        """Wait until the runtime ends the plugin, and reap orphans meanwhile."""
        poll = select.poll()
        poll.register(CONTROL, select.POLLIN)
        poll.register(self._wakeup, select.POLLIN)
        while all(descriptor != CONTROL for descriptor, _ in poll.poll()):
            self._clear_wakeup()
            self._notice_exit()
            for pid in _children(os.getpid(), ended=True):
                if pid != self._plugin:
                    os.waitpid(pid, os.WNOHANG)

    def end(self) -> None:
        """Kill the plugin, as a runtime does, then its descendants, which runtimes leave alive."""
        os.kill(self._plugin, signal.SIGKILL)
        self._until(self._notice_exit, KILL_S)
        self._until(lambda: not _reap(), LINGER_S)
        left = list(_descendants(os.getpid())) if _reap() else []
        _report(left=[_described(pid, self._plugin) for pid in left[:LEFT_MAX]])
        deadline = time.monotonic() + KILL_S
        while _reap() and time.monotonic() < deadline:
            # Only direct children, whose ids cannot be reused before they are reaped here. When
            # they end, their own children become direct children.
            for pid in _children(os.getpid()):
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    continue
            self._wait(0.05)
        _report(gone=not _reap())

    def _notice_exit(self) -> bool:
        """Report the plugin's exit, once; return whether it has ended."""
        if not self._exited:
            found = os.waitid(os.P_PID, self._plugin, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if found is not None:
                self._exited = True
                status = found.si_status
                _report(exited=status << 8 if found.si_code == os.CLD_EXITED else status)
        return self._exited

    def _until(self, done: Callable[[], bool], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not done() and (remaining := deadline - time.monotonic()) > 0:
            self._wait(remaining)

    def _wait(self, seconds: float) -> None:
        """Wait for a child to end."""
        select.select([self._wakeup], [], [], seconds)
        self._clear_wakeup()

    def _clear_wakeup(self) -> None:
        try:
            while os.read(self._wakeup, 1024):
                pass
        except BlockingIOError:
            pass


def _execute(path: bytes, argv: list[bytes], environment: dict[bytes, bytes]) -> int:
    """Run a program as the leader of a session; return its process id or raise `OSError`.

    os.posix_spawn is not used: many builds of Python cannot create a session with it.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.setsid()
            for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
                signal.signal(number, signal.SIG_DFL)
            os.execve(path, argv, environment)
        except OSError as error:
            os.write(writing, str(error.errno).encode())
        finally:
            os._exit(127)
    os.close(writing)
    # A successful exec closes the other end.
    failed = os.read(reading, 100)
    os.close(reading)
    if failed:
        os.waitpid(pid, 0)
        raise OSError(int(failed), "")
    return pid


def _reap() -> bool:
    """Reap all children that have ended; return whether any others are left."""
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
    """Return the fields of proc_pid_stat(5) from the state on, or [] if the process is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []


def _described(pid: int, session: int) -> tuple[int, str, bool]:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read(COMMAND_MAX).rstrip(b"\0").replace(b"\0", b" ")
        if not words:
            with open(f"/proc/{pid}/comm", "rb") as file:
                words = b"[" + file.read(COMMAND_MAX).rstrip(b"\n") + b"]"
    except OSError:
        words = b""
    return pid, words.decode("utf-8", "backslashreplace"), _stat(pid)[3:4] != [str(session)]


def _encoded(word: object) -> bytes:
    assert isinstance(word, str)
    return word.encode("latin-1")


def _variable(assignment: bytes) -> tuple[bytes, bytes]:
    name, _, value = assignment.partition(b"=")
    return name, value


def _all_encoded(words: object) -> list[bytes]:
    assert isinstance(words, list)
    return [_encoded(word) for word in words]


def _report(**report: object) -> None:
    data = message(0, json.dumps(report).encode())
    try:
        while data:
            data = data[os.write(CONTROL, data) :]
    except OSError:
        # The runtime is gone or does not read; the plugin must still be ended.
        pass


def _order() -> dict[str, object] | None:
    """Return the order, or None if the runtime is gone."""
    reader = MessageReader()
    while data := os.read(CONTROL, 64 << 10):
        for _, payload in reader.feed(data):
            order: dict[str, object] = json.loads(payload)
            return order
    return None


def _take_over(descriptor: int, connection: int) -> None:
    """Move the channel to `CONTROL` and the plugin's connection to `PLUGIN`; close all others."""
    # Numbered above all others, so as not to overwrite a descriptor that must still be copied.
    above = os.dup2(descriptor, max(descriptor, connection, CONTROL) + 1)
    os.dup2(connection, PLUGIN)
    os.dup2(above, CONTROL, inheritable=False)
    for name in os.listdir("/proc/self/fd"):
        # The plugin must not get inherited descriptors.
        if int(name) > CONTROL:
            try:
                os.close(int(name))
            except OSError:
                # The descriptor used to list the folder.
                pass


def main(descriptor: int, connection: str, _plugin: str) -> None:
    """Run as the keeper of one plugin. ``_plugin`` only shows its name in process lists."""
    _take_over(descriptor, int(connection))
    # This process must end with the runtime, not earlier.
    ignore_stop_signals()
    order = _order()
    if order is None:
        return
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    keeper = Keeper()
    if not keeper.start(order):
        return
    # Only the plugin may hold these descriptors; otherwise its peers would not see them closed.
    for descriptor in (1, 2, 3):
        os.dup2(0, descriptor)
    os.chdir("/")
    keeper.follow()
    keeper.end()
