# SPDX-License-Identifier: Apache-2.0
"""Read the part of a recording that is written in another format, and encode it as JSON.

Python's own encoder may write what other programs reject: lone surrogates (I-JSON, RFC 7493, 2.1),
numbers such as NaN, thousands of nested lists. All of these can occur in texts of a recording and
in the CRI's answers, which are untrusted JSON.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import IO

from nri_scope.events import Event, Gap, Printed
from nri_scope.nri.plain import Plain
from nri_scope.recording.file.sqlite_text import HIGHEST, storable
from nri_scope.recording.reading.entries import IncludedRows, printed_in
from nri_scope.recording.reading.reader import Recording
from nri_scope.recording.reading.row_pages import ascending
from nri_scope.recording.reading.tap_tables import Taps

from ..extract.omitted_events import OmittedEvents


def requests_of(event: Event) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the paths that an event changed, and others that it asked for, with their outcomes.

    A path of another container is followed by ``of ns/pod/container``.
    """
    paths = tuple(
        f"{path} of {target}" if target else path
        for path, target in zip_longest(event.changed, event.targets)
    )
    others = zip_longest(paths[event.changes :], event.outcomes[event.changes :])
    asked = tuple(f"{path}: {kind}" if kind else path for path, kind in others)
    return paths[: event.changes], asked


def folder_of(stream: IO[bytes]) -> Path | None:
    """Return the folder of an output, for temporary files; None if it is no file."""
    name = getattr(stream, "name", None)
    return Path(name).parent if isinstance(name, str) and Path(name).is_file() else None


class ExportedPart:
    """All events of a recording, or those with given numbers, with related rows.

    Every method raises RecordingError.
    """

    def __init__(self, recording: Recording, numbers: Iterable[int] | None) -> None:
        self._recording = recording
        self._numbers = None if numbers is None else ascending(numbers)

    def events(self) -> Iterator[Event]:
        """Yield the events in recorded order."""
        yield from self._recording.events(among=self._numbers)

    def exchanges(self) -> Iterator[tuple[Event, bytes, bytes]]:
        """Yield the events with their requests and replies."""
        yield from self._recording.exchanges(among=self._numbers)

    def gaps(self) -> list[Gap]:
        """Return all gaps, also those that stand for the events which were not selected: they tell
        what it means that there are no other events.
        """
        gaps = self._recording.gaps()
        if self._numbers is not None:
            omitted = OmittedEvents(self._recording, IncludedRows(HIGHEST, kept=self._numbers))
            for number in self._numbers:
                omitted.advance_to(number)
            omitted.finish()
            first = max((gap.id for gap in gaps), default=0) + 1
            gaps += (replace(gap, id=n) for n, gap in enumerate(omitted.holes.gaps(), first))
        return gaps

    def printed(self, sessions: Collection[int]) -> Iterator[Printed]:
        """Yield the lines that plugins of ``sessions`` printed during the events."""
        yield from printed_in(
            self._recording, IncludedRows(until=HIGHEST, kept=self._numbers, sessions=sessions)
        )

    def taps(self) -> Taps:
        """Return the observations of taps about the events."""
        return Taps(self._recording)


MAX_DEPTH = 200
"""Maximum nesting of lists and objects. SQLite accepts 1,000 levels, other programs fewer; an OCI
spec has 15."""

_CUT = "…"
_encode_unicode = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(", ", ": ")
).encode
_encode_ascii = json.JSONEncoder(allow_nan=False, separators=(", ", ": ")).encode


def json_line(value: Plain) -> str:
    """Return one line of ASCII JSON, in the format of `records.to_json`."""
    try:
        text = _encode_ascii(value)
    except (ValueError, RecursionError):
        text = _encode_ascii(make_portable(value))
    else:
        # A valid surrogate pair is escaped like two lone surrogates; `make_portable` preserves it.
        if "\\ud" in text or _may_be_deep(text):
            text = _encode_ascii(make_portable(value))
    return text.replace("\x7f", "\\u007f")


def json_text(value: Plain) -> str:
    """Return JSON with unescaped non-ASCII characters, for people and full-text search."""
    try:
        text = _encode_unicode(value)
        if text.isascii() and not _may_be_deep(text):
            return text
        text.encode()
        if not _may_be_deep(text):
            return text
    except (ValueError, RecursionError):
        pass
    return _encode_unicode(make_portable(value))


def make_portable(value: Plain) -> Plain:
    """Return ``value`` with everything that is not portable JSON replaced.

    A lone surrogate becomes its escape sequence as text, a non-finite number its name as text, and
    a list or object nested too deeply ``…``.
    """
    return _make_portable(value, 0)


def _may_be_deep(text: str) -> bool:
    return text.count("[") + text.count("{") > MAX_DEPTH and _depth(text) > MAX_DEPTH


def _depth(text: str) -> int:
    """Return an upper bound of the nesting in ``text``, which includes brackets in strings."""
    depth = deepest = 0
    for char in text:
        if char in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif char in "]}":
            depth -= 1
    return deepest


def _make_portable(value: Plain, depth: int) -> Plain:
    match value:
        case str():
            return storable(value)
        case float() if not math.isfinite(value):
            return str(value)
        case list() | dict() if depth >= MAX_DEPTH:
            return _CUT
        case list():
            return [_make_portable(item, depth + 1) for item in value]
        case dict():
            return {storable(key): _make_portable(item, depth + 1) for key, item in value.items()}
        case _:
            return value
