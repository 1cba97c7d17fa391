# SPDX-License-Identifier: Apache-2.0
"""Deprecation warnings about plugins, from a runtime's log.

With NRI 0.12 and later a warning is logged at the first event that a plugin only gets as
StateChange, once for each event and connection: by the NRI library (``warnDeprecatedEvent``), or by
containerd 2.4 in words of its own (``internal/nri/deprecations.go``; seen with 2.4.2). containerd's
introspection service and the CRI tell only that there is such a plugin, not which.
"""

from __future__ import annotations

import json
import re
import subprocess
from datetime import datetime
from pathlib import Path

from .check import Check, warn
from .host import Host

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
        at = datetime.fromisoformat(time)
        return default if at.tzinfo is None else at.timestamp()
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
        found = json.loads(line) if line.startswith("{") else None
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict):
        return {key: value for key, value in found.items() if isinstance(value, str)}
    return {name: quoted or plain for name, quoted, plain in _FIELDS.findall(line)}
