# SPDX-License-Identifier: Apache-2.0
"""Version of a process's program, found by running it with ``--version`` if that is safe.

Any user can start a process called containerd, and this code usually runs as root. So it only runs
a program that gains no rights by that: root (or the current user) already runs it, from a file that
no other user can change.
"""

from __future__ import annotations

import os
import re
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .host import words

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
        return ProgramVersion("", words(error))
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
