# SPDX-License-Identifier: Apache-2.0
"""Labels of paths for people: ``env FOO``, ``mounts[/data].options``, ``memory.limit``.

Every path has exactly one label, and no two paths share one, also if they are malformed. A label
may contain unsafe characters, but only in double quotes, where a backslash is doubled. So it can
still be read back after `nri_scope.text.escape.safe`.
"""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

from .lists import KEYED
from .paths import pointer, split

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
    for at in range(length, len(keys)):
        key = keys[at]
        is_word = _WORD.fullmatch(key) and (at > _DEPTH or keys[:at] not in _MEMBERS)
        if is_word and (at or key not in _LONG):
            parts.append(f".{key}" if at else key)
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
    at = 0
    while at < len(text):
        found = (_NEXT if at else _FIRST).match(text, at)
        if found is None:
            return None
        word, key = found["word"], found["key"]
        if word is not None:
            keys += (word,) if at else _LONG.get(word, (word,))
        else:
            keys.append(_unquoted(key) if key.startswith('"') else key)
        at = found.end()
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
            or path.startswith(tuple(f"{one}/" for one in self.paths))
            or bool(self.key and f"/{self.key}/" in f"{path}/")
        )

    def path_above(self, found: list[str]) -> str | None:
        """Return the one of `paths` that all `found` paths are at or below; None for none."""
        for one in self.paths:
            if all(path == one or path.startswith(f"{one}/") for path in found):
                return one
        return None


def meaning(text: str) -> Meaning:
    """Return the paths that `text` may name: as a path, as a label, and as a plain name."""
    path = path_of(text)
    paths = dict.fromkeys(one.rstrip("/") for one in (text, path) if one is not None)
    return Meaning(tuple(paths), "" if text in _LONG else pointer("", text)[1:])


def _pointer(keys: tuple[str, ...]) -> str:
    return "".join(pointer("", key) for key in keys)


def _quoted(text: str) -> str:
    found = text.replace("\\", "\\\\").replace('"', '\\"')
    if unicodedata.normalize("NFKC", text) != text:
        # Another text, such as one with wide brackets, would look the same.
        found = "".join(one if one.isascii() else f"\\U{ord(one):08x}" for one in found)
    return f'"{found}"'


def _unquoted(text: str) -> str:
    return _ESCAPE.sub(_character, text[1:-1])


def _character(found: re.Match[str]) -> str:
    *codes, other = found.groups()
    for code in codes:
        if code:
            number = int(code, 16)
            return chr(number) if number <= 0x10FFFF else found[0]
    return _CONTROLS.get(other, other)
