# SPDX-License-Identifier: Apache-2.0
"""Search all written data for values that should have been replaced.

The replaced values are known exactly, so the search does not depend on how they may have reached
the output: it covers the text of every table, every unpacked message, and every byte of the files,
including unused pages.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path

from nri_scope.errors import RedactionLeak
from nri_scope.events import KILLED, LEFT_OUT, RING_REMOVED, Role
from nri_scope.recorder.transactions import DELETED
from nri_scope.recording.reader import Recording
from nri_scope.recording.rows import Row, number_of
from nri_scope.recording.schema import TABLES, statements
from nri_scope.recording.sqlite_errors import sound

from ..extract.wire_names import NRI_NAMES
from ..redaction import Original
from .leak_search import Found, Needles

_TOGETHER = 1 << 20
_WINDOW = 8 << 20
_PAGE = 1_000
_OBJECT = "object "
# Not valid in any text, so that no value is found across two places.
_BETWEEN = b"\xff\xfe\xff\xfe"

_REASONS = frozenset((LEFT_OUT, RING_REMOVED, DELETED, KILLED))
_OWN: dict[str, Collection[str]] = {
    "name.text": NRI_NAMES,
    "session.role": frozenset(Role),
    "session.end_reason": _REASONS,
    "gap.reason": _REASONS,
}
"""Columns with fixed texts that recorders write, and these texts. In other columns, the same texts
count as values."""


class Scan:
    """Searches for originals. Raises RedactionLeak for ``target``, RecordingError and OSError.

    ``ours`` is text that every output contains, independent of the recording: a value that is a
    part of this text (a variable may be ``CREATE TABLE``) is searched for in other places only. The
    same applies to ``words``, which is called when such a value is found and returns the text that
    a format itself writes.
    """

    def __init__(
        self,
        originals: Iterable[Original],
        target: Path,
        ours: bytes = b"",
        words: Callable[[], bytes] = bytes,
    ) -> None:
        self._needles = Needles(originals)
        own = [*statements(), "SQLite format 3", *NRI_NAMES, *Role, *_REASONS]
        self._few = self._needles.without(ours + _BETWEEN + "\n".join(own).encode())
        self._target = target
        self._words = words

    def recording(self, path: Path) -> None:
        """Search every table, every message and every byte of a recording."""
        with Recording.open(path) as recording, sound(recording):
            self._pieces(self._needles, _texts(recording))
            try:
                self._pieces(self._needles, _contents(recording))
            except RedactionLeak as leak:
                place = _explained(recording, leak.place)
                raise RedactionLeak(leak.path, leak.rule, place) from None
        self.file(path, "the recording's file, outside of its tables")

    def file(self, path: Path, place: str) -> None:
        """Search every byte of a file."""
        keep = max(self._few.longest - 1, 0)
        with path.open("rb") as file:
            data = b""
            while piece := file.read(_WINDOW):
                data = data[max(len(data) - keep, 0) :] + piece
                self.text(data, place)

    def text(self, content: bytes, place: str) -> None:
        """Search a text."""
        while (found := self._few.find(content)) is not None:
            if found.form not in self._words():
                raise RedactionLeak(self._target, found.original.rule, place)
            self._few = self._few.without(found.form)

    def name(self, name: str) -> None:
        """Search the file name that the user chose."""
        try:
            self.text(name.encode("utf-8", "surrogateescape"), "the file's name")
        except RedactionLeak as leak:
            raise RedactionLeak(leak.path, leak.rule, leak.place, "choose another name") from None

    def _pieces(self, needles: Needles, pieces: Iterator[tuple[str, bytes]]) -> None:
        """Search many small pieces in groups."""
        if not len(needles):
            return
        waiting: list[tuple[str, bytes]] = []
        size = 0
        for place, content in pieces:
            waiting.append((place, content))
            size += len(content)
            if size >= _TOGETHER:
                self._together(needles, waiting)
                waiting, size = [], 0
        self._together(needles, waiting)

    def _together(self, needles: Needles, pieces: list[tuple[str, bytes]]) -> None:
        found: Found | None = needles.find(_BETWEEN.join(content for _, content in pieces))
        if found is None:
            return
        starts = [0]
        for _, content in pieces:
            starts.append(starts[-1] + len(content) + len(_BETWEEN))
        place, _ = pieces[bisect_right(starts, found.start) - 1]
        raise RedactionLeak(self._target, found.original.rule, place)


def _texts(recording: Recording) -> Iterator[tuple[str, bytes]]:
    """Yield every text of every table, with its place."""
    for table in TABLES:
        texts = [column.name for column in table.columns if column.type.startswith("TEXT")]
        if not texts:
            continue
        key = table.columns[0].name
        for row in _rows(recording, f"SELECT {key}, {', '.join(texts)} FROM {table.name}", key):
            for column, value in zip(texts, row[1:], strict=True):
                place = f"{table.name}.{column}"
                if isinstance(value, str) and value not in _OWN.get(place, ()):
                    yield f"{place}, row {row[0]}", _bytes(value)


def _contents(recording: Recording) -> Iterator[tuple[str, bytes]]:
    """Yield every object's content."""
    for (number,) in _rows(recording, "SELECT id FROM object", "id"):
        yield f"{_OBJECT}{number}", recording.stored(number_of((number,)))


def _explained(recording: Recording, place: str) -> str:
    """Return a place, and for an object, the first event that refers to it."""
    if not place.startswith(_OBJECT):
        return place
    number = int(place.removeprefix(_OBJECT))
    rows = recording.rows(
        "SELECT min(id) FROM event WHERE ? IN (pod_object, container_object, request, reply)",
        [number],
    )
    return f"{place} (event {rows[0][0]})" if rows[0][0] is not None else place


def _rows(recording: Recording, query: str, key: str) -> Iterator[Row]:
    after = 0
    while True:
        page = recording.rows(f"{query} WHERE {key} > ? ORDER BY {key} LIMIT ?", [after, _PAGE])
        yield from page
        if len(page) < _PAGE:
            return
        after = number_of(page[-1][:1])


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
