# SPDX-License-Identifier: Apache-2.0
"""A mount namespace for this process, in which the folder of the shims' sockets is its own.

Every containerd of a machine uses that folder, and nothing tells whose socket is whose. With one of
its own, each process that runs tests sees what its own containerds leave there, and no other.
"""

from __future__ import annotations

import ctypes
import subprocess
from functools import cache

from .leftovers import SHIM_SOCKETS

_CLONE_NEWNS = 0x0002_0000
"""Of ``linux/sched.h``; ``os.unshare`` came with Python 3.12."""


@cache
def enter() -> None:
    """Make it, once, from the main thread, which starts all processes of the tests."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), "cannot make a mount namespace")
    _mount("--make-rprivate", "/")
    SHIM_SOCKETS.mkdir(parents=True, exist_ok=True)
    _mount("-t", "tmpfs", "tmpfs", str(SHIM_SOCKETS))


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)
