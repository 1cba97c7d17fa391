# SPDX-License-Identifier: Apache-2.0
"""Attacks by another user of the machine who can write to a recording's folder."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

USER = 65534
needs_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="needs root: gives files and processes to a second user"
)
_PAGE = 4096
_JOURNAL = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"
"""Magic number, at the beginning of a journal, and at the end of one that names a super-journal."""
_BECOME = f"""
import fcntl, os, socket, sqlite3, sys, time
os.setgroups([]); os.setresgid({USER}, {USER}, {USER}); os.setresuid({USER}, {USER}, {USER})
def attempt(function, *parameters):
    try:
        return function(*parameters)
    except OSError:
        return None
folder, *arguments = sys.argv[1:]
os.chdir(folder)
print("ready", flush=True)
"""


@pytest.fixture
def public() -> Iterator[Path]:
    """Return a folder that other users can enter, unlike pytest's own."""
    with tempfile.TemporaryDirectory(prefix="nri-scope-public-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def give(*paths: Path) -> None:
    """Make the other user the owner of ``paths``."""
    for path in paths:
        os.chown(path, USER, USER, follow_symlinks=False)


def journal_naming(victim: Path, recording_bytes: int) -> bytes:
    """Return a killed writer's journal, on whose rollback SQLite would delete ``victim``."""
    pages = recording_bytes // _PAGE
    header = _JOURNAL + struct.pack(">IIIII", 0, 0, pages, 512, _PAGE)
    name = os.fsencode(victim)
    end = struct.pack(">II", len(name), sum(name)) + _JOURNAL
    return header.ljust(512, b"\0") + b"\0\0\0\1" + name + end


def make_other_kind(path: Path, kind: str, target: Path) -> None:
    """Create a pipe, socket, folder or link to ``target`` at ``path``."""
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "socket":
            with socket.socket(socket.AF_UNIX) as listening:
                listening.bind(str(path))
        case "folder":
            path.mkdir()
        case "link":
            path.symlink_to(target)
        case _:
            raise ValueError(kind)


@contextmanager
def acting(folder: Path, program: str, *arguments: object) -> Iterator[None]:
    """Run a Python program as the other user, in ``folder``, until the block ends.

    The program can use ``arguments`` and ``attempt(function, ...)``, which returns None on OSError.
    """
    code = _BECOME + textwrap.dedent(program)
    command = [sys.executable, "-I", "-c", code, str(folder), *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield
            assert process.poll() is None, "the other user's program has ended"
        finally:
            process.kill()
