# SPDX-License-Identifier: Apache-2.0
"""Plain values as styled lines of YAML, with long values truncated."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from nri_scope.nri.plain import Plain
from nri_scope.text import yaml_text

from ..store.reader_thread import CancelFlag
from .styled_line import Span, Style, StyledLine

MAX_TEXT = 2_000
"""Maximum characters of one value."""
MAX_MEMBERS = 1_000
"""Maximum members of one list or mapping; real containers have fewer."""
MAX_LINES = 20_000
"""Maximum lines of a document; enough for a Synchronize request with hundreds of containers."""
_KEY = re.compile(r"([ -]*)([^\s'\"-][^:]*:|'[^']*':|\"(?:[^\"\\]|\\.)*\":)( .*)?\Z")


def yaml_lines(value: dict[str, Plain], stop: CancelFlag) -> Iterator[StyledLine]:
    """Yield the lines of a document, keeping the order of keys.

    Raises CancelledError after `CancelFlag.set`.
    """
    for count, text in enumerate(yaml_text.yaml_lines(_clipped(value, stop.check))):
        stop.check()
        if count == MAX_LINES:
            yield (Span(f"… more than {MAX_LINES:,} lines: the rest is omitted", Style.WARN),)
            return
        yield styled_yaml(text)


def clipped(value: Plain) -> Plain:
    """Truncate long texts, lists and mappings, adding what was cut."""
    return _clipped(value, lambda: None)


def _clipped(value: Plain, check: Callable[[], None]) -> Plain:
    if isinstance(value, str):
        return clipped_text(value)
    if isinstance(value, list):
        found = [_clipped(each, check) for each in value[:MAX_MEMBERS]]
        return [*found, _omitted_count(value)] if len(value) > MAX_MEMBERS else found
    if isinstance(value, dict):
        check()
        entries = islice(value.items(), MAX_MEMBERS)
        named = {clipped_text(key): _clipped(each, check) for key, each in entries}
        return {**named, "…": _omitted_count(value)} if len(value) > MAX_MEMBERS else named
    return value


def clipped_text(text: str, most: int = MAX_TEXT) -> str:
    """Truncate to `most` characters, followed by the original number of characters."""
    if len(text) <= most:
        return text
    return f"{text[:most]}… ({len(text):,} characters in all)"


def _omitted_count(value: Sequence[Plain] | dict[str, Plain]) -> str:
    return f"… {len(value) - MAX_MEMBERS:,} more"


def styled_yaml(text: str) -> StyledLine:
    """Return a line of YAML with its key in a style."""
    found = _KEY.match(text)
    if found is None:
        return (Span(text),)
    indent, key, value = found.groups(default="")
    parts = (Span(indent), Span(key, Style.KEY), Span(value))
    return tuple(part for part in parts if part.text)
