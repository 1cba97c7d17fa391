# SPDX-License-Identifier: Apache-2.0
"""Plain values as YAML for people: safe for a terminal, and read back it is the same."""

from __future__ import annotations

import re
from functools import lru_cache

import yaml

from nri_scope.nri.plain import Plain

from .escape import safe

_WIDTH = 1 << 20
"""Long values stay on their line: folded, they could no longer be searched or copied."""

_MANY = 20
_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{8,18}Z")


class Line(dict[str, Plain]):
    """A mapping to be written on one line."""


class _OneText(list[Plain]):
    """A list to be written on one line."""


class _Dumper(yaml.SafeDumper):
    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        # Lists under a key are indented, which shows better what belongs to what.
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: object) -> bool:
        return True


def _text(dumper: _Dumper, text: str) -> yaml.Node:
    if safe(text, newlines=True) != text:
        # Only in double quotes are there escapes.
        style: str | None = '"'
    elif "\n" in text:
        style = "|"
    else:
        style = None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _line(dumper: _Dumper, line: Line) -> yaml.Node:
    return dumper.represent_mapping("tag:yaml.org,2002:map", line, flow_style=True)


def _one_text(dumper: _Dumper, text: _OneText) -> yaml.Node:
    return dumper.represent_sequence("tag:yaml.org,2002:seq", text, flow_style=True)


_Dumper.add_representer(str, _text)
_Dumper.add_representer(_OneText, _one_text)
_Dumper.add_representer(Line, _line)


def to_yaml(value: Plain) -> str:
    """A YAML document; keys keep their order."""
    if not isinstance(value, dict):
        return _dumped(value)
    parts: list[str] = []
    waiting: dict[str, Plain] = {}
    for key, item in value.items():
        lines = [line for line in item if isinstance(line, Line)] if type(item) is list else []
        # PyYAML takes a third of a millisecond for each; there may be thousands.
        if len(lines) < _MANY or not isinstance(item, list) or len(lines) < len(item):
            waiting[key] = item
            continue
        parts.append(_dumped(waiting) if waiting else "")
        waiting = {}
        parts.append(f"{_text_in_line(key)}:\n")
        parts += [f"  - {_flow(line)}\n" for line in lines]
    if waiting or not parts:
        parts.append(_dumped(waiting))
    return "".join(parts)


def _dumped(value: Plain) -> str:
    text = yaml.dump(
        value,
        Dumper=_Dumper,
        sort_keys=False,
        default_flow_style=False,
        allow_unicode=True,
        width=_WIDTH,
    )
    # What is unsafe is in double quotes by now, where the escapes of safe() are YAML's own. PyYAML
    # itself lets bidirectional controls through.
    return safe(text, newlines=True)


def _flow(line: Line) -> str:
    """As PyYAML writes a mapping on one line."""
    entries: list[str] = []
    for key, item in line.items():
        if isinstance(item, str):
            text = f"'{item}'" if _MOMENT.fullmatch(item) else _text_in_line(item)
        elif type(item) is int:
            text = str(item)
        else:
            return _dumped(line).rstrip("\n")
        entries.append(f"{_text_in_line(key)}: {text}")
    return f"{{{', '.join(entries)}}}"


@lru_cache(maxsize=1024)
def _text_in_line(text: str) -> str:
    # In its place, as quotes depend on it: [text]
    return _dumped(_OneText([text])).strip()[1:-1]
