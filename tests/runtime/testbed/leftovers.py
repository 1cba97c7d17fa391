# SPDX-License-Identifier: Apache-2.0
"""What a containerd leaves behind when it is not taken down well, and how to get rid of it.

Processes, mounts and cgroups are found by the testbed's own folder and its name, so a containerd
that the machine runs for itself is never touched.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from .config import Layout

ENDING = 1.0
"""Seconds for a launched plugin to bring to its files what it has, once containerd is gone."""

SHIM_SOCKETS = Path("/run/containerd/s")
"""Where every shim puts its socket, whatever state folder its containerd was given."""


def find(layout: Layout, earlier: set[Path]) -> list[str]:
    """What is left of the containerd at ``layout``, in words; empty when all is clean.

    ``earlier``: what :func:`shim_sockets` said before it was started.
    """
    left = [f"process {pid}: {command}" for pid, command in _processes(layout, _is_containerds)]
    left += [f"plugin {pid}: {command}" for pid, command in _processes(layout, _is_plugin)]
    left += [f"process {pid} in cgroup {layout.cgroup}" for pid in _cgroup_processes(layout)]
    left += [f"mount {path}" for path in _mounts(layout)]
    left += [f"cgroup {path}" for path in _cgroups(layout)]
    left += [f"socket {path}" for path in _dead_sockets(earlier)]
    if layout.folder.exists():
        left.append(f"folder {layout.folder}")
    return left


def clear(layout: Layout, earlier: set[Path]) -> None:
    """End, unmount and remove everything that :func:`find` finds but the folder itself."""
    for pid, _ in _processes(layout, _is_plugin):
        _kill(pid, after=ENDING)
    for pid in [
        *(pid for pid, _ in _processes(layout, _is_containerds)),
        *_cgroup_processes(layout),
    ]:
        _kill(pid)
    for mount in reversed(_mounts(layout)):
        subprocess.run(["umount", "--lazy", mount], check=False)
    for cgroup in _cgroups(layout):
        _remove_cgroup(cgroup)
    for socket in _dead_sockets(earlier):
        socket.unlink(missing_ok=True)


def shim_sockets() -> set[Path]:
    """All sockets of shims on this machine, also of other containerds."""
    return set(SHIM_SOCKETS.iterdir()) if SHIM_SOCKETS.is_dir() else set()


def _dead_sockets(earlier: set[Path]) -> list[Path]:
    """Sockets that came after ``earlier`` and on which nobody listens (any more).

    A shim removes its own, but not when it or the call that started it is cut short. By their
    names they are nobody's; but nobody can need a dead one.
    """
    alive = {line.split()[-1] for line in Path("/proc/net/unix").read_text().splitlines()}
    return sorted(path for path in shim_sockets() - earlier if str(path) not in alive)


def _processes(
    layout: Layout, is_meant: Callable[[Layout, list[str]], bool]
) -> list[tuple[int, str]]:
    """Living processes by their command lines, word by word."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        try:
            words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue  # it ended meanwhile
        if is_meant(layout, words):
            found.append((int(entry.name), " ".join(words).strip()))
    return found


def _is_containerds(layout: Layout, words: list[str]) -> bool:
    """containerd itself and its shims name the folder."""
    program = Path(words[0]).name
    return program.startswith("containerd") and any(str(layout.folder) in word for word in words)


def _is_plugin(layout: Layout, words: list[str]) -> bool:
    """A plugin that containerd launched, as a script with its interpreter in front."""
    return any(word.startswith(f"{layout.plugins}/") for word in words[:2])


def _cgroups(layout: Layout) -> list[Path]:
    """The testbed's cgroup folders in every hierarchy, children before their parents."""
    base = Path("/sys/fs/cgroup")
    name = layout.cgroup.lstrip("/")
    tops = [base / name, *(each / name for each in base.iterdir())]
    found: list[Path] = []
    for top in tops:
        # Controllers mounted together are links to one folder: look at each only once.
        if top.is_dir() and not top.parent.is_symlink():
            found += [Path(folder) for folder, _, _ in os.walk(top, topdown=False)]
    return found


def _cgroup_processes(layout: Layout) -> list[int]:
    pids: set[int] = set()
    for folder in _cgroups(layout):
        try:
            pids.update(int(word) for word in (folder / "cgroup.procs").read_text().split())
        except OSError:
            continue
    return sorted(pids)


def _remove_cgroup(path: Path) -> None:
    """A cgroup stays busy until its killed processes have been reaped, a moment later."""
    for _ in range(200):
        try:
            path.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.01)


def _mounts(layout: Layout) -> list[str]:
    """Mount points below the folder, in the order in which they were mounted."""
    prefix = f"{layout.folder}/"
    points = (
        line.split()[4].encode().decode("unicode_escape")
        for line in Path("/proc/self/mountinfo").read_text().splitlines()
    )
    return [point for point in points if point.startswith(prefix)]


def _kill(pid: int, *, after: float = 0) -> None:
    """SIGKILL, unless it ends by itself within ``after`` seconds; wait until it is gone.

    It may or may not be a child of ours.
    """
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        if select.select([descriptor], [], [], after)[0]:
            return
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        select.select([descriptor], [], [], 10)
    except ProcessLookupError:
        pass
    finally:
        os.close(descriptor)
