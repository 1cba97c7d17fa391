# SPDX-License-Identifier: Apache-2.0
"""Checks of values in an adjustment, for all rules of the API and OCI.

A runtime detects most of these errors only when it creates the container, which then fails. Every
check returns the value, or raises `UsageError` with the problem.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from typing import ParamSpec, TypeVar

from nri_scope.errors import UsageError

RLIMITS = tuple(
    f"RLIMIT_{name}"
    for name in (
        *("AS", "CORE", "CPU", "DATA", "FSIZE", "LOCKS", "MEMLOCK", "MSGQUEUE", "NICE", "NOFILE"),
        *("NPROC", "RSS", "RTPRIO", "RTTIME", "SIGPENDING", "STACK"),
    )
)
"""Names of limits in getrlimit(2)."""

NAMESPACES = ("cgroup", "ipc", "mount", "network", "pid", "time", "user", "uts")
"""Names of namespaces in the OCI runtime spec."""

_CPU_LIST = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*", re.ASCII)
_PAGE_SIZE = re.compile(r"[1-9]\d*[KMG]B", re.ASCII)
_CDI_DEVICE = re.compile(r"[A-Za-z][\w.-]*/[A-Za-z][\w.-]*=[A-Za-z0-9][\w.:-]*", re.ASCII)

_P = ParamSpec("_P")
_T = TypeVar("_T")


def build(make: Callable[_P, _T], *args: _P.args, **fields: _P.kwargs) -> _T:
    """Build a message of ``fields``; raise UsageError for values that the protocol cannot hold."""
    try:
        return make(*args, **fields)
    except (ValueError, TypeError) as error:
        # Numbers out of range, text that is not Unicode, a wrong type.
        raise UsageError(f"{getattr(make, '__name__', 'message')}: {error}") from error


def key(name: str, what: str) -> str:
    """Check the key of a setting: not empty, and not an accidental removal."""
    if not text(name, what):
        raise UsageError(f"{what} is empty")
    if name.startswith("-"):
        raise UsageError(
            f"{what} {name!r} begins with '-', which means removal", "use the remove_ method"
        )
    return name


def text(value: str, what: str) -> str:
    """Check text for the protocol that becomes a C string."""
    if "\0" in value:
        raise UsageError(f"{what} {value!r} holds a zero byte")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{what} {value!r} is no valid Unicode") from None
    return value


def env_name(name: str) -> str:
    """Check the name of an environment variable."""
    if "=" in key(name, "environment variable"):
        raise UsageError(
            f"environment variable {name!r} holds '='", "give the name and the value apart"
        )
    return name


def absolute(path: str, what: str) -> str:
    """Check an absolute path."""
    if not text(path, what).startswith("/"):
        raise UsageError(f"{what} {path!r} is no absolute path")
    return path


def one_of(value: str, allowed: Iterable[str], what: str) -> str:
    """Check a name against a list; the error lists the nearest or all of them."""
    known = tuple(allowed)
    if value in known:
        return value
    nearest = difflib.get_close_matches(value.upper(), [one.upper() for one in known], n=1)
    meant = next((one for one in known if one.upper() in nearest), "")
    hint = f"did you mean {meant}?" if meant else "known are " + ", ".join(known)
    raise UsageError(f"there is no {what} {value!r}", hint)


def within(value: int, least: int, most: int, what: str) -> int:
    """Check a number between two bounds, both included."""
    if not least <= value <= most:
        raise UsageError(f"{what} {value} is not between {least} and {most}")
    return value


def cpu_list(value: str, what: str) -> str:
    """Check a list of numbers as in cpuset(7); an empty one leaves the setting unchanged."""
    if value and not _CPU_LIST.fullmatch(value):
        raise UsageError(f"{what} {value!r} is no list such as 0-3,8")
    return value


def page_size(value: str) -> str:
    """Check a size of huge pages as in the names of the cgroup's files."""
    if not _PAGE_SIZE.fullmatch(value):
        raise UsageError(f"huge page size {value!r} is none such as 2MB or 1GB")
    return value


def cdi_device(name: str) -> str:
    """Check a fully qualified CDI device name."""
    if not _CDI_DEVICE.fullmatch(name):
        raise UsageError(f"CDI device {name!r} is not of the form vendor/class=device")
    return name


def file_name(name: str, what: str) -> str:
    """Check the name of a file in a folder that the caller does not choose."""
    if not text(name, what) or "/" in name or name in (".", ".."):
        raise UsageError(f"{what} {name!r} is no file name")
    return name


def net_device(name: str, what: str) -> str:
    """Check a network interface's name by the kernel's rules (IFNAMSIZ, no slash, no blank)."""
    if len(key(name, what).encode()) > 15 or re.search(r"[/\s]", name):
        raise UsageError(f"{what} {name!r} is no interface name of 1 to 15 bytes")
    return name
