# SPDX-License-Identifier: Apache-2.0
"""Labels of paths for people: ``env FOO``, ``mounts[/data].options``, ``memory.limit``.

Every path has exactly one label, and no two paths share one, also if they are malformed. A label
may contain unsafe characters, but only in double quotes, where a backslash is doubled. So it can
still be read back after `nri_scope.text.escape.safe`.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import NamedTuple

from .json_spec import ABSENT, KEYED, Absent, Json, Spec, key_of, members, pointer, split


def value_at(spec: Spec, path: str) -> Json | Absent:
    """Return the value at the `path` of a `Change`; ABSENT if the path does not exist.

    A member of a keyed array is found by its label (``/process/env/FOO``, with the text after the
    "=" as its value; ``/mounts/~1data``; ``KEY#2``), a member of any other array by its position
    from 0. The path "" is the whole spec. Accepts any text and any JSON.
    """
    if path and not path.startswith("/"):
        return ABSENT
    value: Json = spec
    # None if the path is longer than the paths of all keyed arrays.
    array_path: str | None = ""
    for key in split(path):
        below = value if isinstance(value, dict) else labelled(array_path, value)
        if below is None or key not in below:
            return ABSENT
        value = below[key]
        array_path = step(array_path, key)
    return value


def values_of_key(spec: Spec, path: str) -> list[Json]:
    """Return the value at `path` or, in a keyed array, all values of that key: "KEY", "KEY#2" and
    so on.

    [] if there are none. The count in a label depends on the other members, so a value can have
    different labels in different specs.
    """
    parent, _, last = path.rpartition("/")
    array = value_at(spec, parent)
    if not isinstance(array, list) or parent not in KEYED:
        value = value_at(spec, path)
        return [] if isinstance(value, Absent) else [value]
    (label,) = split(f"/{last}")
    return _by_key(_Array(array), parent).get(key_of(label), [])


def labels_at(spec: Spec, path: str) -> list[str]:
    """Return the labels of the array at `path`, in order; [] for any other value."""
    return [*(labelled(path, value_at(spec, path)) or ())]


def labelled(path: str | None, value: Json | Absent) -> dict[str, Json] | None:
    """Return the members of an array by their labels in a path; None for any other value.

    `path` is the array's path, None if it is too long for a keyed array. The result is cached and
    must not be modified.
    """
    return _labelled(_Array(value), path) if isinstance(value, list) else None


class _Array:
    """A cache key for an array, compared by identity, as specs are never modified in place."""

    def __init__(self, items: list[Json]) -> None:
        self.items = items

    def __hash__(self) -> int:
        return id(self.items)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Array) and self.items is other.items


# Callers look up one difference of a long array after the other, alternating between a few specs.
@lru_cache(maxsize=8)
def _labelled(array: _Array, path: str | None) -> dict[str, Json]:
    keyed = None if path is None else KEYED.get(path)
    by_label = members(array.items, keyed) if keyed else None
    return numbered(array.items) if by_label is None else by_label


@lru_cache(maxsize=8)
def _by_key(array: _Array, path: str) -> dict[str, list[Json]]:
    by_key: dict[str, list[Json]] = {}
    for label, value in _labelled(array, path).items():
        by_key.setdefault(key_of(label), []).append(value)
    return by_key


def numbered(items: list[Json]) -> dict[str, Json]:
    """Return the members of an array by position, for an array without keys."""
    return {str(position): item for position, item in enumerate(items)}


def step(parent: str | None, key: str) -> str | None:
    """Return the path of the member `key` of `parent`; None if it is too long for a keyed array.

    The limit keeps the work for a spec of any depth proportional to its size.
    """
    if parent is None or len(parent) + len(key) >= _LONGEST:
        return None
    return pointer(parent, key)


_LONGEST = max(map(len, KEYED)) + 1


WHOLE = "(the whole spec)"
"""Label of the empty path."""

_ENV = ("process", "env")
_SHORT: dict[tuple[str, ...], str] = {
    _ENV: "env",
    ("process", "args"): "args",
    ("process", "rlimits"): "rlimits",
    **{
        ("linux", name): name
        for name in ("cgroupsPath", "devices", "namespaces", "netDevices", "resources", "sysctl")
    },
    **{
        ("linux", "resources", name): name
        for name in ("blockIO", "cpu", "hugepageLimits", "memory", "pids", "unified")
    },
}
"""Short names of often changed parts of a spec, by their keys."""
_LONG = {name: keys for keys, name in _SHORT.items()}
_MEMBERS = frozenset(
    {
        *map(split, KEYED),
        ("annotations",),
        ("linux", "netDevices"),
        ("linux", "resources", "unified"),
        ("linux", "sysctl"),
    }
)
"""Arrays and objects whose members have names that users chose, which are in brackets."""
_DEPTH = max(map(len, _MEMBERS))

_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_RAW_KEY = re.compile(r"[!#-Z^-~]+(?: [!#-Z^-~]+)*")
"""ASCII without brackets, double quotes, backslashes and surplus spaces, which needs no quotes."""
_RAW_VARIABLE = re.compile(r"[!#-Z^-~]+")
_QUOTED = r'"(?:[^"\\]|\\.)*"'
# For reading, a word may contain the wildcard of the filter language.
_FIRST = re.compile(rf"(?P<word>[A-Za-z*][A-Za-z0-9_*]*)|\[(?P<key>{_QUOTED}|[^\[\]\"\\]+)\]", re.S)
_NEXT = re.compile(
    rf"\.(?P<word>[A-Za-z*][A-Za-z0-9_*]*)|\[(?P<key>{_QUOTED}|[^\[\]\"\\]+)\]", re.S
)
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t"}


def label(path: str) -> str:
    """Return the label of the path of a `Change`. Not escaped for a terminal."""
    if not path:
        return WHOLE
    keys = split(path)
    if _pointer(keys) != path:
        return _quoted(path)
    if keys[:2] == _ENV and len(keys) == 3:
        return f"env {keys[2] if _RAW_VARIABLE.fullmatch(keys[2]) else _quoted(keys[2])}"
    parts: list[str] = []
    for length in (3, 2):
        if short := _SHORT.get(keys[:length]):
            parts.append(short)
            break
    else:
        length = 0
    for index in range(length, len(keys)):
        key = keys[index]
        is_word = _WORD.fullmatch(key) and (index > _DEPTH or keys[:index] not in _MEMBERS)
        if is_word and (index or key not in _LONG):
            parts.append(f".{key}" if index else key)
        else:
            parts.append(f"[{key if _RAW_KEY.fullmatch(key) else _quoted(key)}]")
    return "".join(parts)


def path_of(text: str) -> str | None:
    """Return the path for a label, or for a path itself; None if `text` is neither.

    Other spellings of the same keys are accepted: ``env[FOO]``, ``process.env.FOO``.
    """
    if text == WHOLE:
        return ""
    if text.startswith("/"):
        return text
    if text.startswith('"'):
        return _unquoted(text) if re.fullmatch(_QUOTED, text, re.DOTALL) else None
    if text.startswith("env ") and (name := text[4:].strip(" ")):
        if not name.startswith('"'):
            return _pointer((*_ENV, name))
        return _pointer((*_ENV, _unquoted(name))) if re.fullmatch(_QUOTED, name, re.S) else None
    keys: list[str] = []
    position = 0
    while position < len(text):
        match = (_NEXT if position else _FIRST).match(text, position)
        if match is None:
            return None
        word, key = match["word"], match["key"]
        if word is not None:
            keys += (word,) if position else _LONG.get(word, (word,))
        else:
            keys.append(_unquoted(key) if key.startswith('"') else key)
        position = match.end()
    return _pointer(tuple(keys)) if keys else None


class Meaning(NamedTuple):
    """What a text in a filter or an argument may mean."""

    paths: tuple[str, ...]
    """Paths; their parts are meant, too."""
    key: str
    """A key at any place of a path, escaped as in a pointer; "" for none."""

    def includes(self, path: str) -> bool:
        """Return whether `path` is meant."""
        return (
            path in self.paths
            or path.startswith(tuple(f"{own}/" for own in self.paths))
            or bool(self.key and f"/{self.key}/" in f"{path}/")
        )

    def path_above(self, below: list[str]) -> str | None:
        """Return the one of `paths` that all paths ``below`` are at or below; None for none."""
        for own in self.paths:
            if all(path == own or path.startswith(f"{own}/") for path in below):
                return own
        return None


def meaning(text: str) -> Meaning:
    """Return the paths that `text` may name: as a path, as a label, and as a plain name."""
    path = path_of(text)
    paths = dict.fromkeys(name.rstrip("/") for name in (text, path) if name is not None)
    return Meaning(tuple(paths), "" if text in _LONG else pointer("", text)[1:])


def _pointer(keys: tuple[str, ...]) -> str:
    return "".join(pointer("", key) for key in keys)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    if unicodedata.normalize("NFKC", text) != text:
        # Another text, such as one with wide brackets, would look the same.
        escaped = "".join(char if char.isascii() else f"\\U{ord(char):08x}" for char in escaped)
    return f'"{escaped}"'


def _unquoted(text: str) -> str:
    return _ESCAPE.sub(_character, text[1:-1])


def _character(match: re.Match[str]) -> str:
    *codes, letter = match.groups()
    for code in codes:
        if code:
            number = int(code, 16)
            return chr(number) if number <= 0x10FFFF else match[0]
    return _CONTROLS.get(letter, letter)
