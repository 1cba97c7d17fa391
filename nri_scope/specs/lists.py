# SPDX-License-Identifier: Apache-2.0
"""The arrays of a spec whose members are identified by key instead of position."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from .json_spec import Json


def _member_itself(_key: str, value: Json) -> Json:
    return value


class Keyed(NamedTuple):
    """Rules for the members of one array."""

    split: Callable[[Json], tuple[str, Json] | None]
    """Returns a member's key and value; None if it has no key, so that the array is one value."""
    ordered: bool
    """Whether the order matters to a runtime."""
    join: Callable[[str, Json], Json] = _member_itself
    """Returns the member for a key and a value; the reverse of `split`."""


_COUNTED = re.compile(r"#\d+$")


def items(found: dict[str, Json], keyed: Keyed) -> list[Json]:
    """Return the array for the result of `members`."""
    return [keyed.join(key_of(label), value) for label, value in found.items()]


def key_of(label: str) -> str:
    """Return the key of a label returned by `members`."""
    return _COUNTED.sub("", label)


def members(items: list[Json], keyed: Keyed) -> dict[str, Json] | None:
    """Return the members in order, by their labels in a path; None if a member has no key.

    The label is the key itself for its first member, ``KEY#2`` for its second member, and so on.
    """
    found: dict[str, Json] = {}
    counts: dict[str, int] = {}
    for item in items:
        split = keyed.split(item)
        if split is None:
            return None
        label, value = split
        # A key that ends like a count always gets a count, so that labels are unique.
        looks_counted = "#" in label and _COUNTED.search(label)
        if looks_counted or label in found:
            count = counts[label] = counts.get(label, 0 if looks_counted else 1) + 1
            label = f"{label}#{count}"
        found[label] = value
    return found


def _variable(item: Json) -> tuple[str, Json] | None:
    if not isinstance(item, str):
        return None
    name, equals, value = item.partition("=")
    return name, value if equals else None


def _assignment(name: str, value: Json) -> Json:
    return name if value is None else f"{name}={value}"


def _itself(item: Json) -> tuple[str, Json] | None:
    if isinstance(item, str):
        return item, item
    if isinstance(item, int) and not isinstance(item, bool):
        return str(item), item
    return None


def _by(*names: str) -> Callable[[Json], tuple[str, Json] | None]:
    first = names[0] if len(names) == 1 else ""

    def split(item: Json) -> tuple[str, Json] | None:
        if not isinstance(item, dict):
            return None
        if first and type(key := item.get(first)) is str:
            return key, item
        parts = tuple(_scalars(item, names))
        return (":".join(parts), item) if len(parts) == len(names) else None

    return split


def _scalars(item: dict[str, Json], names: tuple[str, ...]) -> Iterator[str]:
    for name in names:
        value = item.get(name)
        if isinstance(value, str):
            yield value
        elif isinstance(value, int) and not isinstance(value, bool):
            yield str(value)


def _device_rule(item: Json) -> tuple[str, Json] | None:
    """Return a rule by its devices, in the format of the cgroup's device list."""
    if not isinstance(item, dict):
        return None
    kind = item.get("type", "a") or "a"
    major, minor = item.get("major", "*"), item.get("minor", "*")
    if not all(isinstance(part, str | int) for part in (kind, major, minor)):
        return None
    return f"{kind} {major}:{minor}", item


def _syscalls(item: Json) -> tuple[str, Json] | None:
    names = item.get("names") if isinstance(item, dict) else None
    if not isinstance(names, list) or not names or not isinstance(names[0], str):
        return None
    return names[0], item


_SET = Keyed(_itself, ordered=False)
_BLOCK_IO = "/linux/resources/blockIO"

HOOKS = (
    "prestart",
    "createRuntime",
    "createContainer",
    "startContainer",
    "poststart",
    "poststop",
)
"""Names of the lists of hooks."""
KEYED: dict[str, Keyed] = {
    "/process/env": Keyed(_variable, ordered=False, join=_assignment),
    "/process/rlimits": Keyed(_by("type"), ordered=False),
    "/process/user/additionalGids": _SET,
    "/process/scheduler/flags": _SET,
    "/mounts": Keyed(_by("destination"), ordered=True),
    "/linux/namespaces": Keyed(_by("type"), ordered=False),
    "/linux/devices": Keyed(_by("path"), ordered=False),
    "/linux/uidMappings": Keyed(_by("containerID"), ordered=False),
    "/linux/gidMappings": Keyed(_by("containerID"), ordered=False),
    "/linux/maskedPaths": _SET,
    "/linux/readonlyPaths": _SET,
    "/linux/memoryPolicy/flags": _SET,
    "/linux/resources/devices": Keyed(_device_rule, ordered=True),
    "/linux/resources/hugepageLimits": Keyed(_by("pageSize"), ordered=False),
    "/linux/resources/network/priorities": Keyed(_by("name"), ordered=False),
    "/linux/seccomp/architectures": _SET,
    "/linux/seccomp/flags": _SET,
    "/linux/seccomp/syscalls": Keyed(_syscalls, ordered=True),
    "/cdiDevices": Keyed(_by("name"), ordered=False),
    **{f"/hooks/{when}": Keyed(_by("path"), ordered=True) for when in HOOKS},
    **{
        f"/process/capabilities/{kind}": _SET
        for kind in ("bounding", "effective", "inheritable", "permitted", "ambient")
    },
    **{
        f"{_BLOCK_IO}/{name}": Keyed(_by("major", "minor"), ordered=False)
        for name in (
            "weightDevice",
            "throttleReadBpsDevice",
            "throttleWriteBpsDevice",
            "throttleReadIOPSDevice",
            "throttleWriteIOPSDevice",
        )
    },
}
"""Keyed arrays by path. Any other array is a single value (``args``, ``options``)."""

OPEN = frozenset(
    {
        "",
        "/process",
        "/process/capabilities",
        "/hooks",
        "/annotations",
        "/linux",
        "/linux/sysctl",
        "/linux/netDevices",
        "/linux/intelRdt",
        "/linux/resources",
        "/linux/resources/cpu",
        "/linux/resources/memory",
        "/linux/resources/pids",
        "/linux/resources/unified",
        "/nri",
        "/nri/unknown",
    }
)
"""Objects that plugins set field by field. If they are added or removed, each field is reported;
any other object is reported as a whole.
"""


def member_of(path: str) -> str:
    """Return the path of the array's member that contains `path`; "" for none."""
    end = path.find("/", 1)
    while end > 0:
        following = path.find("/", end + 1)
        if path[:end] in KEYED:
            return path if following < 0 else path[:following]
        end = following
    return ""
