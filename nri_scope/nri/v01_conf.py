# SPDX-License-Identifier: Apache-2.0
"""The configuration of NRI 0.1, ``/etc/nri/conf.json``: a list of plugins.

The client reads it at every call, and ignores what follows the first JSON value. Names of members
are compared without regard to case (Go, encoding/json).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from nri_scope.errors import UsageError

SIZE_MAX = 256 << 10
"""Maximum bytes of the file; real ones have some hundred."""
PROGRAM = "nri-scope-v01"
"""File name of the recording plugin of nri-scope, in its spool."""
_PLACES_MAX = 1_000
"""Maximum number of brackets at which the end of the list is looked for."""


@dataclass(frozen=True, slots=True)
class Conf:
    """The content of a configuration."""

    version: str
    types: tuple[str, ...]
    """The plugins in the order of the calls: programs, looked up in PATH without a slash."""


def parse_conf(content: bytes) -> Conf:
    """Return the content of a configuration. Raises UsageError if a runtime could not read it."""
    return _conf(_document(content)[0])


def with_plugin(content: bytes | None, path: str) -> bytes:
    """Return a configuration with one more plugin, the last of the list; the rest is unchanged.

    ``content`` None stands for no file. Raises UsageError as `parse_conf`, and for a list that has
    a recording plugin: its program would be removed with that of the new one.
    """
    entry = json.dumps({"type": path})
    if content is None:
        return f'{{"version": "0.1", "plugins": [{entry}]}}\n'.encode()
    document, end = _document(content)
    for listed_type in _conf(document).types:
        if listed_type.rpartition("/")[2] == PROGRAM:
            raise UsageError(f"it already lists {listed_type}", "remove that from the list first")
    name = next((key for key in document if key.lower() == "plugins"), "plugins")
    listed = document.get(name) or []
    wanted = {**document, name: [*listed, {"type": path}]}
    if document.get(name) is None and name in document:
        raise UsageError("its plugins are null", "write an empty list, []")
    inside, bracket = (entry, b"]") if name in document else (f'"plugins": [{entry}]', b"}")
    is_first = not listed if name in document else not document
    at = end
    for _ in range(_PLACES_MAX):
        at = content.rfind(bracket, 0, at)
        if at < 0:
            break
        new = content[:at] + ("" if is_first else ", ").encode() + inside.encode() + content[at:]
        try:
            if _document(new)[0] == wanted:
                return new
        except UsageError:
            continue
    raise UsageError("the end of its list of plugins was not found", "add the plugin by hand")


def _document(content: bytes) -> tuple[_Members, int]:
    """Return the first JSON value, which must be an object, and where it ends."""
    if len(content) > SIZE_MAX:
        raise UsageError(f"it has more than {SIZE_MAX >> 10} KiB")
    try:
        text = content.decode()
        start = len(text) - len(text.lstrip(" \t\r\n"))
        document, end = _DECODER.raw_decode(text, start)
    except UnicodeDecodeError:
        raise UsageError("it is not UTF-8") from None
    except RecursionError:
        raise UsageError("it is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise UsageError(
            f"it is not JSON: line {error.lineno}, column {error.colno}: {error.msg}"
        ) from None
    except ValueError as error:
        raise UsageError(f"it is not JSON: {error}") from None
    if not isinstance(document, _Members):
        raise UsageError("it is not a JSON object")
    return document, len(text[:end].encode())


def _conf(document: _Members) -> Conf:
    members = document.by_name()
    version, plugins = members.get("version", ""), members.get("plugins")
    if version is not None and type(version) is not str:
        raise UsageError("its version is not a text")
    if plugins is not None and not isinstance(plugins, list):
        raise UsageError("its plugins are not a list")
    types: list[str] = []
    for number, one in enumerate(plugins or (), 1):
        if not isinstance(one, _Members):
            # The client would crash on null.
            raise UsageError(f"plugin {number} of its list is not an object")
        kind = one.by_name().get("type")
        if not isinstance(kind, str) or not kind or type(kind) is not str:
            raise UsageError(f"plugin {number} of its list has no type")
        types.append(kind)
    return Conf(version or "", tuple(types))


class _Number(str):
    """A number of the file, as written."""


class _Members(dict[str, Any]):
    """A JSON object; ``is_unique``: whether its members have different names for the client."""

    is_unique = True

    @classmethod
    def of(cls, pairs: list[tuple[str, Any]]) -> _Members:
        members = cls(pairs)
        members.is_unique = len({key.lower() for key in members}) == len(pairs)
        return members

    def by_name(self) -> dict[str, Any]:
        if not self.is_unique:
            raise UsageError("a member occurs twice in it")
        return {key.lower(): value for key, value in self.items()}


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON value")


_DECODER = json.JSONDecoder(
    # Numbers as texts: they must not change.
    parse_float=_Number,
    parse_int=_Number,
    parse_constant=_refuse,
    object_pairs_hook=_Members.of,
)
