# SPDX-License-Identifier: Apache-2.0
"""Values with matchers as YAML: the same bytes for the same value, whatever PyYAML's version.

Written here rather than by PyYAML, which takes a third of a millisecond for a value and has its own
mind about line breaks. Its resolver decides which text needs quotes, so that every reader of YAML
takes a string for a string.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from nri_scope.text.escape import safe

from .matchers import Expected, Ignored, Present, Regex, Tolerance

_INDENT = "  "
_LONG_KEY = 800
"""A key of more than 1,024 characters is none to YAML, unless a question mark announces it."""

_ONE_LINE = 72
"""Characters of a list that is short enough for one line."""

# Nothing that YAML reads as anything but text; what looks like another type is for the resolver.
_FIRST = r"(?:[A-Za-z0-9_/$(]|[-.](?=[A-Za-z0-9_/]))"
_PLAIN = re.compile(_FIRST + r"[A-Za-z0-9_/.@%+=~;()*<>$^:±#,!?&-]*")
_WORDS = re.compile(
    r"[A-Za-z0-9_/(][A-Za-z0-9_/.()',-]*(?: [A-Za-z0-9_/.()'][A-Za-z0-9_/.()',-]*)+"
)
# Not text to other readers: truth values of YAML 1.1, numbers of YAML 1.2.
_NOT_TEXT = re.compile(r"[yYnN]|[-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?|0[ox][0-9a-fA-F]+")


class OneLine(list[Expected]):
    """A list of strings to be written on one line, however long."""


def to_yaml(value: dict[str, Expected]) -> str:
    """Return a YAML document; keys keep their order. Safe for a terminal."""
    return "".join(f"{line}\n" for line in yaml_lines(value))


def yaml_lines(value: Expected) -> list[str]:
    """Return the lines of ``to_yaml``, without line ends; of any value."""
    if isinstance(value, dict) and value:
        return list(_mapping(value, ""))
    if isinstance(value, list) and value:
        return list(_list(value, ""))
    return list(_scalar(value, ""))


def in_a_line(value: Expected) -> str:
    """Format ``value`` for a sentence: as in the file, but on one line."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{text(key)}: {in_a_line(value[key])}' for key in value)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(in_a_line, value))}]"
    if isinstance(value, str):
        return text(value)
    return next(_scalar(value, ""))


def _mapping(values: dict[str, Expected], indent: str) -> Iterator[str]:
    for key, value in values.items():
        name = text(key)
        if len(name) > _LONG_KEY:
            yield f"{indent}? {name}"
            start = f"{indent}:"
        else:
            start = f"{indent}{name}:"
        yield from _entry(start, value, indent + _INDENT)


def _list(values: list[Expected], indent: str) -> Iterator[str]:
    for value in values:
        yield from _entry(f"{indent}-", value, indent + _INDENT)


def _entry(start: str, value: Expected, indent: str) -> Iterator[str]:
    if isinstance(value, list) and (short := _one_line(value)):
        yield f"{start} {short}"
    elif isinstance(value, dict | list) and value:
        lines = _mapping(value, indent) if isinstance(value, dict) else _list(value, indent)
        if start.endswith("-"):
            # The first line of a list's member stands behind the dash.
            yield f"{start} {next(lines).removeprefix(indent)}"
        else:
            yield start
        yield from lines
    else:
        first, *others = _scalar(value, indent)
        yield f"{start} {first}"
        yield from others


def _one_line(items: list[Expected]) -> str:
    """Format on one line; return nothing for a list that is better written one item per line."""
    long = isinstance(items, OneLine)
    # Do not join a long list only to discard the result.
    if not items or (len(items) > _ONE_LINE and not long):
        return ""
    if not all(isinstance(item, str | int) for item in items):
        return ""
    joined = f"[{', '.join(_in_brackets(item) for item in items)}]"
    return joined if long or len(joined) <= _ONE_LINE else ""


def _in_brackets(item: Expected) -> str:
    if not isinstance(item, str):
        return in_a_line(item)
    shown = text(item)
    return _quoted(item) if shown == item and "," in item else shown


def _scalar(value: Expected, indent: str) -> Iterator[str]:
    match value:
        case Regex() | Tolerance() | Present() | Ignored():
            yield f"{value.tag} {_argument(value.argument)}".rstrip()
        case bool():
            yield "true" if value else "false"
        case int() | float():
            yield str(value)
        case None:
            yield "null"
        case dict():
            yield "{}"
        case list():
            yield "[]"
        case str():
            if _fits_a_block(value):
                lines = value.split("\n")
                yield "|" if not lines[-1] else "|-"
                yield from (f"{indent}{line}" if line else "" for line in _last_cut(lines))
            else:
                yield text(value)


def _fits_a_block(value: str) -> bool:
    return (
        "\n" in value
        and not value.startswith((" ", "\n"))
        and not value.endswith("\n\n")
        and value != "\n"
        and safe(value, newlines=True) == value
    )


def _last_cut(lines: list[str]) -> list[str]:
    return lines if lines[-1] else lines[:-1]


def _argument(argument: str) -> str:
    # A tag makes a number no number: only the characters matter.
    if not argument or re.fullmatch(r"-?[0-9]+ ±[0-9.]+%?", argument):
        return argument
    return _quoted(argument)


@lru_cache(maxsize=4096)
def text(value: str) -> str:
    """Format a string on one line, in quotes where it needs them."""
    if _PLAIN.fullmatch(value) or _WORDS.fullmatch(value):
        plain = not value.endswith(":") and not _NOT_TEXT.fullmatch(value)
        if plain and _is_text(value):
            return value
    return _quoted(value)


def _is_text(value: str) -> bool:
    import yaml

    resolver = yaml.SafeLoader.yaml_implicit_resolvers
    candidates = [*resolver.get(value[:1], []), *resolver.get(None, [])]
    return not any(pattern.match(value) for _, pattern in candidates)


def _quoted(value: str) -> str:
    if safe(value) == value:
        return "'" + value.replace("'", "''") + "'"
    # The escapes of safe() are those that YAML has in double quotes.
    return '"' + safe(value.replace("\\", "\\\\").replace('"', '\\"')) + '"'
