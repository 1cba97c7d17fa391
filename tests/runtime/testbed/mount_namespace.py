# SPDX-License-Identifier: Apache-2.0
"""Mount namespace of this process with a private folder for the sockets of shims.

All containerds of a machine share that folder, and sockets do not identify their containerd. With
a private folder, each test process sees only the sockets of its own containerds.
"""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from .leftovers import SHIM_SOCKETS

_CLONE_NEWNS = 0x0002_0000
"""From ``linux/sched.h``; ``os.unshare`` exists since Python 3.12."""


@cache
def enter() -> None:
    """Enter the namespace, once; call it in the main thread, which starts all test processes."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), "cannot make a mount namespace")
    _mount("--make-rprivate", "/")
    SHIM_SOCKETS.mkdir(parents=True, exist_ok=True)
    _mount("-t", "tmpfs", "tmpfs", str(SHIM_SOCKETS))


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


@contextmanager
def private_etc(folder: Path) -> Iterator[None]:
    """Let this process and its children change files in /etc that no other process sees."""
    enter()
    _mount("-t", "tmpfs", "tmpfs", str(folder))
    upper, work = folder / "upper", folder / "work"
    upper.mkdir()
    work.mkdir()
    options = f"lowerdir=/etc,upperdir={upper},workdir={work}"
    _mount("-t", "overlay", "overlay", "-o", options, "/etc")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", "/etc", str(folder)], check=True)
