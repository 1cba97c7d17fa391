# SPDX-License-Identifier: Apache-2.0
"""Record the spool of NRI 0.1, which wrapped plugins write.

The spool has a folder for each plugin. An invocation is a group of files there: ``PID-N.in`` is the
request, ``.out`` the result, and ``.err`` the plugin's standard error. ``.v1``, written last, makes
the group complete; it contains the exit status and times as JSON. 1 is the
version of this format. The time of an invocation is that of its files. A wrapped plugin's request
is locked while the plugin runs. Each byte of ``lost`` is a request that was not spooled; the first
one has the time of ``lost.from``, the last one that of ``lost``.

A group is removed after the writer has committed it, so that a recorder that was killed loses no
invocation; the next one may record the newest again.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import stat
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic, monotonic_ns, time_ns

from nri_scope.capture.sink import Sink
from nri_scope.errors import UsageError, reason_of
from nri_scope.events import CapturedCall, Role, SessionStart
from nri_scope.nri import v01
from nri_scope.process.signals import root_hint
from nri_scope.recording.file.trusted_location import private_place, try_lock

POLL_S = 0.25
"""Seconds between two looks into the spool."""
TURN, TURN_BYTES = 256, 8 << 20
"""Maximum number of invocations, and of their bytes, that are read at once."""
AHEAD_BYTES = 8 << 20
"""Bytes in the recorder's queue above which invocations stay in the spool."""
STOP_S = 10.0
"""Maximum time in seconds to record what is still in the spool at the end; the rest stays there."""
PLUGINS_MAX = 100
LOST_MAX = 1 << 30
"""Maximum number of requests that one gap counts as lost."""
NAMES_MAX = 20_000
"""Maximum number of file names that are read in one plugin's folder; wrappers stop at fewer."""
LINES_MAX = 1_000
"""Maximum number of recorded lines of one invocation's standard error."""
CONFIRM_S = 0.02
"""Seconds between two looks at the end whether the writer has committed everything."""
ABANDONED_NS = 2 * 10**9
"""Age of an incomplete group above which its process is checked."""
UNLOCKED_NS = 60 * 10**9
"""Age of an incomplete group that no process has locked above which it is abandoned, even if there
is a process with its number, which may be another one."""

_UNUSABLE = (errno.ENOENT, errno.ELOOP, errno.ENXIO, errno.EIO)
_REQUEST, _RESULT, _ERRORS, _COMPLETE = ".in", ".out", ".err", ".v1"
_LOST, _LOST_FROM = "lost", "lost.from"
FAILED = 2
"""google.rpc.Code (UNKNOWN) of an invocation after which the client ends the chain."""
CUT = 15
"""google.rpc.Code (DATA_LOSS) of an invocation whose result was not spooled as a whole: whether the
client accepted it is unknown."""
NOT_SPOOLED = "the spool of NRI 0.1 was full, or could not be written"


@dataclass(frozen=True, slots=True)
class Invoked:
    """An invocation from the spool."""

    call: CapturedCall
    stem: str
    version: str
    printed: tuple[str, ...]
    """Lines of the plugin's standard error."""


