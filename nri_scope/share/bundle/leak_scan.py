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

from nri_scope.errors import RedactionLeak
from nri_scope.events import KILLED, LEFT_OUT, REDACTED, RING_REMOVED, Role
from nri_scope.recorder.transactions import DELETED
from nri_scope.recording.reader import Recording
from nri_scope.recording.rows import Row, number_of
from nri_scope.recording.schema import TABLES, statements
from nri_scope.recording.sqlite_errors import recording_errors

from ..extract.wire_names import NRI_NAMES
from ..redaction import Original
from .leak_search import Found, Needles

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
