# SPDX-License-Identifier: Apache-2.0
"""Plain values as lines of YAML, however large they are: a part at a time, long values cut."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice

from nri_scope.nri.plain import Plain
from nri_scope.text.yaml_text import to_yaml

from ..store.reader_thread import Stop
from .styled_line import Span, Style, StyledLine

MAX_TEXT = 2_000
"""Characters of one value."""
MAX_MEMBERS = 1_000
"""Members of one list or mapping; a container with more is a hostile one."""
MAX_LINES = 20_000
"""Of one document. A Synchronize with hundreds of containers is within that."""
_APART = 3
"""Levels that are written member by member."""
_ODD_KEY = re.compile(r"\?|''")
"""Keys that are long or empty stand on lines of their own where their values are not short."""
_KEY = re.compile(r"([ -]*)([^\s'\"-][^:]*:|'[^']*':|\"(?:[^\"\\]|\\.)*\":)( .*)?\Z")


def yaml_lines(value: dict[str, Plain], stop: Stop) -> Iterator[StyledLine]:
    """Return a document; keys keep their order. Raises CancelledError once it is not waited for."""
    for count, text in enumerate(_texts(value, stop, _APART)):
        if count == MAX_LINES:
            yield (Span(f"… more than {MAX_LINES:,} lines: the rest is left out", Style.WARN),)
            return
        yield _styled(text)


def clipped(value: Plain) -> Plain:
    """Return the same with long texts cut, saying how long they are, and long lists and mappings
    too.
    """
    if isinstance(value, str):
        return clipped_text(value)
    if isinstance(value, list):
        found = [clipped(each) for each in value[:MAX_MEMBERS]]
        return [*found, _left_out(value)] if len(value) > MAX_MEMBERS else found
    if isinstance(value, dict):
        entries = islice(value.items(), MAX_MEMBERS)
        named = {clipped_text(key): clipped(each) for key, each in entries}
        return {**named, "…": _left_out(value)} if len(value) > MAX_MEMBERS else named
    return value


def clipped_text(text: str, most: int = MAX_TEXT) -> str:
    """Cut to about `most` characters, saying how many there are."""
    if len(text) <= most:
        return text
    return f"{text[:most]}… ({len(text):,} characters in all)"


def _left_out(value: Sequence[Plain] | dict[str, Plain]) -> str:
    return f"… {len(value) - MAX_MEMBERS:,} more"


def _texts(value: dict[str, Plain], stop: Stop, levels: int) -> Iterator[str]:
    if not value:
        yield "{}"
    for key, each in value.items():
        stop.check()
        name = clipped_text(key)
        apart = bool(each) and levels and isinstance(each, dict | list)
        heading = to_yaml({name: None}).rstrip("\n").removesuffix(" null") if apart else ""
        if not apart or _ODD_KEY.match(heading):
            yield from _dumped({name: clipped(each)})
        elif isinstance(each, dict):
            yield heading
            yield from (f"  {text}" for text in _texts(each, stop, levels - 1))
        elif isinstance(each, list) and all(isinstance(member, dict) for member in each):
            for at, member in enumerate(each):
                stop.check()
                text = _dumped({name: [clipped(member)]})
                yield from text[1:] if at else text
        else:
            yield from _dumped({name: clipped(each)})


def _dumped(document: dict[str, Plain]) -> list[str]:
    """Format one entry as lines that others may follow."""
    lines = to_yaml(document).splitlines()
    # After a text that ends with empty lines this marks where a document ends; ours goes on.
    return lines[:-1] if lines[-1:] == ["..."] else lines


def _styled(text: str) -> StyledLine:
    found = _KEY.match(text)
    if found is None:
        return (Span(text),)
    indent, key, value = found.groups(default="")
    parts = (Span(indent), Span(key, Style.KEY), Span(value))
    return tuple(part for part in parts if part.text)