@dataclass(slots=True)
class PluginSpool:
    """The folder of one plugin. All files are opened relative to it, without following links."""

    name: str
    folder: int
    recorded: set[str] = field(default_factory=set)
    """Names of groups that were read, and are not removed yet."""
    trouble: str = ""
    """Why a recorded group could not be removed."""

    def waiting(self) -> list[str]:
        """Return the names, without suffix, of the groups to read, oldest first."""
        names: set[str] = set()
        with os.scandir(self.folder) as entries:
            for count, entry in enumerate(entries):
                if count == NAMES_MAX:
                    break
                names.add(entry.name)
        self._remove_leftovers(names)
        ready: list[tuple[int, str]] = []
        for name in names:
            stem = name.removesuffix(_REQUEST)
            if stem == name or stem in self.recorded:
                continue
            at_ns = self._time(name)
            if f"{stem}{_COMPLETE}" in names or self._is_abandoned(stem, at_ns):
                ready.append((at_ns, stem))
        return [stem for _, stem in sorted(ready)]

    def read(self, stem: str) -> Invoked:
        """Return a group. Raises FileNotFoundError if it has no request any more, and OSError."""
        at_ns = self._time(stem + _REQUEST)
        request, result = self._read(stem + _REQUEST), self._read(stem + _RESULT)
        complete = self._read(stem + _COMPLETE)
        facts = _facts(complete or b"")
        printed = (self._read(stem + _ERRORS) or b"").decode(errors="replace").splitlines()
        metadata = [("exit-status", str(facts["status"]))] if "status" in facts else []
        if facts.get("cut", 0) & 2 or len(printed) > LINES_MAX:
            metadata.append(("cut", "stderr"))
        took_ns = facts.get("took_ns")
        if took_ns is None:
            took_ns = max(0, self._time(stem + _COMPLETE) - at_ns) if complete is not None else 0
        code, problem = 0, ""
        if request is None:
            request, code, problem = b"", FAILED, "the request is not a readable file"
        elif complete is None:
            code, problem = FAILED, "the process ended before it had spooled the whole invocation"
        elif facts.get("cut", 0) & 1:
            metadata.append(("cut", "result"))
            code, problem = (
                CUT,
                f"only the first {len(result or b''):,} bytes of its result are recorded",
            )
        else:
            problem = v01.result_problem(result or b"")
            code = FAILED if problem else 0
        subject = v01.parse_request(request)
        call = CapturedCall(
            wall_ns=facts.get("began_ns", at_ns),
            mono_ns=max(0, monotonic_ns() - (time_ns() - at_ns)),
            method=v01.INVOKE if subject is None else subject.method,
            request=request,
            reply=result or b"",
            status_code=code,
            status_message=problem,
            took_ns=max(0, took_ns),
            timeout_ns=0,
            service=v01.SERVICE,
            held_ns=None if facts.get("held_ns") is None else max(0, facts["held_ns"]),
            metadata=tuple(metadata),
        )
        version = subject.version if subject is not None else ""
        return Invoked(call, stem, version, tuple(printed[:LINES_MAX]))

    def remove(self, stem: str) -> None:
        """Remove a recorded group. If that fails, the group is not read again."""
        if self.folder < 0:
            return
        try:
            # The request last: without it, the other files would not belong to a group.
            for suffix in (_RESULT, _ERRORS, _COMPLETE, _REQUEST):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(stem + suffix, dir_fd=self.folder)
        except OSError as error:
            self.trouble = reason_of(error)
        else:
            self.recorded.discard(stem)

    def take_lost(self) -> tuple[int, int, int] | None:
        """Return how many requests were not spooled, and from when to when; None for none."""
        # The requests are read even if this is not a file, or cannot be removed.
        with contextlib.suppress(OSError):
            # Renamed first: a wrapper may be about to add a byte.
            os.rename(_LOST, f"{_LOST}.read", src_dir_fd=self.folder, dst_dir_fd=self.folder)
            status = os.stat(f"{_LOST}.read", dir_fd=self.folder, follow_symlinks=False)
            from_ns = to_ns = status.st_mtime_ns
            with contextlib.suppress(OSError):
                from_ns = min(to_ns, self._time(_LOST_FROM))
                os.unlink(_LOST_FROM, dir_fd=self.folder)
            os.unlink(f"{_LOST}.read", dir_fd=self.folder)
            if stat.S_ISREG(status.st_mode) and status.st_size:
                return min(status.st_size, LOST_MAX), from_ns, to_ns
        return None

    def close(self) -> None:
        """Close the folder."""
        os.close(self.folder)
        self.folder = -1

    def _time(self, name: str) -> int:
        with contextlib.suppress(FileNotFoundError):
            return os.stat(name, dir_fd=self.folder, follow_symlinks=False).st_mtime_ns
        return time_ns()

    def _is_abandoned(self, stem: str, at_ns: int) -> bool:
        """Return whether the process that should complete a group has ended."""
        number, age_ns = stem.partition("-")[0], time_ns() - at_ns
        if age_ns < ABANDONED_NS:
            return False
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        # Some file systems cannot lock.
        with contextlib.suppress(OSError):
            descriptor = os.open(stem + _REQUEST, flags, dir_fd=self.folder)
            try:
                if not try_lock(descriptor, is_shared=True):
                    return False
            finally:
                os.close(descriptor)
            if age_ns > UNLOCKED_NS:
                return True
        return not (number.isdecimal() and len(number) < 10 and Path(f"/proc/{number}").exists())

    def _remove_leftovers(self, names: Iterable[str]) -> None:
        """Remove files without a request, whose process was killed while it removed them."""
        for name in names:
            stem, _, suffix = name.rpartition(".")
            if (
                f".{suffix}" in (_RESULT, _ERRORS, _COMPLETE)
                and stem + _REQUEST not in names
                and time_ns() - self._time(name) > UNLOCKED_NS
            ):
                with contextlib.suppress(OSError):
                    os.unlink(name, dir_fd=self.folder)

    def _read(self, name: str) -> bytes | None:
        """Return the content of a file; None if it is missing or not usable. Raises OSError for a
        missing request, and for conditions that may pass, such as too many open files.
        """
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            descriptor = os.open(name, flags, dir_fd=self.folder)
        except OSError as error:
            is_missing = error.errno == errno.ENOENT and name.endswith(_REQUEST)
            if error.errno in _UNUSABLE and not is_missing:
                return None
            raise
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > v01.REQUEST_MAX:
            os.close(descriptor)
            return None
        with os.fdopen(descriptor, "rb") as file:
            return file.read(v01.REQUEST_MAX)


