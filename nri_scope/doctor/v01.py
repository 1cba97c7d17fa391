# SPDX-License-Identifier: Apache-2.0
"""NRI 0.1: the list of plugins in conf.json, and what the runtime does with it.

From the source of containerd and its client (containerd/nri v0.1.0), and tried: 1.5 and 1.6 call
the plugins for sandboxes and containers, 1.7 never, 2.0 to 2.4 for sandboxes. An unreadable list
and a missing program fail the sandbox.
"""

from __future__ import annotations

import stat

from nri_scope.errors import UsageError, reason_of
from nri_scope.nri.v01 import BINARY_PATH, CONF_PATH, SIZE_MAX, listed_types
from nri_scope.nri.versions import sort_key

from .check import Check, Health, fail, ok, unknown, unreadable, warn
from .config_checks import Installation
from .host import Host, RuntimeProcess, running_runtimes

NAME = "nri-0.1"
USUAL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""PATH of services of systemd, for a process whose environment cannot be read."""
TYPES_MAX = 50
"""Maximum number of plugins that are looked up."""


def check_v01(host: Host, item: Installation) -> list[Check]:
    """Check the list of plugins of NRI 0.1, if there is one and the runtime may read it."""
    runtime = item.title
    called = _called(item)
    try:
        content = host.read(CONF_PATH, SIZE_MAX)
    except FileNotFoundError:
        if item.config.runtime == "containerd" and called == _BOTH:
            return [ok(NAME, f"no {CONF_PATH}: {runtime} calls no plugins of NRI 0.1")]
        return []
    except PermissionError as error:
        return [unreadable(NAME, CONF_PATH, reason_of(error))]
    except OSError as error:
        problem = f"{CONF_PATH}: {reason_of(error)}"
    else:
        try:
            types = listed_types(content)
        except UsageError as error:
            problem = f"{CONF_PATH}: {error.problem}"
        else:
            return _types(host, item, runtime, called, types)
    fix = "correct the file, or remove it if no plugin needs NRI 0.1"
    if called is None:
        return [unknown(NAME, f"{problem}; whether the runtime reads it is unknown", fix)]
    if not called:
        return [warn(NAME, f"{problem}; {runtime} does not read it", fix)]
    return [fail(NAME, f"{problem}: every pod fails, as {runtime} reads it for {called}", fix)]


_BOTH = "sandboxes and containers"
_SANDBOXES = "sandboxes"


def _called(item: Installation) -> str | None:
    """Return for what the runtime calls the plugins; "" for nothing, None if unknown."""
    if item.config.runtime != "containerd":
        return "" if item.config.runtime else None
    key = sort_key(item.version)
    if key is None:
        return None
    version = tuple(key[:2])
    if version >= (2, 0):
        return _SANDBOXES
    return _BOTH if version in ((1, 5), (1, 6)) else ""


def _types(
    host: Host, item: Installation, runtime: str, called: str | None, types: tuple[str, ...]
) -> list[Check]:
    path, is_known = _path(host, item.process)
    checks: list[Check] = []
    places: list[str] = []
    for kind in types[:TYPES_MAX]:
        programs = _programs(host, kind, path)
        if not programs:
            suffix = "" if "/" in kind else f" in {path}"
            guess = "" if is_known or "/" in kind else " (the runtime's own PATH is unknown)"
            checks.append(
                fail(
                    NAME,
                    f"plugin {kind} of {CONF_PATH}: no executable file{suffix}{guess}",
                    "install it, or remove it from the list",
                )
            )
            continue
        places.append(f"{kind} ({programs[0]})")
        if len(programs) > 1:
            text = f"plugin {kind} of {CONF_PATH}: {programs[0]} hides {', '.join(programs[1:])}"
            checks.append(warn(NAME, text, "remove the one that is not meant"))
    if called is None:
        return [unknown(NAME, f"whether the runtime reads {CONF_PATH} is unknown"), *_soft(checks)]
    if not called:
        text = f"{runtime} does not read {CONF_PATH}, which lists {len(types)} plugins of NRI 0.1"
        return [warn(NAME, text, "remove the file"), *_soft(checks)] if types else _soft(checks)
    if any(check.status is Health.FAIL for check in checks):
        text = f"every pod fails: {runtime} calls the plugins in {CONF_PATH} for {called}"
        return [fail(NAME, text, "see the plugins that are missing"), *checks]
    listed = f"{runtime} calls the plugins in {CONF_PATH} for {called}: {', '.join(places)}"
    if not types:
        return [ok(NAME, f"{CONF_PATH} lists no plugins")]
    if called == _SANDBOXES:
        text = f"{listed}; this is deprecated, and every pod fails if a program is removed"
        return [warn(NAME, text, "remove the file if no plugin needs NRI 0.1"), *checks]
    return [ok(NAME, listed), *checks]


def _soft(checks: list[Check]) -> list[Check]:
    """Return only the warnings: a missing program has no effect that is known."""
    return [check for check in checks if check.status is not Health.FAIL]


def first_program(host: Host, kind: str) -> str:
    """Return the program that a running containerd calls for a plugin's type; "" if none."""
    running = (process for process in running_runtimes(host) if process.runtime == "containerd")
    programs = _programs(host, kind, _path(host, next(running, None))[0])
    return programs[0] if programs else ""


def _path(host: Host, process: RuntimeProcess | None) -> tuple[str, bool]:
    """Return the PATH in which the client looks, and whether it is known."""
    path, is_known = USUAL_PATH, False
    if process is not None:
        try:
            environment = host.read(f"/proc/{process.pid}/environ").split(b"\0")
        except OSError:
            environment = []
        for variable in environment:
            name, _, value = variable.partition(b"=")
            if name == b"PATH":
                path, is_known = value.decode(errors="replace"), True
    return f"{path}:{BINARY_PATH}", is_known


def _programs(host: Host, kind: str, path: str) -> list[str]:
    """Return the executable files of this name in the order of PATH."""
    folders = dict.fromkeys(folder for folder in path.split(":") if folder.startswith("/"))
    candidates = [kind] if "/" in kind else [f"{folder.rstrip('/')}/{kind}" for folder in folders]
    programs: dict[tuple[int, int], str] = {}
    for candidate in candidates:
        try:
            status = host.status(candidate)
        except (OSError, ValueError):
            continue
        if stat.S_ISREG(status.st_mode) and status.st_mode & 0o111:
            # /bin may be a link to /usr/bin.
            programs.setdefault((status.st_dev, status.st_ino), candidate)
    return list(programs.values())
