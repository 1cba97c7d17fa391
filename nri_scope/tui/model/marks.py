# SPDX-License-Identifier: Apache-2.0
"""Marks and comments of a user, kept beside the recording, which is only ever read.

``FILE.marks.json`` holds a list of ``{"event": 42, "at_ns": 1763673480000000000, "comment": ""}``.
The number and the time together name an event: marks of a file that had this name before match
nothing, and stay where they are.
"""

from __future__ import annotations

import json
import os
import stat
import tempfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, cast

from nri_scope.recorder.filter import Filter, parse
from nri_scope.recorder.model import Event
from nri_scope.recorder.plain import Plain

SCHEMA_VERSION = 1
MAX_MARKS = 10_000
MAX_COMMENT = 2_000
"""Characters."""
_MAX_FILE = 8 << 20
"""Bytes of a file that is read: it may come from a stranger, together with the recording."""
_MAX_NUMBER = (1 << 63) - 1


class Mark(NamedTuple):
    """One marked event."""

    event: int
    at_ns: int
    comment: str = ""


_Key = tuple[int, int]


class _Unusable(Exception):
    """Why a file of marks is left as it is."""


class Marks:
    """The marks of one recording. `load` and `save` read and write: for a thread."""

    def __init__(self, recording: Path) -> None:
        self.path = recording.with_name(f"{recording.name}.marks.json")
        self.notice = ""
        """In one line, why marks are kept no longer than the program runs; "" where they are."""
        self._marks: dict[_Key, Mark] = {}
        self._changed: dict[_Key, Mark | None] = {}
        """Since the file was read; None: unmarked."""
        self._lock = threading.Lock()
        """Guards what is known here."""
        self._file = threading.Lock()
        """Guards the file: whoever wrote last must have read what was written before."""

    # -- what is marked -----------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._marks)

    def all(self) -> list[Mark]:
        """In the order of their events."""
        return sorted(self._marks.values())

    def of(self, event: Event | None) -> Mark | None:
        """The mark of an event; None where it has none."""
        return None if event is None else self._marks.get((event.id, event.at_ns))

    def toggle(self, event: Event) -> bool:
        """Mark it, or unmark it, comment and all; returns whether it is marked now."""
        if self.of(event) is not None:
            self._set((event.id, event.at_ns), None)
            return False
        return self.comment(event, "")

    def comment(self, event: Event, text: str) -> bool:
        """Mark it with a comment, which may be empty; False where there are too many marks."""
        key = event.id, event.at_ns
        if key not in self._marks and len(self._marks) >= MAX_MARKS:
            return False
        self._set(key, Mark(event.id, event.at_ns, text[:MAX_COMMENT]))
        return True

    def filter(self, where: Filter | None = None) -> Filter:
        """Lets marked events through, as they are now; of these what ``where`` does."""
        return _Marked(self.all(), where)

    def _set(self, key: _Key, mark: Mark | None) -> None:
        with self._lock:
            self._changed[key] = mark
            self._apply({key: mark})

    def _apply(self, changes: Mapping[_Key, Mark | None]) -> None:
        for key, mark in changes.items():
            if mark is None:
                self._marks.pop(key, None)
            else:
                self._marks[key] = mark

    # -- the file -----------------------------------------------------------------------------

    def load(self) -> None:
        """Read the file, if there is one. What is wrong with it is in ``notice``."""
        with self._file:
            try:
                found = _read(self.path)
            except _Unusable as error:
                self.notice = f"{error}; it is left as it is, and marks are lost when you leave"
                return
            with self._lock:
                self._marks = found
                self._apply(self._changed)
                self.notice = ""

    def save(self) -> None:
        """Write what was changed, beside what others wrote meanwhile."""
        with self._file:
            self._save()

    def _save(self) -> None:
        with self._lock:
            changed = dict(self._changed)
        if not changed:
            return
        try:
            marks = _read(self.path)
            for key, mark in changed.items():
                if mark is None:
                    marks.pop(key, None)
                else:
                    marks[key] = mark
            _write(self.path, sorted(marks.values()))
        except _Unusable as error:
            self.notice = f"{error}; it is left as it is, and marks are lost when you leave"
            return
        except OSError as error:
            self.notice = f"marks are lost when you leave: {self.path}: {_words(error)}"
            return
        with self._lock:
            self.notice = ""
            for key, mark in changed.items():
                if self._changed.get(key) == mark:
                    del self._changed[key]