@dataclass(frozen=True, slots=True, eq=False)
class _Captured:
    """An invocation that was passed to the writer."""

    plugin: PluginSpool
    stem: str
    session: int
    count: int
    """Its number in the session, from 1."""


@dataclass(slots=True)
class SpoolRecorder:
    """Moves invocations from a spool to a recording, with one session for each plugin."""

    path: Path
    sink: Sink
    say: Callable[[str], None]
    waiting_bytes: Callable[[], int]
    """Bytes in the queue of `sink`."""
    processed: Callable[[int], int]
    """Number of a session's events, by its handle, that are committed, filtered out or lost."""
    sessions: int = 0
    _lock: int | None = None
    """Descriptor of the locked spool, without which nothing is read."""
    _plugins: dict[str, PluginSpool] = field(default_factory=dict)
    _handles: dict[str, int] = field(default_factory=dict)
    _captured: dict[int, int] = field(default_factory=dict)
    """Number of events of each session, by its handle."""
    _unconfirmed: deque[_Captured] = field(default_factory=deque)
    _said: set[str] = field(default_factory=set)
    _stop: asyncio.Event = field(default_factory=asyncio.Event)

    def stop(self) -> None:
        """Make `run` record what is still in the spool, and return."""
        self._stop.set()

    async def run(self) -> None:
        """Record until `stop`."""
        until = float("inf")
        while True:
            is_last, more = self._stop.is_set(), self.waiting_bytes() > AHEAD_BYTES
            if is_last:
                until = min(until, monotonic() + STOP_S)
            try:
                if more:
                    await asyncio.sleep(POLL_S)
                else:
                    more = self._record(await asyncio.to_thread(self._read, self._confirmed()))
            except (OSError, UsageError) as error:
                self._say_once(f"{self.path}: {reason_of(error)}")
            if is_last and (not (more or self._unconfirmed) or monotonic() > until):
                break
            if is_last:
                await asyncio.sleep(0 if more else CONFIRM_S)
                continue
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), 0 if more else POLL_S)
        for handle in self._handles.values():
            self.sink.end_session(handle, "the recorder stopped", time_ns())
        for plugin in self._plugins.values():
            plugin.close()
        if self._lock is not None:
            os.close(self._lock)

    def _confirmed(self) -> list[_Captured]:
        """Return the invocations that the writer has processed since the last call."""
        confirmed = []
        for invocation in list(self._unconfirmed):
            if invocation.count <= self.processed(invocation.session):
                self._unconfirmed.remove(invocation)
                confirmed.append(invocation)
        return confirmed

    def _read(
        self, confirmed: Iterable[_Captured] = ()
    ) -> list[tuple[PluginSpool, list[Invoked], tuple[int, int, int] | None]]:
        for invocation in confirmed:
            invocation.plugin.remove(invocation.stem)
        if self._lock is not None and not os.fstat(self._lock).st_nlink:
            # Removed, and maybe made again by the next call.
            os.close(self._lock)
            self._lock = None
        if self._lock is None:
            self._lock = locked_folder(self.path)
        self._find_plugins()
        batches = []
        for plugin in self._plugins.values():
            invoked: list[Invoked] = []
            size = 0
            for stem in plugin.waiting()[:TURN]:
                try:
                    invoked.append(plugin.read(stem))
                except FileNotFoundError:
                    # Removed by someone else.
                    continue
                size += len(invoked[-1].call.request) + len(invoked[-1].call.reply)
                if size > TURN_BYTES:
                    break
            batches.append((plugin, invoked, plugin.take_lost()))
        return batches

    def _find_plugins(self) -> None:
        for name, plugin in list(self._plugins.items()):
            if not os.fstat(plugin.folder).st_nlink:
                # Removed, and maybe made again by the next call.
                plugin.close()
                del self._plugins[name]
        for name in sorted(os.listdir(self.path))[:PLUGINS_MAX]:  # noqa: PTH208
            if name in self._plugins or not v01.TYPE.fullmatch(name):
                continue
            with contextlib.suppress(NotADirectoryError, FileNotFoundError):
                self._plugins[name] = PluginSpool(name, open_folder(self.path / name))

    def _record(
        self, batches: list[tuple[PluginSpool, list[Invoked], tuple[int, int, int] | None]]
    ) -> bool:
        """Pass what was read to the recording; return whether more is waiting."""
        for plugin, invoked, lost in batches:
            for item in invoked:
                handle = self._session(plugin.name, item.call.wall_ns, item.version)
                # Before the event, which confirms them, too.
                for line in item.printed:
                    self.sink.printed(handle, item.call.wall_ns + item.call.took_ns, "stderr", line)
                self.sink.capture(handle, item.call)
                plugin.recorded.add(item.stem)
                self._captured[handle] = self._captured.get(handle, 0) + 1
                self._unconfirmed.append(
                    _Captured(plugin, item.stem, handle, self._captured[handle])
                )
            if lost is not None:
                count, from_ns, to_ns = lost
                handle = self._session(plugin.name, from_ns, "")
                self.sink.note_gap(handle, from_ns, to_ns, NOT_SPOOLED, count)
            if plugin.trouble:
                self._say_once(
                    f"{self.path}: recorded requests cannot be removed: {plugin.trouble}"
                )
        return any(invoked for _, invoked, _ in batches)

    def _session(self, plugin: str, began_ns: int, version: str) -> int:
        handle = self._handles.get(plugin)
        if handle is None:
            handle = self._handles[plugin] = self.sink.begin_session(
                _start(plugin, began_ns, version or v01.VERSION)
            )
            self.sessions += 1
            self.say(f"recording requests of NRI 0.1 to {plugin}, from {self.path}")
        return handle

    def _say_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self.say(f"warning: {text}")


