# SPDX-License-Identifier: Apache-2.0
"""Examination of a machine: all evidence and checks, with a time limit for each step.

Among the evidence are deprecation warnings about plugins in the runtime's log. With NRI 0.12 and
later one is logged at the first event that a plugin only gets as StateChange, once for each event
and connection: by the NRI library (``warnDeprecatedEvent``), or by containerd 2.4 in words of its
own (``internal/nri/deprecations.go``; seen with 2.4.2). containerd's introspection service and the
CRI tell only that there is such a plugin, not which.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from nri_scope.nri.events import DEFAULT_SOCKET
from nri_scope.nri.versions import runtime_title, sort_key
from nri_scope.process.signals import root_hint

from . import containerd, crio, docker, isulad
from .check import Check, Health, as_warnings, not_permitted, unknown, warn
from .config_checks import NO_RUNTIME, Installation, check_installation
from .host import (
    RUNTIMES,
    Host,
    ProgramVersion,
    RuntimeProcess,
    program_version,
    running_runtimes,
)
from .plugins import check_plugins, look_at_plugins
from .settings import NriConfig, path_of, plugin_folders
from .sockets import (
    ListeningProcess,
    Registration,
    check_listener,
    check_registration,
    check_socket,
    connect,
    look_at_socket,
    register,
)
from .v01 import check_v01

LOG_MAX = 8 << 20
"""Maximum number of bytes read from the end of a log."""
JOURNAL_TIMEOUT = 3.0
"""Timeout in seconds of ``journalctl``."""
PLUGINS_MAX = 100
NAME_MAX = 160
"""Maximum length of a plugin's name."""

_MESSAGE = "NRI plugin uses a deprecated interface."
# logrus writes key=value, quoted where needed; with `format = "json"` in [debug], JSON.
_FIELDS = re.compile(r'(\w+)=(?:"((?:[^"\\]|\\.)*)"|(\S+))')
_LIBRARY = re.compile(r"plugin (\S+) uses deprecated StateChange instead of (.{1,80})")
_RPC = re.compile(r"a dedicated (\w{1,40}) RPC call")


def check_deprecations(host: Host, pid: int, started_at: float | None) -> list[Check]:
    """Return a warning for each plugin that the log of process ``pid`` names.

    ``started_at`` is the start of the process in seconds since the epoch, None if unknown: the
    file may also have older lines, of other processes.
    """
    events: dict[str, dict[str, None]] = {}
    for line in _log(host, pid).splitlines():
        plugin, details = _warning(line, started_at)
        if plugin and (plugin in events or len(events) < PLUGINS_MAX):
            rpc = _RPC.search(details)
            events.setdefault(plugin, {}).update({rpc[1]: None} if rpc else {})
    return [_deprecated(plugin, ", ".join(names)) for plugin, names in events.items()]


def _warning(line: str, started_at: float | None) -> tuple[str, str]:
    """Return the plugin that a line of the log warns about, and the details; "" for no plugin."""
    if "deprecated" not in line:
        return "", ""
    fields = _fields(line)
    if started_at is not None and _seconds(fields.get("time", ""), started_at) < started_at - 1:
        return "", ""
    message = fields.get("msg", "")
    if library := _LIBRARY.match(message):
        return library[1][:NAME_MAX], library[2]
    if message == _MESSAGE and fields.get("deprecated") == "StateChange":
        return fields.get("plugin", "")[:NAME_MAX], fields.get("details", "")
    return "", ""


def _seconds(time: str, default: float) -> float:
    """Return an RFC 3339 time in seconds since the epoch; ``default`` for any other text."""
    try:
        written = datetime.fromisoformat(time)
        return default if written.tzinfo is None else written.timestamp()
    except (ValueError, OverflowError):
        return default


def _deprecated(plugin: str, events: str) -> Check:
    asked = f" for {events}" if events else ""
    return warn(
        "plugin-deprecated",
        f"by the runtime's log, {plugin} has used the deprecated StateChange{asked}",
        "build the plugin with NRI 0.12 or later",
    )


def _log(host: Host, pid: int) -> str:
    """Return the end of a process's log; "" if there is none, or if it cannot be read."""
    try:
        return host.tail(f"/proc/{pid}/fd/2", LOG_MAX).decode(errors="replace")
    except OSError:
        # Standard error is a socket of journald, or another process's pipe.
        return _journal(pid) if host.root == Path("/") else ""


