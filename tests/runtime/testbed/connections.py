# SPDX-License-Identifier: Apache-2.0
"""Shut down connections of other processes, like a runtime that disconnects a plugin."""

from __future__ import annotations

import ctypes
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from .packages import TestbedError

PIDFD_GETFD = 438
"""The system call's number on every architecture; Python has no name for it."""


def cut_oldest(pid: int, path: Path) -> None:
    """Shut down the oldest connection of a process to the unix socket ``path``.

    :raises TestbedError: the process has no such connection.
    """
    found = sorted(_connections(pid, path), key=lambda one: os.fstat(one.fileno()).st_ino)
    try:
        if not found:
            raise TestbedError(f"process {pid} is not connected to {path}")
        found[0].shutdown(socket.SHUT_RDWR)
    finally:
        for one in found:
            one.close()


def _connections(pid: int, path: Path) -> Iterator[socket.socket]:
    """Yield duplicates of the process's sockets connected to ``path``; the caller closes them."""
    process = os.pidfd_open(pid)
    try:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            try:
                if not str(entry.readlink()).startswith("socket:"):
                    continue
            except FileNotFoundError:
                continue  # closed in the meantime
            one = _duplicate(process, int(entry.name))
            if one is None:
                continue
            if _is_connected(one, path):
                yield one
            else:
                one.close()
    finally:
        os.close(process)


def _duplicate(process: int, descriptor: int) -> socket.socket | None:
    libc = ctypes.CDLL(None, use_errno=True)
    duplicate: int = libc.syscall(PIDFD_GETFD, process, descriptor, 0)
    return socket.socket(fileno=duplicate) if duplicate >= 0 else None


def _is_connected(one: socket.socket, path: Path) -> bool:
    try:
        return one.family == socket.AF_UNIX and one.getpeername() == str(path)
    except OSError:
        return False
