# SPDX-License-Identifier: Apache-2.0
"""Plain values as YAML for people: safe for a terminal, and read back it is the same."""

from __future__ import annotations

import yaml

from nri_scope.recorder.escape import safe
from nri_scope.recorder.plain import Plain

_WIDTH = 1 << 20
"""Long values stay on their line: folded, they could no longer be searched or copied."""


class Line(dict[str, Plain]):
    """A mapping to be written on one line."""


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


_Dumper.add_representer(str, _text)
_Dumper.add_representer(Line, _line)


def to_yaml(value: Plain) -> str:
    """A YAML document; keys keep their order."""
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
