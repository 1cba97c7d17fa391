# SPDX-License-Identifier: Apache-2.0
"""Search all written data for words that should have been replaced.

Redaction replaces what is not known to be harmless, so an unknown word that was replaced in one
place must not stand in another, unless as a name or key. The search covers the text of every table,
every decompressed message, and every byte of the files: it finds columns and fields that redaction
forgot. In unused pages, where a text may touch the next one, it may miss a word.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path

from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from nri_scope.errors import RedactionLeak
from nri_scope.events import KILLED, LEFT_OUT, REDACTED, RING_REMOVED, Role
from nri_scope.recorder.transactions import DELETED
from nri_scope.recording.file.schema import TABLES, statements
from nri_scope.recording.reading.reader import Recording
from nri_scope.recording.reading.rows import Row, number_of
from nri_scope.recording.reading.sqlite_errors import recording_errors

from ..redacted_entries import NRI_NAMES

_MAX_NESTING = 12
_RUN = re.compile(rb"[0-9A-Za-z\x80-\xff]{6,}")
"""Letters and digits. In messages and files, a byte beside a text may look like one of them."""
_WORD = re.compile(r"[^\W_]{6,}")

READ_BYTES, OVERLAP_BYTES = 8 << 20, 1 << 10
"""Size of the pieces of a file that are scanned, and of the end of each that is scanned twice."""
_PAGE_ROWS = 1_000
_OBJECT_PREFIX = "object "
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
    """Scan of an output for words. Raises RedactionLeak, RecordingError and OSError.

    ``words``: what must not be found, with the rule that replaced it. ``target`` is the path named
    in a RedactionLeak. ``own_text``: returns text that the output contains whatever the recording;
    its words are only searched for in tables and messages. ``go_on`` is called regularly.
    """

    def __init__(
        self,
        words: Mapping[str, str],
        target: Path,
        own_text: Callable[[], bytes] = bytes,
        go_on: Callable[[], None] | None = None,
    ) -> None:
        self._rules = {word.encode("utf-8", "surrogatepass"): rule for word, rule in words.items()}
        self._target = target
        self._own_text = own_text
        self._own: frozenset[bytes] | None = None
        self._go_on = go_on

    def recording(self, path: Path) -> None:
        """Search every table, every message and every byte of a recording."""
        with Recording.open(path) as recording, recording_errors(recording):
            for place, content in recorded_texts(recording):
                self._check(place, self._find(content))
            for place, content in recorded_contents(recording):
                for text in _strings(content):
                    if (word := self._find(text)) is not None:
                        self._check(_with_event(recording, place), word)
        self.file(path, "the recording's file, outside of its tables")

    def file(self, path: Path, place: str) -> None:
        """Search every byte of a file."""
        with path.open("rb") as file:
            rest = b""
            while piece := file.read(READ_BYTES):
                self.text(rest + piece, place)
                rest = piece[-OVERLAP_BYTES:]

    def text(self, content: bytes, place: str) -> None:
        """Search a text."""
        found = self._find(content)
        if found is not None and self._own is None:
            statement = "\n".join((*statements(), "SQLite format 3", *NRI_NAMES, *_REASONS))
            self._own = frozenset(_RUN.findall(self._own_text() + b"\n" + statement.encode()))
            found = self._find(content)
        self._check(place, found)

    def name(self, name: str) -> None:
        """Search the name of the output file."""
        try:
            self.text(name.encode("utf-8", "surrogateescape"), "the file's name")
        except RedactionLeak as leak:
            raise RedactionLeak(leak.path, leak.rule, leak.place, "choose another name") from None

    def _find(self, content: bytes) -> bytes | None:
        if self._go_on is not None:
            self._go_on()
        rules, own = self._rules, self._own or ()
        runs: list[bytes] = _RUN.findall(content) if rules else []
        for run in runs:
            # Also without quotes and dashes of Unicode.
            more = () if run.isascii() else _WORD.findall(run.decode(errors="ignore"))
            for one in (run, *map(_bytes, more)):
                for word in (one, one[1:], one[:-1], one[1:-1]):
                    if word in rules and word not in own:
                        return word
        return None

    def _check(self, place: str, word: bytes | None) -> None:
        if word is not None:
            raise RedactionLeak(self._target, self._rules[word], place)


def recorded_texts(recording: Recording) -> Iterator[tuple[str, bytes]]:
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


def recorded_contents(recording: Recording) -> Iterator[tuple[str, bytes]]:
    """Yield the content of every object."""
    for (number,) in _rows(recording, "SELECT id FROM object", "id"):
        yield f"{_OBJECT_PREFIX}{number}", recording.object_content(number_of((number,)))


def _strings(content: bytes, level: int = 0) -> Iterator[bytes]:
    """Yield the bytes of all fields of a message and of the messages in it, or other content."""
    try:
        fields = UnknownFieldSet(Empty.FromString(content))
    except DecodeError:
        if not level:
            yield content
        return
    for number in range(len(fields)):
        data = fields[number].data
        if isinstance(data, bytes) and len(data) > 5:
            yield data
            if level < _MAX_NESTING:
                yield from _strings(data, level + 1)


def _with_event(recording: Recording, place: str) -> str:
    """Return ``place``, which is an object, with the first event that refers to it."""
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
