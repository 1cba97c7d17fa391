# SPDX-License-Identifier: Apache-2.0
"""Files of the examined machine, below a root folder, and its processes of runtimes."""

from __future__ import annotations

import errno
import os
import re
import stat
import subprocess
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import BinaryIO, NamedTuple

from nri_scope.errors import reason_of

FILE_MAX = 1 << 20
"""Maximum size of a file in bytes; configuration files have a few thousand."""
LISTING_MAX = 1000
"""Maximum number of entries of a folder that are examined."""
LINKS_MAX = 40
"""Maximum number of symbolic links followed for one path, as in the kernel."""


@dataclass(frozen=True, slots=True)
class Host:
    """A machine's file system, mounted at ``root``.

    Paths are those of that machine. Symbolic links are followed inside ``root``, absolute ones too:
    a node's /var/run is a link to /run, and in a debug container both are below /host.
    """

    root: Path = Path("/")

    def below(self, folder: str) -> Host:
        """Return the file system whose root is at ``folder``."""
        return Host(self.root.joinpath(folder.lstrip("/")))

    def resolve(self, path: str) -> Path:
        """Return ``path`` on this machine, without links; missing parts are appended unchanged.

        Raises OSError for a loop of links.
        """
        pending = _parts(path)
        root: list[str] = []
        real: list[str] = []
        links = 0
        while pending:
            part = pending.pop()
            if part == "..":
                del real[max(len(root), len(real) - 1) :]
                continue
            if part == "root" and len(real) == 2 and real[0] == "proc":
                # The link's text is "/", in the mount namespace of the process.
                root = [*real, part]
                real = [*root]
                continue
            current = self.root.joinpath(*real, part)
            try:
                is_link = stat.S_ISLNK(current.lstat().st_mode)
            except OSError:
                # Opening the path later raises the same error.
                is_link = False
            if not is_link:
                real.append(part)
                continue
            links += 1
            if links > LINKS_MAX:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            target = current.readlink()
            if target.is_absolute():
                real = [*root]
            pending.extend(_parts(str(target)))
        return self.root.joinpath(*real)

    def status(self, path: str) -> os.stat_result:
        """Return the status of ``path``, following links. Raises OSError."""
        return self.resolve(path).stat()

    def exists(self, path: str) -> bool:
        """Return whether ``path`` exists; False without permission to see it."""
        try:
            self.status(path)
        except OSError:
            return False
        return True

    def read(self, path: str, limit: int = FILE_MAX) -> bytes:
        """Return the content of a regular file of at most ``limit`` bytes. Raises OSError."""
        with self._open(path) as file:
            content = file.read(limit + 1)
        if len(content) > limit:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)
        return content

    def head(self, path: str, limit: int) -> bytes:
        """Return the first ``limit`` bytes of a regular file; b"" if it cannot be read."""
        try:
            with self._open(path) as file:
                return file.read(limit)
        except OSError:
            return b""

    def tail(self, path: str, limit: int) -> bytes:
        """Return the last ``limit`` bytes of a regular file. Raises OSError."""
        with self._open(path) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - limit))
            return file.read(limit)

    def _open(self, path: str) -> BinaryIO:
        # Without O_NONBLOCK, opening a named pipe would wait for a writer.
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
        file = os.fdopen(os.open(self.resolve(path), flags), "rb")
        mode = os.fstat(file.fileno()).st_mode
        if stat.S_ISREG(mode):
            return file
        file.close()
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        raise OSError(errno.EINVAL, "not a regular file", path)

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, sorted by bytes as in Go. Raises OSError."""
        with os.scandir(self.resolve(folder)) as entries:
            return sorted((entry.name for entry in islice(entries, LISTING_MAX)), key=os.fsencode)

    def readable_names(self, folder: str) -> list[str]:
        """Return the names in a folder as `names` does; none if it cannot be read."""
        try:
            return self.names(folder)
        except OSError:
            return []


def _parts(path: str) -> list[str]:
    """Return the components of ``path``, last first."""
    return [part for part in reversed(path.split("/")) if part not in ("", ".")]


PROCESSES_MAX = 50_000

RUNTIMES = {
    "containerd": "containerd",
    "crio": "cri-o",
    "dockerd": "docker",
    "isulad": "isulad",
}
"""Runtimes by their process names."""


@dataclass(frozen=True, slots=True)
class RuntimeProcess:
    """Process of a runtime's daemon."""

    runtime: str
    """A value of `RUNTIMES`."""
    pid: int
    arguments: tuple[str, ...]
    """Command line without the program's name."""
    program: str
    """Target of /proc/PID/exe; "" without permission to read it."""
    replaced: bool
    """Whether the program's file was replaced or deleted since the process started."""
    started_at: float | None
    """Start time in seconds since the epoch."""
    folder: str = ""
    """Its working folder; "" without permission to read it."""
    root: str = ""
    """Prefix of paths to files as it sees them, if it has a mount namespace of its own."""

    def path(self, path: str) -> str:
        """Return a path of its command line as an absolute path."""
        # Without permission, reading the file fails for the right reason.
        return str(PurePosixPath(self.folder or f"/proc/{self.pid}/cwd", path))


