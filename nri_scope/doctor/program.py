# SPDX-License-Identifier: Apache-2.0
"""The version of a process's program, by asking the program if that is safe.

Any user can start a process called containerd, and this code usually runs as root. So it only
executes a program that gains no rights by that: one that root (or the current user) already runs,
from a file that no other user can change.
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
"""Timeout in seconds of a runtime's ``--version``, which takes some milliseconds."""
STATUS_MAX = 64 << 10
"""Maximum number of bytes read of /proc/PID/status, which has some 1,500."""

_VERSION = re.compile(rb"\bv?(\d+\.\d+\.\d+[^\s,]*)", re.ASCII)
# proc(5): real, effective, saved and file system user id. Line ends in a name are escaped in this
# file, so that no process can forge the line.
_UIDS = re.compile(rb"^Uid:\t(\d+)\t(\d+)\t(\d+)\t(\d+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ProgramVersion:
    """The version that a program prints."""

    text: str
    """The version, e.g. ``1.7.24~ds1``; "" if unknown."""
    why: str = ""
    """Why it is unknown, if there is a reason to report."""


class _Refused(Exception):
    """The program must not be executed; the text gives the reason."""


def program_version(pid: int, proc: Path = Path("/proc")) -> ProgramVersion:
    """Return the version that the program of process ``pid`` reports, if it is safe to run it."""
    try:
        with _opened(proc / str(pid), os.O_DIRECTORY) as process:
            _refuse_foreign_process(process)
            # From here on only this open file is used, even if its path changes.
            with _opened("exe", within=process) as program:
                _refuse_foreign_file(os.fstat(program))
                return _ask(program)
    except _Refused as refusal:
        return ProgramVersion("", f"{refusal}, so it was not run")
    except OSError as error:
        return ProgramVersion("", words(error))
    except subprocess.TimeoutExpired:
        return ProgramVersion("", f"no answer to --version within {VERSION_TIMEOUT:g} s")


@contextmanager
def _opened(path: str | Path, flags: int = 0, within: int | None = None) -> Iterator[int]:
    # O_PATH: a handle for fstat and exec, which does not need read permission or touch a device.
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC | flags, dir_fd=within)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _trusted() -> tuple[int, ...]:
    """Return the users whose programs may be run: root and the current user."""
    return (0, os.geteuid())


def _refuse_foreign_process(process: int) -> None:
    descriptor = os.open("status", os.O_RDONLY | os.O_CLOEXEC, dir_fd=process)
    with os.fdopen(descriptor, "rb") as file:
        match = _UIDS.search(file.read(STATUS_MAX))
    if match is None:
        raise _Refused("its user is not known")
    for uid in map(int, match.groups()):
        if uid not in _trusted():
            raise _Refused(f"the process is of user {uid}")
    # A container's root is not the machine's root, and its files are not the machine's.
    theirs, ours = os.stat("root", dir_fd=process), Path("/").stat()
    if (theirs.st_dev, theirs.st_ino) != (ours.st_dev, ours.st_ino):
        raise _Refused("the process has another root folder")


def _refuse_foreign_file(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise _Refused("its program is no regular file")
    if status.st_uid not in _trusted():
        raise _Refused(f"its program belongs to user {status.st_uid}")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise _Refused(f"others may write its program (mode {stat.S_IMODE(status.st_mode):04o})")


def _ask(program: int) -> ProgramVersion:
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
        return ProgramVersion("", "its --version names none")
    return ProgramVersion(match[1].decode(errors="replace"))
