# SPDX-License-Identifier: Apache-2.0
"""Search all written data for values that should have been replaced.

The replaced values are known exactly, so the search needs no assumption about where they may occur:
it covers the text of every table, every decompressed message, and every byte of the files,
including unused pages.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import re2

from nri_scope.errors import RedactionLeak
from nri_scope.events import KILLED, LEFT_OUT, REDACTED, RING_REMOVED, Role
from nri_scope.recorder.transactions import DELETED
from nri_scope.recording.reader import Recording
from nri_scope.recording.rows import Row, number_of
from nri_scope.recording.schema import TABLES, statements
from nri_scope.recording.sqlite_errors import recording_errors

from ..redacted_entries import NRI_NAMES
from ..redaction import Original
from ..redaction.value_encodings import forms

_PATTERN_VALUES = 256
"""Maximum number of values per pattern. Larger patterns take longer per byte; smaller ones require
more passes."""
_LONG_BYTES = 300
"""Minimum length in bytes of a value that is searched for individually, to keep patterns small."""
MANY, MANY_LONG = 8_192, 256
"""With at least this many forms, or long forms, all are searched for by their first bytes. That
takes 0.1 s per MiB for any number of forms. Patterns are faster for a few forms, and take 10 kB of
memory per form."""
_PREFIX_BYTES = 6
"""Number of first bytes in the index; no searchable original is shorter."""


class Found(NamedTuple):
    """A value that was found."""

    original: Original
    start: int
    form: bytes
    """The encoding of the value that was found."""


class Needles:
    """Originals to search for: verbatim, encoded for JSON or URLs, in hexadecimal and base64."""

    def __init__(self, originals: Iterable[Original]) -> None:
        self._originals: dict[bytes, Original] = {}
        for original in originals:
            if original.is_searchable:
                for form in forms(original.value):
                    self._originals.setdefault(form, original)
        self._patterns: list[re2._Regexp[bytes]] | None = None
        self._are_many: bool | None = None
        self._by_prefix: dict[bytes, list[bytes]] = {}
        self._longest: dict[bytes, int] = {}
        self._prefix_size = 0

    def __len__(self) -> int:
        return len(self._originals)

    @property
    def longest(self) -> int:
        """Length of the longest form in bytes; 0 if there are no forms."""
        return max(map(len, self._originals), default=0)

    def without(self, text: bytes) -> Needles:
        """Return the forms that do not occur in ``text``."""
        fewer = Needles(())
        fewer._originals = {
            form: original for form, original in self._originals.items() if form not in text
        }
        return fewer

    def find(self, data: bytes) -> Found | None:
        """Return a value that occurs in ``data``, or None."""
        if self._are_many is None:
            long = sum(len(form) >= _LONG_BYTES for form in self._originals)
            self._are_many = len(self._originals) >= MANY or long >= MANY_LONG
        if self._are_many:
            return self._find_by_prefix(data)
        for search in self._searches():
            found = search(data)
            if found is not None:
                return found
        return None

    def _find_by_prefix(self, data: bytes) -> Found | None:
        index = self._by_prefix
        if not index:
            self._prefix_size = min(_PREFIX_BYTES, min(map(len, self._originals), default=0))
            for form in sorted(self._originals):
                same_prefix = index.setdefault(form[: self._prefix_size], [])
                # A match of a shorter form makes forms that begin with it redundant.
                if not same_prefix or not form.startswith(same_prefix[-1]):
                    same_prefix.append(form)
            self._longest = {prefix: max(map(len, group)) for prefix, group in index.items()}
        size = self._prefix_size
        starts = (at for at in range(len(data) - size + 1) if data[at : at + size] in index)
        for at in starts:
            prefix = data[at : at + size]
            # No form is a prefix of another one, so only the last form that sorts before the text
            # or equals it can be a prefix of the text.
            text = data[at : at + self._longest[prefix]]
            place = bisect_right(index[prefix], text)
            if place and text.startswith(form := index[prefix][place - 1]):
                return Found(self._originals[form], at, form)
        return None

    def _searches(self) -> Iterator[Callable[[bytes], Found | None]]:
        if self._patterns is None:
            # Sorted: forms with a common prefix share a pattern, which keeps patterns small.
            short = sorted(form for form in self._originals if len(form) < _LONG_BYTES)
            self._patterns = [
                _compile(short[start : start + _PATTERN_VALUES])
                for start in range(0, len(short), _PATTERN_VALUES)
            ]
        for pattern in self._patterns:
            yield lambda data, pattern=pattern: self._match(pattern, data)  # type: ignore[misc]
        for form in self._originals:
            if len(form) >= _LONG_BYTES:
                yield lambda data, form=form: self._find_verbatim(form, data)  # type: ignore[misc]

    def _match(self, pattern: re2._Regexp[bytes], data: bytes) -> Found | None:
        match = pattern.search(data)
        if match is None:
            return None
        form = match[0] or b""
        return Found(self._originals[form], match.start(), form)

    def _find_verbatim(self, form: bytes, data: bytes) -> Found | None:
        at = data.find(form)
        return None if at < 0 else Found(self._originals[form], at, form)


def _compile(values: list[bytes]) -> re2._Regexp[bytes]:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 64 << 20
    # Compare bytes, not UTF-8.
    options.encoding = re2.Options.Encoding.LATIN1
    return re2.compile(b"|".join(map(_escape, values)), options)


def _escape(value: bytes) -> bytes:
    return b"".join(
        bytes([byte]) if bytes([byte]).isalnum() else b"\\x%02x" % byte for byte in value
    )


_BATCH_BYTES = 1 << 20
_READ_BYTES = 8 << 20
_PAGE_ROWS = 1_000
_OBJECT_PREFIX = "object "
# Invalid UTF-8, so that no value matches across two places.
_SEPARATOR = b"\xff\xfe\xff\xfe"

_REASONS = frozenset((LEFT_OUT, RING_REMOVED, DELETED, KILLED))
_FIXED_TEXTS: dict[str, Collection[str]] = {
    "name.text": NRI_NAMES,
    "session.role": frozenset(Role),
    "session.end_reason": _REASONS,
    "gap.reason": _REASONS,
    "note.text": (REDACTED,),
}
"""Fixed texts that recorders write, by column. They are only exempt from the search there."""


class Scan:
    """Scan of an output for originals. Raises RedactionLeak, RecordingError and OSError.

    ``target`` is the path named in a RedactionLeak. ``fixed_text`` is text that every output
    contains, whatever the recording: a value that is a part of it, such as ``CREATE TABLE``, is
    only searched for in tables and messages. The same applies to the text that a format itself
    writes, which ``words`` returns; it is called only if a value is found. ``go_on`` is called
    regularly.
    """

    def __init__(
        self,
        originals: Iterable[Original],
        target: Path,
        fixed_text: bytes = b"",
        words: Callable[[], bytes] = bytes,
        go_on: Callable[[], None] | None = None,
    ) -> None:
        self._needles = Needles(originals)
        fixed = [*statements(), "SQLite format 3", *NRI_NAMES, *Role, *_REASONS, REDACTED]
        self._outside_fixed_text = self._needles.without(
            fixed_text + _SEPARATOR + "\n".join(fixed).encode()
        )
        self._target = target
        self._words = words
        self._go_on = go_on

    def recording(self, path: Path) -> None:
        """Search every table, every message and every byte of a recording."""
        with Recording.open(path) as recording, recording_errors(recording):
            self._pieces(self._needles, _texts(recording))
            try:
                self._pieces(self._needles, _contents(recording))
            except RedactionLeak as leak:
                place = _with_event(recording, leak.place)
                raise RedactionLeak(leak.path, leak.rule, place) from None
        self.file(path, "the recording's file, outside of its tables")

    def file(self, path: Path, place: str) -> None:
        """Search every byte of a file."""
        keep = max(self._outside_fixed_text.longest - 1, 0)
        with path.open("rb") as file:
            data = b""
            while piece := file.read(_READ_BYTES):
                data = data[max(len(data) - keep, 0) :] + piece
                self.text(data, place)

    def text(self, content: bytes, place: str) -> None:
        """Search a text."""
        if self._go_on is not None:
            self._go_on()
        while (found := self._outside_fixed_text.find(content)) is not None:
            if found.form not in self._words():
                raise RedactionLeak(self._target, found.original.rule, place)
            self._outside_fixed_text = self._outside_fixed_text.without(found.form)

    def name(self, name: str) -> None:
        """Search the name of the output file."""
        try:
            self.text(name.encode("utf-8", "surrogateescape"), "the file's name")
        except RedactionLeak as leak:
            raise RedactionLeak(leak.path, leak.rule, leak.place, "choose another name") from None

    def _pieces(self, needles: Needles, pieces: Iterator[tuple[str, bytes]]) -> None:
        """Search many small pieces in groups."""
        if not len(needles):
            return
        batch: list[tuple[str, bytes]] = []
        size = 0
        for place, content in pieces:
            batch.append((place, content))
            size += len(content)
            if size >= _BATCH_BYTES:
                self._batch(needles, batch)
                batch, size = [], 0
        self._batch(needles, batch)

    def _batch(self, needles: Needles, pieces: list[tuple[str, bytes]]) -> None:
        if self._go_on is not None:
            self._go_on()
        found: Found | None = needles.find(_SEPARATOR.join(content for _, content in pieces))
        if found is None:
            return
        starts = [0]
        for _, content in pieces:
            starts.append(starts[-1] + len(content) + len(_SEPARATOR))
        place, _ = pieces[bisect_right(starts, found.start) - 1]
        raise RedactionLeak(self._target, found.original.rule, place)


def _texts(recording: Recording) -> Iterator[tuple[str, bytes]]:
    """Yield every text of every table, each with its column and row."""
    for table in TABLES:
        texts = [column.name for column in table.columns if column.type.startswith("TEXT")]
        if not texts:
            continue
        key = table.columns[0].name
        for row in _rows(recording, f"SELECT {key}, {', '.join(texts)} FROM {table.name}", key):
            for column, value in zip(texts, row[1:], strict=True):
                place = f"{table.name}.{column}"
                if isinstance(value, str) and value not in _FIXED_TEXTS.get(place, ()):
                    yield f"{place}, row {row[0]}", _bytes(value)


def _contents(recording: Recording) -> Iterator[tuple[str, bytes]]:
    """Yield the content of every object."""
    for (number,) in _rows(recording, "SELECT id FROM object", "id"):
        yield f"{_OBJECT_PREFIX}{number}", recording.object_content(number_of((number,)))


def _with_event(recording: Recording, place: str) -> str:
    """Return ``place``; for an object, add the first event that refers to it."""
    if not place.startswith(_OBJECT_PREFIX):
        return place
    number = int(place.removeprefix(_OBJECT_PREFIX))
    rows = recording.rows(
        "SELECT min(id) FROM event WHERE ? IN (pod_object, container_object, request, reply)",
        [number],
    )
    return f"{place} (event {rows[0][0]})" if rows[0][0] is not None else place


def _rows(recording: Recording, query: str, key: str) -> Iterator[Row]:
    after = 0
    while True:
        page = recording.rows(
            f"{query} WHERE {key} > ? ORDER BY {key} LIMIT ?", [after, _PAGE_ROWS]
        )
        yield from page
        if len(page) < _PAGE_ROWS:
            return
        after = number_of(page[-1][:1])


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