class _Marked(Filter):
    """A filter that no text can say."""

    def __init__(self, marks: Sequence[Mark], where: Filter | None) -> None:
        super().__init__("(marked events)", parse("" if where is None else where.text).root)
        object.__setattr__(self, "keys", frozenset((mark.event, mark.at_ns) for mark in marks))

    def matches(self, event: Event) -> bool:
        return (event.id, event.at_ns) in self._keys and super().matches(event)

    def to_sql(self) -> tuple[str, list[str | int]]:
        condition, values = super().to_sql()
        # Numbers and times for themselves, as SQLite looks up the first ones by their index. Two
        # events that change them with each other are no marks that anybody made.
        numbers, times = ({key[at] for key in self._keys} for at in (0, 1))
        marked = f"id IN ({_listed(numbers)}) AND at_ns IN ({_listed(times)})"
        return f"{marked} AND ({condition})", values

    @property
    def _keys(self) -> frozenset[_Key]:
        return cast("frozenset[_Key]", self.__dict__["keys"])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Marked) and other._keys == self._keys and other.root == self.root

    def __hash__(self) -> int:
        return hash((self._keys, self.root))

    def __str__(self) -> str:
        return self.text


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))


def _read(path: Path) -> dict[_Key, Mark]:
    """What is in a file; nothing where there is none. Raises _Unusable."""
    try:
        # A link may lead anywhere, and a pipe would be waited for for ever.
        opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise _Unusable(f"{path} cannot be read: {_words(error)}") from error
    try:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            raise _Unusable(f"{path} is no file")
        with os.fdopen(opened, "rb", closefd=False) as file:
            content = file.read(_MAX_FILE + 1)
    except OSError as error:
        raise _Unusable(f"{path} cannot be read: {_words(error)}") from error
    finally:
        os.close(opened)
    if len(content) > _MAX_FILE:
        raise _Unusable(f"{path} is too large for a file of marks")
    try:
        found: Plain = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise _Unusable(f"{path} is damaged: it is no JSON") from error
    return _marks_of(path, found)


def _marks_of(path: Path, found: Plain) -> dict[_Key, Mark]:
    version = found.get("schema_version") if isinstance(found, dict) else None
    if not isinstance(found, dict) or type(version) is not int:
        raise _Unusable(f"{path} is damaged: it holds no marks")
    if version > SCHEMA_VERSION:
        raise _Unusable(f"{path} was written by a newer nri-scope")
    listed = found.get("marks")
    if not isinstance(listed, list) or len(listed) > MAX_MARKS:
        raise _Unusable(f"{path} is damaged: it holds no marks, or too many")
    marks = [_mark_of(path, each) for each in listed]
    return {(mark.event, mark.at_ns): mark for mark in marks}


def _mark_of(path: Path, found: Plain) -> Mark:
    if isinstance(found, dict):
        event, at_ns, comment = (found.get(name, "") for name in Mark._fields)
        if (
            type(event) is int
            and type(at_ns) is int
            and isinstance(comment, str)
            and 0 < event <= _MAX_NUMBER
            and 0 <= at_ns <= _MAX_NUMBER
        ):
            return Mark(event, at_ns, comment[:MAX_COMMENT])
    raise _Unusable(f"{path} is damaged: it holds something else than marks")


def _write(path: Path, marks: Sequence[Mark]) -> None:
    """All or nothing, and for nobody else to read. Raises OSError."""
    record = {"schema_version": SCHEMA_VERSION, "marks": [mark._asdict() for mark in marks]}
    # Only the owner may read what mkstemp makes.
    opened, name = tempfile.mkstemp(prefix=f"{path.name[:100]}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(opened, "w", encoding="ascii") as file:
            json.dump(record, file, indent=1)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise


def _words(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
