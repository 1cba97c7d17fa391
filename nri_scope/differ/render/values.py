# SPDX-License-Identifier: Apache-2.0
"""Format values of a spec in one line: in common notation if that is unambiguous, else as JSON.

The result is not escaped for a terminal; callers apply `nri_scope.text.escape.safe` to the line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias

from nri_scope.specs import Change, Json, Spec, split
from nri_scope.specs.json_spec import HOOKS

Format: TypeAlias = Literal["text", "json"]
"""Formats of rounds and comparisons."""

_PLAIN = re.compile(r"[A-Za-z0-9_/.:+@%-]+\Z")
"""Text without spaces, brackets, quotes, commas and equals signs, which needs no quotes."""
_PLAIN_OPTION = re.compile(r"[A-Za-z0-9_/.:+@%=-]+\Z")
_LOOKS_OTHERWISE = re.compile(r"(?:true|false|null|[-+]?[0-9.].*)\Z")
"""Text that looks like a number, true, false or null."""
_COUNTED = re.compile(r"#[0-9]+\Z")
"""Suffix of the second and later members with the same key."""

_CONTEXT = 32
"""Number of characters shown before the first difference if the common prefix is cut."""


def compact(value: Json) -> str:
    """Return JSON in one line; a short note for values that are nested too deeply."""
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return "(nested too deeply to be shown)"


def shown(path: str, value: Json) -> str:
    """Return the value at `path` in one line."""
    keys = split(path)
    if value is None and keys[:2] == ("process", "env"):
        return '(name only, without "=")'
    if isinstance(value, dict):
        for prefix, of in _OBJECTS.items():
            if keys[: len(prefix)] == prefix and len(keys) == len(prefix) + 1:
                return of(value, keys[-1]) or compact(value)
    return compact(value)


def sides(change: Change) -> tuple[str, str]:
    """Return the values before and after a change, in one line each; "" for none."""
    if change.kind == "moved":
        before, after = f"{place(change.before)} place", f"{place(change.after)} place"
        return before, f"{after}, after different members" if after == before else after
    before = "" if change.kind == "added" else shown(change.path, change.before)
    after = "" if change.kind == "removed" else shown(change.path, change.after)
    return before, after


def move(change: Change) -> str:
    """Describe a move in words."""
    before, after = place(change.before), place(change.after)
    if before == after:
        # Other members were added or removed, too.
        return f"moved: the {after} in both orders, but after different members"
    return f"moved from {before} to {after} place"


def place(position: Json) -> str:
    """Return a position, counted from 0, as an ordinal: ``1st``, ``2nd``."""
    if not isinstance(position, int):
        return compact(position)
    number = position + 1
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if number % 100 in (11, 12, 13) else ending}"


def clipped(text: str, most: int, begin: int = 0) -> str:
    """Return about `most` characters of `text` from `begin`, and its full length if it is cut."""
    if len(text) <= most:
        return text
    before = "…" if begin else ""
    after = "…" if begin + most < len(text) else ""
    return f"{before}{text[begin : begin + most]}{after} ({len(text):,} characters in all)"


def clipped_pair(before: str, after: str, most: int) -> tuple[str, str]:
    """Return both texts `clipped` so that their first difference is visible."""
    common = 0
    if before and after and max(len(before), len(after)) > most:
        pairs = enumerate(zip(before, after, strict=False))
        shorter = min(len(before), len(after))
        common = next((number for number, (left, right) in pairs if left != right), shorter)
    begin = max(0, common - _CONTEXT) if common > most // 2 else 0
    return clipped(before, most, begin), clipped(after, most, begin)


def _mount(value: Spec, _key: str) -> str:
    """Return a mount in the format of mount(8); "" if that is ambiguous."""
    if not {"destination", "type", "source"} <= value.keys() <= {*_MOUNT}:
        return ""
    source, destination, kind = value["source"], value["destination"], value["type"]
    options = value.get("options", ["defaults"])
    if not isinstance(options, list) or not options:
        return ""
    for text in (source, destination, kind):
        if not (isinstance(text, str) and _PLAIN.match(text)):
            return ""
    if not all(isinstance(text, str) and _PLAIN_OPTION.match(text) for text in options):
        return ""
    listed = f" ({','.join(map(str, options))})" if "options" in value else ""
    return f"{source} on {destination} type {kind}{listed}"


_MOUNT = ("destination", "type", "source", "options")


def _device(value: Spec, key: str) -> str:
    """Return a device in the notation of mknod(1), with an octal mode; "" if ambiguous."""
    mode, kind = value.get("fileMode"), value.get("type")
    major, minor = value.get("major"), value.get("minor")
    if not (isinstance(kind, str) and _PLAIN.match(kind)):
        return ""
    if type(major) is not int or type(minor) is not int:
        return ""
    if "fileMode" in value and not (type(mode) is int and mode >= 0):
        return ""
    rest = _fields(_without(value, ("type", "major", "minor", "fileMode")), "path", key)
    if rest is None:
        return ""
    octal = f"mode=0{mode:o}" if isinstance(mode, int) else ""
    return " ".join(filter(None, (f"{kind} {major}:{minor}", octal, rest)))


def _named(name: str) -> Callable[[Spec, str], str]:
    """Return a formatter of fields that omits the field `name` if the path contains its value."""
    return lambda value, key: _fields(value, name, key) or ""


def _fields(value: Spec, name: str, key: str) -> str | None:
    """Return the fields as ``name=value``; None if that is ambiguous."""
    fields = value
    if name:
        # Readers take the value of the omitted field from the path.
        if name not in value:
            return None
        if value[name] == _COUNTED.sub("", key):
            fields = _without(value, (name,))
    if not all(_PLAIN.match(field) for field in fields):
        return None
    return " ".join(f"{field}={_inner(value)}" for field, value in fields.items())


def _inner(value: Json) -> str:
    if isinstance(value, str) and _PLAIN.match(value) and not _LOOKS_OTHERWISE.match(value):
        return value
    return compact(value)


def _without(value: Spec, names: tuple[str, ...]) -> Spec:
    return {name: field for name, field in value.items() if name not in names}


_OBJECTS: Mapping[tuple[str, ...], Callable[[Spec, str], str]] = {
    ("mounts",): _mount,
    ("linux", "devices"): _device,
    ("process", "rlimits"): _named("type"),
    ("linux", "namespaces"): _named("type"),
    ("linux", "resources", "devices"): _named(""),
    ("linux", "resources", "hugepageLimits"): _named("pageSize"),
    **{("hooks", when): _named("path") for when in HOOKS},
}
"""Formatters of the objects at these paths."""