class NamedProcess(NamedTuple):
    """A process."""

    name: str
    """Its short name."""
    pid: int


def running_runtimes(host: Host) -> tuple[RuntimeProcess, ...]:
    """Return the daemons of all runtimes, sorted by process id; empty if /proc cannot be read."""
    boot = _boot_time(host)
    processes = (_process(host, pid, boot) for pid in _pids(host))
    return tuple(process for process in processes if process is not None)


def _pids(host: Host) -> list[int]:
    """Return the ids of all processes, ascending; none if /proc cannot be read."""
    try:
        with os.scandir(host.resolve("/proc")) as entries:
            names = [entry.name for entry in islice(entries, PROCESSES_MAX)]
    except OSError:
        return []
    return sorted(int(name) for name in names if name.isdecimal())


def first_process(
    host: Host, names: Collection[str], *, argument: str = "", same_root: bool = False
) -> NamedProcess | None:
    """Return the process with the lowest id among those with one of these short names.

    ``argument``: only with this word on its command line. ``same_root``: not in containers.
    """
    for pid in _pids(host):
        name = process_name(host, pid)
        if (
            name in names
            and not (argument and argument not in _command_line(host, pid))
            and not (same_root and _has_other_root(host, pid))
        ):
            return NamedProcess(name, pid)
    return None


def process_name(host: Host, pid: int) -> str:
    """Return a process's short name; "" if the process does not exist or is hidden."""
    try:
        return host.read(f"/proc/{pid}/comm").decode(errors="replace").strip()
    except OSError:
        return ""


def _process(host: Host, pid: int, boot: float | None) -> RuntimeProcess | None:
    runtime = RUNTIMES.get(process_name(host, pid))
    if runtime is None or _has_other_root(host, pid):
        return None
    command = _command_line(host, pid)
    # Do not resolve the link: its text has the path, and shows whether the file was deleted.
    program = _link(host, pid, "exe")
    namespace = _link(host, pid, "ns/mnt")
    # In a container with the node's files, only those of /proc are the node's processes.
    ours = _link(host, "self" if host.root == Path("/") else 1, "ns/mnt")
    return RuntimeProcess(
        runtime,
        pid,
        tuple(command[1:]),
        program.removesuffix(" (deleted)"),
        program.endswith(" (deleted)"),
        _started_at(host, pid, boot),
        _link(host, pid, "cwd"),
        f"/proc/{pid}/root" if namespace and ours and namespace != ours else "",
    )


def _link(host: Host, pid: int | str, name: str) -> str:
    """Return the text of a link of a process; "" without permission to read it."""
    try:
        return str(host.root.joinpath("proc", str(pid), name).readlink())
    except OSError:
        return ""


def _command_line(host: Host, pid: int) -> list[str]:
    try:
        return host.read(f"/proc/{pid}/cmdline").decode(errors="replace").split("\0")[:-1]
    except OSError:
        return []


def environment(host: Host, pid: int) -> dict[str, str]:
    """Return a process's variables; none without permission to read them."""
    try:
        entries = host.read(f"/proc/{pid}/environ").decode(errors="replace").split("\0")
    except OSError:
        return {}
    return {name: value for name, _, value in (entry.partition("=") for entry in entries)}


def _has_other_root(host: Host, pid: int) -> bool:
    """Return whether the process has another root folder.

    Such a process, for example in a kind node, reads configuration files of its own.
    """
    try:
        theirs = host.root.joinpath("proc", str(pid), "root").stat()
        ours = host.root.stat()
    except OSError:
        return False
    return (theirs.st_dev, theirs.st_ino) != (ours.st_dev, ours.st_ino)


def _boot_time(host: Host) -> float | None:
    try:
        text = host.read("/proc/stat", limit=64 << 20)
    except OSError:
        return None
    match = re.search(rb"^btime (\d+)$", text, re.MULTILINE)
    return float(match[1]) if match else None


