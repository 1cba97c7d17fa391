# SPDX-License-Identifier: Apache-2.0
"""Find and remove what a containerd left behind.

Processes, mounts and cgroups are found by the testbed's folder, so that the machine's own
containerd is never affected.
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
"""Seconds for a launched plugin to write its files after the end of containerd."""

SHIM_SOCKETS = Path("/run/containerd/s")
"""Folder of the sockets of all shims, independent of containerd's state folder."""


def find(layout: Layout, earlier: set[Path]) -> list[str]:
    """Describe what is left of the containerd at ``layout``; empty if nothing is.

    ``earlier`` is the result of :func:`shim_sockets` before its start.
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
    """Kill, unmount and remove everything that :func:`find` reports except the folder."""
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
    """Return all shim sockets on this machine, also of other containerds."""
    return set(SHIM_SOCKETS.iterdir()) if SHIM_SOCKETS.is_dir() else set()


def _dead_sockets(earlier: set[Path]) -> list[Path]:
    """Return the sockets created after ``earlier`` on which no process listens.

    A shim removes its socket unless it or the call that started it is interrupted. The names do not
    identify the containerd, but dead sockets are unused.
    """
    alive = {line.split()[-1] for line in Path("/proc/net/unix").read_text().splitlines()}
    return sorted(path for path in shim_sockets() - earlier if str(path) not in alive)


def _processes(
    layout: Layout, is_meant: Callable[[Layout, list[str]], bool]
) -> list[tuple[int, str]]:
    """Return id and command line of the running processes selected by their arguments."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        try:
            words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue  # ended in the meantime
        if is_meant(layout, words):
            found.append((int(entry.name), " ".join(words).strip()))
    return found


def _is_containerds(layout: Layout, words: list[str]) -> bool:
    """Whether this is containerd or a shim: their command lines contain the folder."""
    program = Path(words[0]).name
    return program.startswith("containerd") and any(str(layout.folder) in word for word in words)


def _is_plugin(layout: Layout, words: list[str]) -> bool:
    """Whether this is a launched plugin, possibly a script after its interpreter."""
    return any(word.startswith(f"{layout.plugins}/") for word in words[:2])


def _cgroups(layout: Layout) -> list[Path]:
    """Return the testbed's cgroup folders in every hierarchy, children before parents."""
    base = Path("/sys/fs/cgroup")
    name = layout.cgroup.lstrip("/")
    tops = [base / name, *(each / name for each in base.iterdir())]
    found: list[Path] = []
    for top in tops:
        # Controllers mounted together are links to one folder, which must be visited only once.
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
    """Remove a cgroup; retry while it is busy, until its killed processes have been reaped."""
    for _ in range(200):
        try:
            path.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.01)


def _mounts(layout: Layout) -> list[str]:
    """Return the mount points below the folder, in mount order."""
    prefix = f"{layout.folder}/"
    points = (
        line.split()[4].encode().decode("unicode_escape")
        for line in Path("/proc/self/mountinfo").read_text().splitlines()
    )
    return [point for point in points if point.startswith(prefix)]


def _kill(pid: int, *, after: float = 0) -> None:
    """Wait ``after`` seconds for a process to end, else kill it with SIGKILL and wait.

    The process need not be a child of this one.
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
