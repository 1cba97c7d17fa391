# SPDX-License-Identifier: Apache-2.0
"""Checks of values in adjustments and updates, by the rules of NRI and OCI.

A runtime detects most of these errors only when it creates the container, which then fails. Each
check returns the value or raises `UsageError`.
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
"""Names of the limits of getrlimit(2)."""

NAMESPACES = ("cgroup", "ipc", "mount", "network", "pid", "time", "user", "uts")
"""Types of namespaces in the OCI runtime spec."""

_CPU_LIST = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*", re.ASCII)
_PAGE_SIZE = re.compile(r"[1-9]\d*[KMG]B", re.ASCII)
_CDI_DEVICE = re.compile(r"[A-Za-z][\w.-]*/[A-Za-z][\w.-]*=[A-Za-z0-9][\w.:-]*", re.ASCII)

_P = ParamSpec("_P")
_T = TypeVar("_T")


def build(make: Callable[_P, _T], *args: _P.args, **fields: _P.kwargs) -> _T:
    """Build a message of ``fields``; raise UsageError for values that it cannot represent."""
    try:
        return make(*args, **fields)
    except (ValueError, TypeError) as error:
        # Numbers out of range, invalid Unicode, wrong types.
        raise UsageError(f"{getattr(make, '__name__', 'message')}: {error}") from error


def key(name: str, what: str) -> str:
    """Check the key of a setting: not empty, and without the prefix ``-``, which means removal."""
    if not text(name, what):
        raise UsageError(f"{what} is empty")
    if name.startswith("-"):
        raise UsageError(
            f"{what} {name!r} begins with '-', which means removal", "use the remove_ method"
        )
    return name


def text(value: str, what: str) -> str:
    """Check text that becomes a C string: valid Unicode without NUL."""
    if "\0" in value:
        raise UsageError(f"{what} {value!r} contains a zero byte")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{what} {value!r} is not valid Unicode") from None
    return value


def env_name(name: str) -> str:
    """Check the name of an environment variable."""
    if "=" in key(name, "environment variable"):
        raise UsageError(
            f"environment variable {name!r} contains '='", "pass the name and the value separately"
        )
    return name


def absolute(path: str, what: str) -> str:
    """Check an absolute path."""
    if not text(path, what).startswith("/"):
        raise UsageError(f"{what} {path!r} is not an absolute path")
    return path


def one_of(value: str, allowed: Iterable[str], what: str) -> str:
    """Check that ``value`` is allowed; the error names the nearest allowed value, or all."""
    known = tuple(allowed)
    if value in known:
        return value
    nearest = difflib.get_close_matches(value.upper(), [name.upper() for name in known], n=1)
    meant = next((name for name in known if name.upper() in nearest), "")
    hint = f"did you mean {meant}?" if meant else "known: " + ", ".join(known)
    raise UsageError(f"there is no {what} {value!r}", hint)


def within(value: int, least: int, most: int, what: str) -> int:
    """Check that a number is between two bounds, inclusive."""
    if not least <= value <= most:
        raise UsageError(f"{what} {value} is not between {least} and {most}")
    return value


def cpu_list(value: str, what: str) -> str:
    """Check a list of numbers as in cpuset(7); "", which changes nothing, is valid."""
    if value and not _CPU_LIST.fullmatch(value):
        raise UsageError(f"{what} {value!r} is not a list such as 0-3,8")
    return value


def page_size(value: str) -> str:
    """Check a huge page size, written as in the names of cgroup files."""
    if not _PAGE_SIZE.fullmatch(value):
        raise UsageError(f"huge page size {value!r} is not a size such as 2MB or 1GB")
    return value


def cdi_device(name: str) -> str:
    """Check a fully qualified CDI device name."""
    if not _CDI_DEVICE.fullmatch(name):
        raise UsageError(f"CDI device {name!r} is not of the form vendor/class=device")
    return name


def file_name(name: str, what: str) -> str:
    """Check a file name without a folder."""
    if not text(name, what) or "/" in name or name in (".", ".."):
        raise UsageError(f"{what} {name!r} is not a file name")
    return name


def net_device(name: str, what: str) -> str:
    """Check the name of a network interface (IFNAMSIZ; no slash, no white space)."""
    if len(key(name, what).encode()) > 15 or re.search(r"[/\s]", name):
        raise UsageError(f"{what} {name!r} is not an interface name of 1 to 15 bytes")
    return name
