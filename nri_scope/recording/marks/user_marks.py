# SPDX-License-Identifier: Apache-2.0
"""Marks and comments of a user, stored beside the recording."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import cast

from nri_scope.errors import RecordingError
from nri_scope.events import MAX_COMMENT, MAX_MARKS, Event, MarkKey, UserMark
from nri_scope.filter import Filter, parse
from nri_scope.filter.text_comparison import fold

from ..file.file_errors import error_words
from ..reading.reader import Recording
from . import sidecar
from .sidecar import merged

LOST = "marks are lost when you leave"


class UserMarks:
    """Marks of one recording. Call `load` and `save`, which do I/O, in a thread."""

    def __init__(self, recording: Path, *, is_temporary: bool = False) -> None:
        """Create it. ``is_temporary``: the recording is removed at the end; nothing is stored."""
        self.path = sidecar.path_of(recording)
        """Path of the file beside the recording."""
        self.notice = ""
        """Problem with storing marks, in one line; "" if none."""
        self.is_kept = not is_temporary
        """Whether the last attempt stored all marks."""
        self._recording = recording
        self._is_temporary = is_temporary
        self._marks: dict[MarkKey, UserMark] = {}
        self._changed: dict[MarkKey, UserMark] = {}
        """Marks that are not stored yet."""
        self._inside: set[MarkKey] = set()
        """Keys of the marks in the recording, if known."""
        self._newest_ns = 0
        self._lock = threading.Lock()
        """Guards the marks in memory."""
        self._file = threading.Lock()
        """Guards the files: every writer must have read all earlier changes."""

    # -- marks --------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._marks)

    def all(self) -> list[UserMark]:
        """Return all marks, ordered by event."""
        return sorted(self._marks.values())

    def only(self) -> int | None:
        """Return the number of the only marked event; None if there are none or several."""
        return self.all()[0].event if len(self) == 1 else None

    def of(self, event: Event | None) -> UserMark | None:
        """Return the mark of an event; None if it has none."""
        return None if event is None else self._marks.get((event.id, event.at_ns))

    def has(self, event: Event | None) -> bool:
        """Return whether an event is marked."""
        return self.of(event) is not None

    def comment_of(self, event: Event | None) -> str:
        """Return the comment on an event; "" if none."""
        mark = self.of(event)
        return mark.comment if mark is not None else ""

    def commented(self, text: str) -> list[int]:
        """Return the numbers of the events with ``text`` in their comment, ignoring case."""
        needle = fold(text)
        return [mark.event for mark in self.all() if needle in fold(mark.comment)]

    def toggle(self, event: Event) -> bool:
        """Mark an event, or remove its mark and comment; return whether it is marked now."""
        if self.of(event) is not None:
            self._set(UserMark(event.id, event.at_ns, gone=True))
            return False
        return self.comment(event, "")

    def comment(self, event: Event, text: str) -> bool:
        """Mark an event, with a comment or ""; return False if there are too many marks."""
        if self.of(event) is None and len(self._marks) >= MAX_MARKS:
            return False
        self._set(UserMark(event.id, event.at_ns, text[:MAX_COMMENT]))
        return True

    def clear(self) -> None:
        """Remove all marks and comments."""
        for mark in self.all():
            self._set(replace(mark, comment="", gone=True))

    def filter(self, where: Filter | None = None) -> Filter:
        """Return a filter for the currently marked events that also pass ``where``, if given."""
        return _Marked(self.all(), where)

    def _set(self, mark: UserMark) -> None:
        with self._lock:
            previous = self._marks.get(mark.key)
            # Even if the clock was set back, a change must be newer than the mark it replaces.
            before = max(self._newest_ns, previous.made_ns if previous is not None else 0)
            self._newest_ns = max(time.time_ns(), before + 1)
            mark = self._changed[mark.key] = replace(mark, made_ns=self._newest_ns)
            self._apply(mark)

    def _apply(self, mark: UserMark) -> None:
        if mark.gone:
            self._marks.pop(mark.key, None)
        else:
            self._marks[mark.key] = mark

    # -- storage ------------------------------------------------------------------------------

    def load(self) -> None:
        """Read the stored marks; set ``notice`` if they cannot be read."""
        if self._is_temporary:
            return
        with self._file:
            pending: dict[MarkKey, UserMark] = {}
            stored: Sequence[UserMark] = ()
            notice = damage = ""
            try:
                pending = sidecar.read(self.path)
            except sidecar.Unusable as error:
                notice = str(error)
            # The views report errors of the recording itself.
            with suppress(RecordingError), Recording.open(self._recording) as recording:
                try:
                    stored = sidecar.marks_in(recording)
                except RecordingError as error:
                    damage = f"the marks in the recording cannot be read: {error.problem}"
            with self._lock:
                self._inside = {mark.key for mark in stored}
                self._marks = merged(stored, pending.values())
                for mark in self._changed.values():
                    self._apply(mark)
        self.is_kept = not notice
        self.notice = damage or (notice and f"{notice}; it is left unchanged, and {LOST}")

    def save(self) -> None:
        """Store the changes, merged with concurrent changes of other processes."""
        if self._is_temporary:
            return
        with self._file:
            self._save()

    def where_kept(self) -> str:
        """Return a phrase for where a new mark will be stored, without waiting for locks."""
        if self._is_temporary:
            return "lost when you leave: this recording is temporary"
        if self.is_kept and os.access(self.path.parent, os.W_OK | os.X_OK):
            return "kept beside the recording"
        return "lost when you leave: they cannot be stored beside this recording"

    def _save(self) -> None:
        with self._lock:
            changed = dict(self._changed)
        if not changed:
            return
        self.notice, self.is_kept = "", True
        try:
            with sidecar.locked(self.path):
                self._save_beside(changed)
        except sidecar.Unusable as error:
            self.notice, self.is_kept = f"{error}; it is left unchanged, and {LOST}", False
        except OSError as error:
            self.notice, self.is_kept = f"{LOST}: {self.path}: {error_words(error)}", False
        if self.is_kept:
            with self._lock:
                for key, mark in changed.items():
                    if self._changed.get(key) == mark:
                        del self._changed[key]

    def _save_beside(self, changed: Mapping[MarkKey, UserMark]) -> None:
        """Save changed marks beside the recording. Raises Unusable and OSError."""
        stored = sidecar.read(self.path)
        marks = dict(stored)
        for key, mark in changed.items():
            previous = marks.get(key)
            if previous is not None and previous.made_ns > mark.made_ns:
                continue
            if mark.gone and key not in self._inside:
                marks.pop(key, None)
            else:
                marks[key] = mark
        if marks != stored:
            sidecar.write(self.path, marks.values())


class _Marked(Filter):
    """Filter for a set of events. It has no form in the filter language."""

    def __init__(self, marks: Sequence[UserMark], where: Filter | None) -> None:
        super().__init__("(marked events)", (where or parse("")).root)
        object.__setattr__(self, "keys", frozenset(mark.key for mark in marks))

    def matches(self, event: Event) -> bool:
        return (event.id, event.at_ns) in self._keys and super().matches(event)

    def to_sql(self) -> tuple[str, list[str | int]]:
        condition, values = super().to_sql()
        # Ids and times are compared separately, so that SQLite can look up ids by index. A false
        # match would need a marked event's id with another marked event's time.
        numbers, times = ({key[index] for key in self._keys} for index in (0, 1))
        marked = f"id IN ({_listed(numbers)}) AND at_ns IN ({_listed(times)})"
        return f"{marked} AND ({condition})", values

    @property
    def _keys(self) -> frozenset[MarkKey]:
        return cast("frozenset[MarkKey]", self.__dict__["keys"])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Marked) and other._keys == self._keys and other.root == self.root

    def __hash__(self) -> int:
        return hash((self._keys, self.root))

    def __str__(self) -> str:
        return self.text


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))
