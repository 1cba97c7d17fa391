# SPDX-License-Identifier: Apache-2.0
"""Mount namespace in which a process finds one folder in place of another.

The calling process enters it, and the programs that it executes inherit it. No mount is visible
outside.
"""

# Importing pathlib would double the start time of the helper process that uses this module.
# ruff: noqa: PTH102, PTH112, PTH114, PTH115, PTH118, PTH120, PTH123, PTH208

from __future__ import annotations

import ctypes
import errno
import os
import pathlib

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000

_LIBC = ctypes.CDLL(None, use_errno=True)


def replace_folder(target: str, folder: str) -> None:
    """Enter a new mount namespace, in which ``target`` is the content of ``folder``.

    ``target`` need not exist, but the folder that contains it must. Needs root, or a system that
    permits user namespaces. Raises OSError.
    """
    _enter_namespace()
    _mount("none", "/", MS_REC | MS_PRIVATE)
    target = os.path.realpath(target)
    if not os.path.isdir(target):
        _make_writable(os.path.dirname(target))
        os.mkdir(target)
    _mount(folder, target, MS_BIND)


def _enter_namespace() -> None:
    try:
        _check(_LIBC.unshare(CLONE_NEWNS))
    except OSError as error:
        if error.errno != errno.EPERM:
            raise
        user, group = os.geteuid(), os.getegid()
        _check(_LIBC.unshare(CLONE_NEWUSER | CLONE_NEWNS))
        # The process keeps its ids, and may mount until it executes another program.
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{user} {user} 1"),
            ("gid_map", f"{group} {group} 1"),
        ):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)


def _make_writable(folder: str) -> None:
    """Replace ``folder`` by an empty one, and mount its former entries there."""
    entries = os.listdir(folder)
    # Names below this descriptor are still found after the mount.
    former = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    _mount("tmpfs", folder, 0, "tmpfs")
    for entry in entries:
        source, target = f"/proc/self/fd/{former}/{entry}", os.path.join(folder, entry)
        if os.path.islink(source):
            pathlib.Path(target).symlink_to(os.readlink(source))
            continue
        if os.path.isdir(source):
            os.mkdir(target)
        else:
            open(target, "xb").close()
        _mount(source, target, MS_BIND | MS_REC)
    os.close(former)


def _mount(source: str, target: str, flags: int, kind: str = "") -> None:
    names = [os.fsencode(name) for name in (source, target)]
    _check(_LIBC.mount(*names, kind.encode() or None, ctypes.c_ulong(flags), None))


def _check(result: int) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
