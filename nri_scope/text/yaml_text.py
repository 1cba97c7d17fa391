# SPDX-License-Identifier: Apache-2.0
"""Write plain values as YAML that is safe on a terminal and that all parsers read alike.

Equal values result in equal bytes. PyYAML is not used: it takes a third of a millisecond for each
value, breaks lines by its own rules and does not escape bidirectional controls.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Protocol, TypeAlias, TypeVar

from .escape import safe

MAX_DEPTH = 200
"""Maximum depth of the output; a malicious value may be nested deeper than Python's stack."""
CUT = '"…"'
"""Placeholder for deeper values."""

_INDENT = "  "
_LONG_KEY = 800
"""Keys longer than this follow a question mark; YAML requires it above 1,024 characters."""
_ONE_LINE = 72
"""Maximum number of characters of a list on one line."""

# Text that is safe without quotes.
_FIRST = r"(?:[A-Za-z0-9_/$(]|[-.](?=[A-Za-z0-9_/]))"
_PLAIN = re.compile(_FIRST + r"[A-Za-z0-9_/.@%+=~;()*<>$^:±#,!?&-]*")
_WORDS = re.compile(
    r"[A-Za-z0-9_/(][A-Za-z0-9_/.()',-]*(?: [A-Za-z0-9_/.()'][A-Za-z0-9_/.()',-]*)+"
)
# Booleans, numbers and times of YAML 1.1, and numbers of YAML 1.2.
_NOT_TEXT = re.compile(
    r"[yYnN]|yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF"
    r"|null|Null|NULL"
    r"|[-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+][0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
    r"|[-+]?0b[01_]+|[-+]?0[0-7_]+|[-+]?[1-9][0-9_]*|[-+]?0x[0-9a-fA-F_]+|0o[0-9a-fA-F]+"
    r"|[-+]?[1-9][0-9_]*(?::[0-5]?[0-9])+|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*"
    r"|[0-9]{4}-[0-9][0-9]?-[0-9][0-9]?"
    r"(?:(?:[Tt]|[ \t]+)[0-9][0-9]?:[0-9][0-9]:[0-9][0-9](?:\.[0-9]*)?"
    r"(?:[ \t]*(?:Z|[-+][0-9][0-9]?(?::[0-9][0-9])?))?)?"
)
# Characters at which some parsers end unquoted text between brackets.
_ENDS_IN_FLOW = re.compile(r"[,?]")
# Text that a shell reads as plain words.
_SHELL_WORDS = re.compile(r"[A-Za-z0-9_/.:@%+=, -]*")
_SPACE_OR_EQUALS = re.compile(r"[ =]")
_TAGGED_NUMBER = re.compile(r"-?[0-9]+ ±[0-9.]+%?")

_V = TypeVar("_V")


class Tagged(Protocol):
    """A value written as a tag with an argument."""

    @property
    def tag(self) -> str:
        """The tag, with its exclamation mark."""
        ...

    @property
    def argument(self) -> str:
        """The text after the tag; may be ""."""
        ...


YamlValue: TypeAlias = (
    "bool | int | float | str | Tagged | Sequence[YamlValue] | Mapping[str, YamlValue] | None"
)


class _Yaml(str):
    """Text that is already YAML."""


class FlowMapping(dict[str, _V]):
    """A mapping that is written on one line of any length."""


class FlowList(list[_V]):
    """A list of strings that is written on one line of any length."""


def to_yaml(value: YamlValue, *, short_lists: bool = False) -> str:
    """Return a YAML document; keys keep their order. ``short_lists``: see `yaml_lines`."""
    return "".join(f"{line}\n" for line in yaml_lines(value, short_lists=short_lists))


def yaml_lines(value: YamlValue, *, short_lists: bool = False) -> Iterator[str]:
    """Yield the lines of a document lazily, without line ends.

    With ``short_lists``, short lists of strings and numbers are written on one line.
    """
    return _YamlLines(short_lists).document(value)


def shell_safe(value: YamlValue) -> YamlValue:
    """Return a copy of a document that is harmless if its YAML is pasted into a shell.

    Every string is on one line, and quoted unless a shell would read it as plain words. Each line
    begins with a key, so that the shell looks for a program whose name ends in a colon. Lists are
    written on one line, as zsh ignores a leading dash and would run the item.
    """
    if isinstance(value, str):
        return _Yaml(_shell_safe_text(value))
    if isinstance(value, dict):
        members: dict[str, YamlValue] = {
            _Yaml(_shell_safe_text(name, is_key=True)): shell_safe(member)
            for name, member in value.items()
        }
        return type(value)(members)
    if isinstance(value, list):
        items = type(value)(map(shell_safe, value))
        return items if all(isinstance(item, dict) for item in value) else _Yaml(inline(items))
    return value


def _shell_safe_text(text: str, *, is_key: bool = False) -> str:
    yaml = scalar(text, in_flow=True)
    # As a key, a program with arguments or a variable assignment.
    is_command = is_key and yaml == text and _SPACE_OR_EQUALS.search(text) is not None
    # In fish, a backslash before the closing quotation mark escapes it.
    if not is_command and (_SHELL_WORDS.fullmatch(yaml) or (yaml[0] == "'" and "\\" not in text)):
        return yaml
    if safe(text) == text and "\\" not in text:
        return "'" + text.replace("'", "''") + "'"
    return re.sub("[$`!]", lambda match: f"\\x{ord(match[0]):02x}", double_quoted(text))


def inline(value: YamlValue) -> str:
    """Return a value on one line."""
    return scalar(value) if isinstance(value, str) else _inline(value, 0)


