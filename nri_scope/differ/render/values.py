# SPDX-License-Identifier: Apache-2.0
"""Values of a spec in one line each: in common notation if that is unambiguous, else JSON.

The result is not escaped for a terminal: `nri_scope.text.escape.safe` is for the whole line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping

from nri_scope.oci import Change, Json, Spec, split

_PLAIN = re.compile(r"[A-Za-z0-9_/.:+@%-]+\Z")
"""Text that needs no quotes: without blanks, brackets, quotes, commas and equals signs."""
_PLAIN_OPTION = re.compile(r"[A-Za-z0-9_/.:+@%=-]+\Z")
_LOOKS_OTHERWISE = re.compile(r"(?:true|false|null|[-+]?[0-9.].*)\Z")
"""Text that looks like a number, true, false or null."""
_COUNTED = re.compile(r"#[0-9]+\Z")

_SHORTENED = 32
"""Number of characters of a common prefix that are kept if it is cut."""


def compact(value: Json) -> str:
    """Return JSON in one line, also for values outside JSON: NaN, infinity or too deep nesting."""
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return "(nested too deeply to be shown)"


def shown(path: str, value: Json) -> str:
    """Return the value at `path` in one line."""
    keys = split(path)
    if value is None and keys[:2] == ("process", "env"):
        return '(its name alone, without "=")'
    if isinstance(value, dict):
        for prefix, of in _OBJECTS.items():
            if keys[: len(prefix)] == prefix and len(keys) == len(prefix) + 1:
                return of(value, keys[-1]) or compact(value)
    return compact(value)


def sides(change: Change) -> tuple[str, str]:
    """Return the values before and after a change, in one line each; "" for none."""
    if change.kind == "moved":
        return place(change.before), place(change.after)
    before = "" if change.kind == "added" else shown(change.path, change.before)
    after = "" if change.kind == "removed" else shown(change.path, change.after)
    return before, after


def place(position: Json) -> str:
    """Return a position, counted from 0, as an ordinal: ``1st``, ``2nd``."""
    if not isinstance(position, int):
        return compact(position)
    number = position + 1
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if number % 100 in (11, 12, 13) else ending}"


def clipped(text: str, most: int, begin: int = 0) -> str:
    """Return `text` cut to about `most` characters from `begin` on, with its full length noted."""
    if len(text) <= most:
        return text
    before = "…" if begin else ""
    after = "…" if begin + most < len(text) else ""
    return f"{before}{text[begin : begin + most]}{after} ({len(text):,} characters in all)"


def clipped_pair(before: str, after: str, most: int) -> tuple[str, str]:
    """Return both `clipped` in such a way that their first difference is visible."""
    common = 0
    if before and after and max(len(before), len(after)) > most:
        both = enumerate(zip(before, after, strict=False))
        common = next((at for at, (one, two) in both if one != two), min(len(before), len(after)))
    begin = max(0, common - _SHORTENED) if common > most // 2 else 0
    return clipped(before, most, begin), clipped(after, most, begin)


def _mount(value: Spec, _key: str) -> str:
    """Return a mount as mount(8) lists it; "" if that is ambiguous."""
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
    """Return a device as ls(1) and mknod(1) show it, its mode in octal; "" if ambiguous."""
    mode, kind = value.get("fileMode"), value.get("type")
    major, minor = value.get("major"), value.get("minor")
    if not (isinstance(kind, str) and _PLAIN.match(kind)):
        return ""
    if type(major) is not int or type(minor) is not int:
        return ""
    if "fileMode" in value and not (type(mode) is int and mode >= 0):
        return ""
    told = _without(value, ("type", "major", "minor", "fileMode"))
    rest = _fields(told, "path", key)
    if rest is None:
        return ""
    octal = f"mode=0{mode:o}" if isinstance(mode, int) else ""
    return " ".join(filter(None, (f"{kind} {major}:{minor}", octal, rest)))


def _named(name: str) -> Callable[[Spec, str], str]:
    """Return a function that writes fields, without the field `name` if the path has its value."""
    return lambda value, key: _fields(value, name, key) or ""


def _fields(value: Spec, name: str, key: str) -> str | None:
    """Return the fields; None if that is ambiguous."""
    told = value
    if name:
        # If the field is omitted, readers take its value from the path.
        if name not in value:
            return None
        if value[name] == _COUNTED.sub("", key):
            told = _without(value, (name,))
    if not all(_PLAIN.match(field) for field in told):
        return None
    return " ".join(f"{field}={_inner(one)}" for field, one in told.items())


def _inner(value: Json) -> str:
    if isinstance(value, str) and _PLAIN.match(value) and not _LOOKS_OTHERWISE.match(value):
        return value
    return compact(value)


def _without(value: Spec, names: tuple[str, ...]) -> Spec:
    return {name: one for name, one in value.items() if name not in names}


_OBJECTS: Mapping[tuple[str, ...], Callable[[Spec, str], str]] = {
    ("mounts",): _mount,
    ("linux", "devices"): _device,
    ("process", "rlimits"): _named("type"),
    ("linux", "namespaces"): _named("type"),
    ("linux", "resources", "devices"): _named(""),
    ("linux", "resources", "hugepageLimits"): _named("pageSize"),
    **{
        ("hooks", when): _named("path")
        for when in (
            "prestart",
            "createRuntime",
            "createContainer",
            "startContainer",
            "poststart",
            "poststop",
        )
    },
}
"""Functions that write objects at these paths."""