def open_folder(path: Path) -> int:
    """Open a folder of a spool; return its descriptor.

    Raises UsageError if other users can write to it, and OSError.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    status = os.fstat(descriptor)
    if status.st_uid not in (0, os.geteuid()) or status.st_mode & 0o022:
        os.close(descriptor)
        raise UsageError(
            f"{path}: other users can write to this spool", "run chown root and chmod 700 on it"
        )
    return descriptor


def locked_folder(path: Path) -> int:
    """Open and lock a spool against a second recorder. Raises as `open_folder`."""
    descriptor = open_folder(path)
    is_locked = True
    with contextlib.suppress(OSError):
        is_locked = try_lock(descriptor)
    if not is_locked:
        os.close(descriptor)
        raise UsageError(f"{path}: another recorder reads this spool", "end it first")
    return descriptor


def check_spool(path: Path) -> Path:
    """Return the path of a spool without symbolic links.

    Raises UsageError if it is no spool, if other users can write to it or replace it, or if another
    recorder uses it.
    """
    try:
        path = private_place(path, "name another --spool")
        os.close(locked_folder(path))
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    os.close(open_folder(path / entry.name))
    except OSError as error:
        hint = "`tap --wrap PLUGIN --v01` makes a spool"
        if isinstance(error, PermissionError):
            hint = root_hint("run it as root")
        raise UsageError(f"{path}: {reason_of(error)}", hint) from error
    return path


def _facts(content: bytes) -> dict[str, int]:
    """Return the numbers that a wrapped plugin's group has; {} for anything else."""
    try:
        facts = json.loads(content) if content else {}
    except (ValueError, RecursionError):
        return {}
    if not isinstance(facts, dict):
        return {}
    names = ("status", "began_ns", "took_ns", "held_ns", "cut")
    return {
        key: facts[key]
        for key in names
        if type(facts.get(key)) is int and -(2**31) < facts[key] < 2**63
    }


def _start(plugin: str, began_ns: int, version: str) -> SessionStart:
    # The request does not name the runtime.
    start = SessionStart.unconfigured(Role.V01, "", plugin, began_ns)
    return replace(start, nri_version=version)