def key(text: str) -> str:
    """Return a mapping's key, followed by a colon."""
    return f"{scalar(text, in_flow=True)}:"


def scalar(text: str, *, in_flow: bool = False) -> str:
    """Return a string on one line, quoted if necessary."""
    return text if type(text) is _Yaml else _scalar(text, in_flow)


@lru_cache(maxsize=4096)
def _scalar(text: str, in_flow: bool) -> str:
    if (_PLAIN.fullmatch(text) or _WORDS.fullmatch(text)) and not (
        text.endswith(":") or _NOT_TEXT.fullmatch(text) or (in_flow and _ENDS_IN_FLOW.search(text))
    ):
        return text
    if safe(text) == text:
        return "'" + text.replace("'", "''") + "'"
    return double_quoted(text)


def double_quoted(text: str) -> str:
    """Return a string in double quotes; the escapes of `safe` are valid in YAML."""
    return '"' + safe(text.replace("\\", "\\\\").replace('"', '\\"')) + '"'


def atom(value: bool | int | float | None) -> str:
    """Return null, a boolean or a number as YAML."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        if value != value:
            return ".nan"
        if value in (float("inf"), float("-inf")):
            return ".inf" if value > 0 else "-.inf"
        text = repr(value)
        # YAML 1.1 has no exponents without a decimal point.
        return text if "." in text or "e" not in text else text.replace("e", ".0e")
    return str(value)


class _YamlLines:
    """Writer of nested blocks as lines."""

    def __init__(self, short_lists: bool) -> None:
        self._short_lists = short_lists

    def document(self, value: YamlValue) -> Iterator[str]:
        if isinstance(value, dict) and value and not isinstance(value, FlowMapping):
            yield from self._mapping(value, "", 1)
        elif isinstance(value, list) and value and not isinstance(value, FlowList):
            yield from self._list(value, "", 1)
        else:
            yield from self._leaf(value, _INDENT, 0)

    def _mapping(self, values: Mapping[str, YamlValue], indent: str, depth: int) -> Iterator[str]:
        for name, value in values.items():
            text = scalar(name)
            if len(text) > _LONG_KEY:
                yield f"{indent}? {text}"
                start = f"{indent}:"
            else:
                start = f"{indent}{text}:"
            yield from self._entry(start, value, indent + _INDENT, depth)

    def _list(self, values: Sequence[YamlValue], indent: str, depth: int) -> Iterator[str]:
        for value in values:
            yield from self._entry(f"{indent}-", value, indent + _INDENT, depth)

    def _entry(self, start: str, value: YamlValue, indent: str, depth: int) -> Iterator[str]:
        lines: Iterator[str] | None = None
        if isinstance(value, dict) and value and not isinstance(value, FlowMapping):
            lines = self._mapping(value, indent, depth + 1)
        elif isinstance(value, list) and value:
            if short := self._one_line(value):
                yield f"{start} {short}"
                return
            lines = self._list(value, indent, depth + 1)
        if lines is None or depth >= MAX_DEPTH:
            first, *others = self._leaf(value, indent, depth)
            yield f"{start} {first}"
            yield from others
            return
        if start.endswith("-"):
            # The first line of a list item follows the dash.
            yield f"{start} {next(lines).removeprefix(indent)}"
        else:
            yield start
        yield from lines

    def _one_line(self, items: Sequence[YamlValue]) -> str:
        """Return a list on one line, or "" if it should be written as a block."""
        is_flow = isinstance(items, FlowList)
        # Reject a long list before joining it.
        if not is_flow and (not self._short_lists or len(items) > _ONE_LINE):
            return ""
        if not all(isinstance(item, str | int) for item in items):
            return ""
        joined = inline(items)
        return joined if is_flow or len(joined) <= _ONE_LINE else ""

    def _leaf(self, value: YamlValue, indent: str, depth: int) -> Iterator[str]:
        if isinstance(value, str) and _fits_a_block(value):
            lines = value.split("\n")
            yield "|" if not lines[-1] else "|-"
            for line in lines if lines[-1] else lines[:-1]:
                yield f"{indent}{line}" if line else ""
        else:
            yield scalar(value) if isinstance(value, str) else _inline(value, depth)


def _inline(value: YamlValue, depth: int) -> str:
    if isinstance(value, str):
        return scalar(value, in_flow=True)
    if value is None or isinstance(value, bool | int | float):
        return atom(value)
    if not isinstance(value, dict | list):
        assert not isinstance(value, Sequence | Mapping)
        return f"{value.tag} {_argument(value.argument)}".rstrip()
    if depth >= MAX_DEPTH and value:
        return CUT
    if isinstance(value, list):
        return f"[{', '.join(_inline(item, depth + 1) for item in value)}]"
    entries = (_flow_entry(name, item, depth) for name, item in value.items())
    return f"{{{', '.join(entries)}}}"


def _flow_entry(name: str, value: YamlValue, depth: int) -> str:
    text = scalar(name, in_flow=True)
    start = f"? {text} " if len(text) > _LONG_KEY else text
    return f"{start}: {_inline(value, depth + 1)}"


def _fits_a_block(text: str) -> bool:
    return (
        "\n" in text
        and not text.startswith((" ", "\n"))
        and not text.endswith("\n\n")
        and safe(text, newlines=True) == text
    )


def _argument(argument: str) -> str:
    # After a tag, text is never read as a number, so only unsafe characters need quotes.
    if not argument or _TAGGED_NUMBER.fullmatch(argument):
        return argument
    if safe(argument) == argument:
        return "'" + argument.replace("'", "''") + "'"
    return double_quoted(argument)
