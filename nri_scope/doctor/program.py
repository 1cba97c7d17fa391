# SPDX-License-Identifier: Apache-2.0
"""The version of a process's program, by asking the program if that is safe.

Any user can start a process that is called containerd. What is executed here, as root as a rule, is
therefore only what could not do more than it does already: the program of a process of root (or of
the user we are), in a file that no other user can change.
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
"""Seconds for a runtime's ``--version``, which takes some milliseconds."""
STATUS_MAX = 64 << 10
"""Bytes read of /proc/PID/status; it has some 1,500."""

_VERSION = re.compile(rb"\bv?(\d+\.\d+\.\d+[^\s,]*)", re.ASCII)
# proc(5): real, effective, saved and file system user id. A name in this file has its line ends
# escaped, so that no process can forge the line.
_UIDS = re.compile(rb"^Uid:\t(\d+)\t(\d+)\t(\d+)\t(\d+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ProgramVersion:
    """The version that a program prints."""

    text: str
    """E.g. ``1.7.24~ds1``; "" if unknown."""
    why: str = ""
    """Why it is unknown, where there is something to say about it."""


class _Refused(Exception):
    """The program must not be executed; the text says why."""


def program_version(pid: int, proc: Path = Path("/proc")) -> ProgramVersion:
    """Return what the program of process ``pid`` answers to ``--version``, if it is safe to ask."""
    try:
        with _opened(proc / str(pid), os.O_DIRECTORY) as process:
            _refuse_foreign_process(process)
            # From here on everything is about this one open file, whatever becomes of its path.
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
    # O_PATH: a handle for fstat and exec, which neither needs the right to read nor touches a
    # device.
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC | flags, dir_fd=within)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _trusted() -> tuple[int, ...]:
    """Return the users whose programs may be run: root, and ourselves."""
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