def _journal(pid: int) -> str:
    command = ["journalctl", "--quiet", "--no-pager", "--output=cat", "--boot", "--lines=2000"]
    try:
        with subprocess.Popen(
            [*command, "--grep=uses (a )?deprecated", f"_PID={pid}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as process:
            try:
                content, _ = process.communicate(timeout=JOURNAL_TIMEOUT)
            except subprocess.TimeoutExpired:
                process.kill()
                return ""
            return content[-LOG_MAX:].decode(errors="replace")
    except OSError:
        return ""


def _fields(line: str) -> dict[str, str]:
    try:
        entry = json.loads(line) if line.startswith("{") else None
    except (ValueError, RecursionError):
        entry = None
    if isinstance(entry, dict):
        return {key: value for key, value in entry.items() if isinstance(value, str)}
    return {name: quoted or plain for name, quoted, plain in _FIELDS.findall(line)}


STEP_TIMEOUT = 5.0
"""Time limit in seconds for reading files, which are slow only if a file system hangs."""

T = TypeVar("T")


class Examination(NamedTuple):
    """What was found on a machine."""

    checks: list[Check]
    installations: list[Installation]
    """The runtimes that serve the socket or, if none does, all that run or are configured."""


def examination(
    host: Host,
    socket_path: str | None = None,
    *,
    version_of: Callable[[int], ProgramVersion] | None = None,
) -> Examination:
    """Examine ``host``. Without ``socket_path`` the running runtime's socket is examined.

    ``version_of`` returns the version of a process's program. By default it runs the program, but
    only if ``host`` is this machine, not a file system mounted elsewhere.
    """
    if version_of is None:
        version_of = program_version if host.root == Path("/") else lambda pid: ProgramVersion("")
    result = _bounded(lambda: _installations(host, version_of))
    installations = result or []
    path = socket_path or _bounded(lambda: _socket_path(host, installations)) or DEFAULT_SOCKET

    checks: list[Check] = []
    if result is None:
        checks.append(unknown("runtime", _HANGS.format("/proc and /etc")))
    elif not installations:
        text = "no container runtime was found, neither a process nor a configuration"
        checks.append(warn("runtime", text, root_hint("run this on the node itself, as root")))

    listener, registration = _socket(host, path, checks)
    installations = _with_registration(installations, listener, registration)
    examined = [item for item in installations if _is_examined(item, installations)]
    for item in installations:
        findings = check_installation(item)
        if item not in examined:
            findings = as_warnings(findings, f"it does not serve {path}")
        checks += findings
        if item.root:
            text = f"{item.title} has a mount namespace of its own, as in rootless mode: here, "
            text += f"its root folder is {item.root}"
            fix = f"use --socket {_socket_of(host, item)} in other commands"
            checks.append(warn(f"{item.config.runtime}-mounts", text, fix))
        if item in examined and item.process is not None:
            process = item.process
            check = partial(check_deprecations, host, process.pid, process.started_at)
            checks += _bounded(check) or []
    checks += _plugins(host, examined)
    checks += _v01(host, examined)
    return Examination(checks, examined)


_DOCKERS_OWN = "/containerd/containerd.toml"
"""End of the path of the configuration that dockerd writes for its own containerd, without CRI."""
_HANGS = "reading {} took too long; a file system may hang"


def _bounded(step: Callable[[], T], seconds: float = STEP_TIMEOUT) -> T | None:
    """Return the result of ``step``, or None if it takes longer than ``seconds``.

    Access to a hanging file system cannot be interrupted, so it runs in a daemon thread, which is
    abandoned.
    """
    result: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            result.append(step())
        except BaseException as error:  # noqa: BLE001  (raised again in the caller's thread)
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True, name="doctor-step")
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    return result[0] if result else None


def _installations(host: Host, version_of: Callable[[int], ProgramVersion]) -> list[Installation]:
    """Return running runtimes, then runtimes that are only configured; one per configuration."""
    installations: dict[tuple[str, ...], Installation] = {}
    for process in running_runtimes(host):
        version = version_of(process.pid) if process.program else ProgramVersion("")
        config = _config(host, process, version.text)
        if any(path.endswith(_DOCKERS_OWN) for path in config.files):
            continue
        installation = Installation(config, version.text, process, version_unknown=version.why)
        # Prefer a process with a known version: others may only have the name of a runtime.
        identity = (process.root, *_identity(config))
        earlier = installations.get(identity)
        if earlier is None or (installation.version and not earlier.version):
            installations[identity] = installation
    running = {item.config.runtime for item in installations.values()}
    for runtime in RUNTIMES.values():
        config = _config(host, RuntimeProcess(runtime, 0, (), "", False, None), "")
        if runtime not in running and (config.files or config.problems or config.unreadable):
            installations.setdefault(_identity(config), Installation(config, "", None))
    return list(installations.values())


def _identity(config: NriConfig) -> tuple[str, ...]:
    return (config.runtime, config.missing, *config.files)


def _config(host: Host, process: RuntimeProcess, version: str) -> NriConfig:
    if process.runtime == "docker":
        return docker.read_docker(host, process)
    host = host.below(process.root)
    if process.runtime == "containerd":
        key = sort_key(version)
        path = process.path(containerd.config_path(process.arguments))
        return containerd.read_containerd(host, path, key[0] if key else 2)
    if process.runtime == "cri-o":
        path, drop_ins = map(process.path, crio.config_paths(process.arguments))
        return crio.read_crio(host, path, drop_ins, process.arguments)
    return isulad.read_isulad(host)


def _socket_path(host: Host, installations: Iterable[Installation]) -> str:
    running = [item for item in installations if item.process is not None and item.may_be_on]
    for item in sorted(running, key=lambda item: item.root):
        path = _socket_of(host, item)
        if path != DEFAULT_SOCKET and not (item.root and host.exists(DEFAULT_SOCKET)):
            return path
    return DEFAULT_SOCKET


def _socket_of(host: Host, item: Installation) -> str:
    """Return the path of a runtime's socket, as seen from here."""
    path = path_of(item.config.socket_path, DEFAULT_SOCKET)
    inside = host.below(item.root)
    with suppress(OSError):
        # Another program would follow an absolute link from its own root folder.
        path = str(inside.resolve(path)).removeprefix(str(inside.root)) if item.root else path
    return f"{item.root}{path}"


def _socket(
    host: Host, path: str, checks: list[Check]
) -> tuple[ListeningProcess | None, Registration | None]:
    """Examine the socket, connect and register; add the findings to ``checks``."""
    file = _bounded(lambda: look_at_socket(host, path))
    if file is None:
        checks.append(unknown("socket", _HANGS.format(path)))
        return None, None
    checks += check_socket(file)
    if not file.is_socket:
        return None, None
    listener = _bounded(lambda: connect(host, path))
    if listener is None:
        checks.append(unknown("listener", f"connecting to {path} took too long"))
        return None, None
    checks += check_listener(path, listener)
    if listener.descriptor is None:
        return listener, None
    registration = asyncio.run(register(listener.descriptor))
    checks += check_registration(registration)
    return listener, registration


def _with_registration(
    installations: list[Installation],
    listener: ListeningProcess | None,
    registration: Registration | None,
) -> list[Installation]:
    """Return the installations, with the registration in the one that listens."""
    if listener is None or registration is None or not registration.configured:
        return installations
    runtime = runtime_title(registration.runtime.runtime_name)

    def serves(item: Installation) -> bool:
        if runtime_title(item.config.runtime) != runtime:
            return False
        # A machine may have two containerds (Docker has its own): compare process ids.
        pids = {i.process.pid for i in installations if i.process is not None}
        if listener.pid in pids:
            return item.process is not None and item.process.pid == listener.pid
        return True

    # iSulad reports a fixed version, which is not its own.
    reported = "" if runtime == "iSulad" else registration.runtime.runtime_version
    return [
        replace(item, version=reported or item.version, registration=registration)
        if serves(item)
        else item
        for item in installations
    ]


def _is_examined(item: Installation, installations: Iterable[Installation]) -> bool:
    """Return whether this runtime serves the socket or, if none does, is running."""
    every = list(installations)
    if any(installation.registration is not None for installation in every):
        return item.registration is not None
    if any(installation.process is not None for installation in every):
        return item.process is not None
    return True


def _plugins(host: Host, installations: Iterable[Installation]) -> list[Check]:
    checks: list[Check] = []
    examined = set()
    for item in list(installations) or [NO_RUNTIME]:
        config = item.config
        path, config_path = plugin_folders(config)
        # If not all of the configuration could be read, the plugin folder is a guess.
        guessed_for = config.runtime if config.unreadable else ""
        identity = (item.root, path, config_path, guessed_for)
        if identity in examined:
            continue
        examined.add(identity)
        # If NRI is off, the runtime starts no plugin, and so none can prevent its own start.
        off = bool(config.runtime) and item.registration is None and not item.may_be_on
        read_folder = partial(look_at_plugins, host.below(item.root), path, config_path)
        # Docker Engine starts plugins again when it reloads its configuration.
        process = item.process if config.runtime != "docker" else None
        started_at = process.started_at if process else None
        findings = [unknown("plugins", _HANGS.format(path))]
        if (folder := _bounded(read_folder)) is not None:
            findings = check_plugins(folder, runtime=config.runtime, started_at=started_at, off=off)
        if off:
            findings = as_warnings(findings, "once NRI is on")
        checks += _guessed(findings, path, guessed_for) if guessed_for else findings
    return checks


def _v01(host: Host, installations: Iterable[Installation]) -> list[Check]:
    """Check NRI 0.1 once for each runtime, or without one if there is none."""
    checks_made: list[Check] = []
    for item in list(installations) or [NO_RUNTIME]:
        checks = _bounded(partial(check_v01, host.below(item.root), item))
        checks_made += [unknown("nri-0.1", _HANGS.format("/etc/nri"))] if checks is None else checks
    return list(dict.fromkeys(checks_made))


def _guessed(findings: Iterable[Check], path: str, runtime: str) -> list[Check]:
    """Return findings about a plugin folder that the runtime may not use."""
    text = (
        f"not all of {runtime_title(runtime)}'s configuration could be read: its plugin folder is "
        f"unknown ({path} unless configured)"
    )
    return [
        not_permitted("plugins", text),
        *(
            check
            if check.status is Health.UNKNOWN
            else replace(check, status=Health.WARN, detail=f"{check.detail} (if it uses {path})")
            for check in findings
            if check.status is not Health.OK
        ),
    ]
