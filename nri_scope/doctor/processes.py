# SPDX-License-Identifier: Apache-2.0
"""Running container runtimes, found in /proc."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from .host import Host

PROCESSES_MAX = 50_000

RUNTIMES = {"containerd": "containerd", "crio": "cri-o", "isulad": "isulad"}
"""Runtimes by their process names."""


@dataclass(frozen=True, slots=True)
class RuntimeProcess:
    """Process of a runtime's daemon."""

    runtime: str
    """A value of `RUNTIMES`."""
    pid: int
    arguments: tuple[str, ...]
    """Command line without the program's name."""
    program: str
    """Target of /proc/PID/exe; "" without permission to read it."""
    replaced: bool
    """Whether the program's file was replaced or deleted since the process started."""
    started_at: float | None
    """Start time in seconds since the epoch."""


class NamedProcess(NamedTuple):
    """A process."""

    name: str
    """Its short name."""
    pid: int


def running_runtimes(host: Host) -> tuple[RuntimeProcess, ...]:
    """Return the daemons of all runtimes, sorted by process id; empty if /proc cannot be read."""
    boot = _boot_time(host)
    found = (_process(host, pid, boot) for pid in _pids(host))
    return tuple(p for p in found if p is not None)


def _pids(host: Host) -> list[int]:
    """Return the ids of all processes, ascending; none if /proc cannot be read."""
    try:
        with os.scandir(host.resolve("/proc")) as entries:
            names = [entry.name for entry in islice(entries, PROCESSES_MAX)]
    except OSError:
        return []
    return sorted(int(name) for name in names if name.isdecimal())


def first_process(
    host: Host, names: Collection[str], *, argument: str = "", same_root: bool = False
) -> NamedProcess | None:
    """Return the process with the lowest id among those with one of these short names.

    ``argument``: only with this word on its command line. ``same_root``: not in containers.
    """
    for pid in _pids(host):
        name = process_name(host, pid)
        if (
            name in names
            and not (argument and argument not in _command_line(host, pid))
            and not (same_root and _has_other_root(host, pid))
        ):
            return NamedProcess(name, pid)
    return None


def process_name(host: Host, pid: int) -> str:
    """Return a process's short name; "" if the process does not exist or is hidden."""
    try:
        return host.read(f"/proc/{pid}/comm").decode(errors="replace").strip()
    except OSError:
        return ""


def _process(host: Host, pid: int, boot: float | None) -> RuntimeProcess | None:
    runtime = RUNTIMES.get(process_name(host, pid))
    if runtime is None or _has_other_root(host, pid):
        return None
    command = _command_line(host, pid)
    try:
        # Do not resolve the link: its text has the path, and shows whether the file was deleted.
        program = str(host.root.joinpath("proc", str(pid), "exe").readlink())
    except OSError:
        program = ""
    return RuntimeProcess(
        runtime,
        pid,
        tuple(command[1:]),
        program.removesuffix(" (deleted)"),
        program.endswith(" (deleted)"),
        _started_at(host, pid, boot),
    )


def _command_line(host: Host, pid: int) -> list[str]:
    try:
        return host.read(f"/proc/{pid}/cmdline").decode(errors="replace").split("\0")[:-1]
    except OSError:
        return []


def _has_other_root(host: Host, pid: int) -> bool:
    """Return whether the process has another root folder.

    Such a process, for example in a kind node, reads configuration files of its own.
    """
    try:
        theirs = host.root.joinpath("proc", str(pid), "root").stat()
        ours = host.root.stat()
    except OSError:
        return False
    return (theirs.st_dev, theirs.st_ino) != (ours.st_dev, ours.st_ino)


def _boot_time(host: Host) -> float | None:
    try:
        text = host.read("/proc/stat", limit=64 << 20)
    except OSError:
        return None
    match = re.search(rb"^btime (\d+)$", text, re.MULTILINE)
    return float(match[1]) if match else None


def _started_at(host: Host, pid: int, boot: float | None) -> float | None:
    try:
        text = host.read(f"/proc/{pid}/stat")
    except OSError:
        return None
    # proc(5): the name, in parentheses, may contain any character; field 22 is the start in ticks.
    fields = text.rpartition(b")")[2].split()
    if boot is None or len(fields) < 20 or not fields[19].isdigit():
        return None
    return boot + int(fields[19]) / os.sysconf("SC_CLK_TCK")


def option(arguments: tuple[str, ...], *names: str) -> str | None:
    """Return the last value of an option, ``--name value`` or ``--name=value``; None if absent."""
    value = None
    for position, argument in enumerate(arguments):
        name, equals, rest = argument.partition("=")
        if name in names:
            if equals:
                value = rest
            elif position + 1 < len(arguments):
                value = arguments[position + 1]
    return value
