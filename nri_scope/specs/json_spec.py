# SPDX-License-Identifier: Apache-2.0
"""Types of a spec, and functions that edit copies of its parts."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from enum import Enum
from typing import Final, NamedTuple, TypeAlias


def pointer(base: str, key: str) -> str:
    """Append `key`, escaped, to the pointer `base`."""
    return f"{base}/{key.replace('~', '~0').replace('/', '~1')}"


def split(path: str) -> tuple[str, ...]:
    """Return the keys of a pointer, unescaped; () for the whole spec."""
    return tuple(key.replace("~1", "/").replace("~0", "~") for key in path.split("/")[1:])


def is_within(path: str, places: Collection[str]) -> bool:
    """Return whether a path, or one that contains it, is among `places`."""
    while path:
        if path in places:
            return True
        path = path.rpartition("/")[0]
    return False


def touches(path: str, places: Collection[str]) -> bool:
    """Return whether any of `places` contains `path`, or is a part of it."""
    below = f"{path}/"
    return is_within(path, places) or any(inner.startswith(below) for inner in places)


Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"
"""A JSON value; the order of an object's keys is preserved."""

Spec: TypeAlias = "dict[str, Json]"
"""An OCI runtime spec (``config.json``), a part of one, or an object in it. Never modified in
place, except copies that are being edited.
"""


class Absent(Enum):
    """The type of `ABSENT`."""

    ABSENT = 0


ABSENT: Final = Absent.ABSENT
"""A missing value; None is a JSON null."""


def copy_object(parent: Spec, name: str) -> Spec:
    """Replace the object `name` of `parent` by a copy, {} if it is missing; return the copy."""
    old = parent.get(name)
    new: Spec = dict(old) if isinstance(old, dict) else {}
    parent[name] = new
    return new


def copy_array(parent: Spec, name: str) -> list[Json]:
    """Replace the array `name` of `parent` by a copy, [] if it is missing; return the copy."""
    old = parent.get(name)
    new: list[Json] = list(old) if isinstance(old, list) else []
    parent[name] = new
    return new


def text_at(name: str) -> Callable[[Json], str | None]:
    """Return a function that returns the text under `name` in an object, or None."""

    def key_of(item: Json) -> str | None:
        value = item.get(name) if isinstance(item, dict) else None
        return value if isinstance(value, str) else None

    return key_of


def set_or_remove(parent: Spec, name: str, value: Json) -> None:
    """Set `name`, or remove it if `value` is None. `parent` must be a copy."""
    if value is None:
        parent.pop(name, None)
    else:
        parent[name] = value


def drop_empty(parent: Spec, name: str) -> None:
    """Remove `name` if it is an empty object or array."""
    if parent.get(name) in ({}, []):
        del parent[name]


def restore_if_unchanged(parent: Spec, name: str, before: Spec) -> None:
    """Restore the original object `name` if the copy from `copy_object` is equal to it.

    `before` is the original of `parent`. A copy that became empty is removed.
    """
    old = before.get(name)
    if parent[name] != (old if isinstance(old, dict) else {}):
        drop_empty(parent, name)
    elif name in before:
        parent[name] = old
    else:
        del parent[name]


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


def items(entries: dict[str, Json], keyed: Keyed) -> list[Json]:
    """Return the array for the result of `members`."""
    return [keyed.join(key_of(label), value) for label, value in entries.items()]


def key_of(label: str) -> str:
    """Return the key of a label returned by `members`."""
    return _COUNTED.sub("", label)


def members(array: list[Json], keyed: Keyed) -> dict[str, Json] | None:
    """Return the members in order, by their labels in a path; None if a member has no key.

    The label is the key itself for its first member, ``KEY#2`` for its second member, and so on.
    """
    entries: dict[str, Json] = {}
    counts: dict[str, int] = {}
    for item in array:
        split = keyed.split(item)
        if split is None:
            return None
        label, value = split
        # A key that ends like a count always gets a count, so that labels are unique.
        looks_counted = "#" in label and _COUNTED.search(label)
        if looks_counted or label in entries:
            count = counts[label] = counts.get(label, 0 if looks_counted else 1) + 1
            label = f"{label}#{count}"
        entries[label] = value
    return entries


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

SET_BY_FIELD = frozenset(
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