def _started_at(host: Host, pid: int, boot: float | None) -> float | None:
    try:
        text = host.read(f"/proc/{pid}/stat")
    except OSError:
        return None
    # proc(5): the name, in parentheses, may contain any character; field 22 is the start in ticks.
    fields = text.rpartition(b")")[2].split()
    if boot is None or len(fields) < 20 or not fields[19].isdigit():
        return None
    return boot + int(fields[19]) / os.sysconf("SC_CLK_TCK")


def option(arguments: tuple[str, ...], *names: str) -> str | None:
    """Return the last value of an option, ``--name value`` or ``--name=value``; None if absent."""
    value = None
    for position, argument in enumerate(arguments):
        name, equals, inline = argument.partition("=")
        if name in names:
            if equals:
                value = inline
            elif position + 1 < len(arguments):
                value = arguments[position + 1]
    return value


VERSION_TIMEOUT = 3.0
"""Timeout in seconds of ``--version``, which takes a few milliseconds."""
STATUS_MAX = 64 << 10
"""Maximum number of bytes read from /proc/PID/status, which has about 1,500."""

_VERSION = re.compile(rb"\bv?(\d+\.\d+\.\d+[^\s,]*)", re.ASCII)
# proc(5): real, effective, saved and file system user id. A process cannot forge this line, as line
# ends in its name are escaped.
_UIDS = re.compile(rb"^Uid:\t(\d+)\t(\d+)\t(\d+)\t(\d+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ProgramVersion:
    """Version printed by a program."""

    text: str
    """The version, e.g. ``1.7.24~ds1``; "" if unknown."""
    why: str = ""
    """Why it is unknown; "" if there is no reason to report."""


class _Unsafe(Exception):
    """The program must not be run; the text is the reason."""


def program_version(pid: int, proc: Path = Path("/proc")) -> ProgramVersion:
    """Return the version that the program of process ``pid`` reports, if it is safe to run it."""
    try:
        with _open_path(proc / str(pid), os.O_DIRECTORY) as process:
            _check_process(process)
            # Use only this descriptor from here on: the path may change.
            with _open_path("exe", within=process) as program:
                _check_file(os.fstat(program))
                return _run(program)
    except _Unsafe as reason:
        return ProgramVersion("", f"{reason}, so it was not run")
    except OSError as error:
        return ProgramVersion("", reason_of(error))
    except subprocess.TimeoutExpired:
        return ProgramVersion("", f"--version did not end within {VERSION_TIMEOUT:g} s")


@contextmanager
def _open_path(path: str | Path, flags: int = 0, within: int | None = None) -> Iterator[int]:
    # O_PATH is enough for fstat and exec; it needs no read permission, and opens no device.
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC | flags, dir_fd=within)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _trusted() -> tuple[int, ...]:
    """Return the users whose programs may be run: root and the current user."""
    return (0, os.geteuid())


def _check_process(process: int) -> None:
    descriptor = os.open("status", os.O_RDONLY | os.O_CLOEXEC, dir_fd=process)
    with os.fdopen(descriptor, "rb") as file:
        match = _UIDS.search(file.read(STATUS_MAX))
    if match is None:
        raise _Unsafe("its user is unknown")
    for uid in map(int, match.groups()):
        if uid not in _trusted():
            raise _Unsafe(f"its process belongs to user {uid}")
    # A process in a container runs a file of the container.
    theirs, ours = os.stat("root", dir_fd=process), Path("/").stat()
    if (theirs.st_dev, theirs.st_ino) != (ours.st_dev, ours.st_ino):
        raise _Unsafe("its process has another root folder")


def _check_file(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise _Unsafe("its program is not a regular file")
    if status.st_uid not in _trusted():
        raise _Unsafe(f"its program belongs to user {status.st_uid}")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise _Unsafe(
            f"other users may write to its program (mode {stat.S_IMODE(status.st_mode):04o})"
        )


def _run(program: int) -> ProgramVersion:
    result = subprocess.run(
        [f"/proc/self/fd/{program}", "--version"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={},
        cwd="/",
        timeout=VERSION_TIMEOUT,
        check=False,
        pass_fds=(program,),
    )
    match = _VERSION.search(result.stdout[:10_000])
    if match is None:
        return ProgramVersion("", "--version printed no version")
    return ProgramVersion(match[1].decode(errors="replace"))
