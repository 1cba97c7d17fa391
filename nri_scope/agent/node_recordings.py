# SPDX-License-Identifier: Apache-2.0
"""The recordings in the folder of one node, and positions in them, also as text for clients."""

from __future__ import annotations

import fcntl
import os
import re
import stat
import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import time_ns
from typing import Generic, NamedTuple, TypeVar

from nri_scope.entries import Item
from nri_scope.errors import NriScopeError, RecordingError, UsageError
from nri_scope.events import RING_REMOVED, Gap
from nri_scope.filter import TimeSpan
from nri_scope.recording.file.file_errors import error_words
from nri_scope.recording.file.sqlite_text import HIGHEST
from nri_scope.recording.file.writable_file import wal_of, wal_status
from nri_scope.recording.node_files import MAX_RECORDINGS, NAME, SUFFIX
from nri_scope.recording.query.event_times import began_ns, removed_by_ring
from nri_scope.recording.query.lookup import event_range
from nri_scope.recording.reading.reader import Recording

_TIME = "(-?[0-9]{1,19})"
_PART = re.compile(
    rf"([A-Za-z0-9_.-]{{1,128}}):([0-9]{{1,19}}):{_TIME}:{_TIME}(?::{_TIME}:{_TIME})?", re.ASCII
)
_NOW = re.compile(r"@([0-9]{1,19})", re.ASCII)
_LENGTH_MAX = MAX_RECORDINGS * 240

STATE = ".agent"
"""Folder below the recordings for what the agent keeps."""
_NUMBERS_BYTES = 8 << 20
_T = TypeVar("_T")
_SETTLED_NS = 10 * 10**9
"""Time after the last write after which all that was written can be read.

The times of files advance in steps of some milliseconds, and SQLite's readers see what was written
to the write-ahead log only afterwards, when its index is written too.
"""


@dataclass(frozen=True, slots=True)
class NodeRecording:
    """File of a recording, as it was when the folder was listed."""

    name: str
    """File name without `SUFFIX`; it may be part of a cursor."""
    path: Path
    inode: int
    size: int
    """Bytes of the file and its write-ahead log."""
    changed_ns: int
    """Time of the last write to the file or its write-ahead log."""
    is_settled: bool = field(default=False, compare=False)
    """Whether that was so long ago that a reader now sees the same until the next write."""

    @property
    def key(self) -> tuple[str, int]:
        """Name and inode, which tell it from a file that takes its place."""
        return self.name, self.inode

    def is_there(self) -> bool:
        """Return whether the file was neither removed nor replaced."""
        try:
            return self.path.stat().st_ino == self.inode
        except OSError:
            return False


class UnchangedContents(Generic[_T]):
    """Cache of what was read of recordings. Use it in one thread at a time."""

    def __init__(self) -> None:
        self._read: dict[tuple[str, int], tuple[NodeRecording, _T]] = {}
        """By key: the file as it was when it was read."""

    def get(self, file: NodeRecording) -> _T | None:
        """Return what was read, or None if the file may have changed since then."""
        before, contents = self._read.get(file.key, (None, None))
        return contents if before == file else None

    def put(self, file: NodeRecording, contents: _T) -> None:
        """Keep what was read after the file had been listed as ``file``."""
        if file.is_settled:
            self._read[file.key] = file, contents

    def keep(self, files: Iterable[NodeRecording]) -> None:
        """Forget all other files."""
        keys = {file.key for file in files}
        self._read = {key: read for key, read in self._read.items() if key in keys}


class FolderError(NriScopeError):
    """The folder of the recordings cannot be read."""


class RecordingNumbers:
    """Numbers of a folder's recordings, from 0 in the order in which they were first read.

    They are kept in a file, a line each, so that they stay when the agent is replaced or an older
    recording is removed. For any number of threads, and agents.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._known: dict[str, int] = {}

    def of(self, name: str, began_ns: int) -> int:
        """Return the number of a recording. If the file cannot be used, it is valid until the end
        of the process.
        """
        line = f"{name} {began_ns}"
        with self._lock:
            if line not in self._known:
                with suppress(OSError):
                    self._read_and_add(line)
                self._known.setdefault(line, len(self._known))
            return self._known[line]

    def _read_and_add(self, line: str) -> None:
        self._path.parent.mkdir(mode=0o700, exist_ok=True)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with os.fdopen(os.open(self._path, flags, 0o600), "r+b", 0) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_size > _NUMBERS_BYTES:
                return
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            lines = file.read(_NUMBERS_BYTES).decode("ascii", "replace").split("\n")
            # The rest of an interrupted write is a line, too.
            end = lines.pop()
            known = {text: number for number, text in enumerate([*lines, end] if end else lines)}
            if line not in known:
                file.write(("\n" * bool(end) + line + "\n").encode())
                known[line] = len(lines) + bool(end)
        self._known = known


class NodeRecordings:
    """A folder of recordings, for any number of threads."""

    def __init__(self, folder: Path) -> None:
        """Check that the folder exists. Raises UsageError."""
        if not folder.is_dir():
            raise UsageError(f"{folder}: no such folder", "name the folder of the recordings")
        self.folder = folder
        self.numbers = RecordingNumbers(folder / STATE / "numbers")
        self._lock = threading.Lock()
        self._begun: dict[tuple[str, int], int] = {}
        """By key: the time of the first session in ns."""
        self._not_begun: dict[str, NodeRecording] = {}
        """By name: recordings without a session or that cannot be read, as they were then."""
        self._left_out: dict[tuple[str, int], int] = {}
        """By key, `NodeRecording.changed_ns` of the recordings that are not served."""

    def all(self) -> list[NodeRecording]:
        """Return the recordings, oldest first. Raises FolderError.

        Links and files with other names are left out, and all but the `MAX_RECORDINGS` that were
        written to last. One that was left out stays so until it is written to.
        """
        files: list[NodeRecording] = []
        settled_ns = time_ns() - _SETTLED_NS
        try:
            with os.scandir(self.folder) as entries:
                for entry in entries:
                    name = entry.name.removesuffix(SUFFIX)
                    if name == entry.name or not NAME.fullmatch(name):
                        continue
                    if entry.is_file(follow_symlinks=False):
                        try:
                            status = entry.stat(follow_symlinks=False)
                        except FileNotFoundError:
                            continue
                        path = self.folder / entry.name
                        log_size, log_ns = wal_status(wal_of(path))
                        changed_ns = max(status.st_mtime_ns, log_ns)
                        size = status.st_size + log_size
                        settled = changed_ns < settled_ns
                        files.append(
                            NodeRecording(name, path, status.st_ino, size, changed_ns, settled)
                        )
        except OSError as error:
            raise FolderError(f"{self.folder}: cannot be read: {error_words(error)}") from error
        with self._lock:
            served = [file for file in files if file.changed_ns != self._left_out.get(file.key)]
            served.sort(key=lambda file: (file.changed_ns, file.name))
            served = served[-MAX_RECORDINGS:]
            keys = {file.key for file in served}
            self._left_out = {file.key: file.changed_ns for file in files if file.key not in keys}
            self._begun = {key: at_ns for key, at_ns in self._begun.items() if key in keys}
            names = {file.name for file in served}
            not_begun = self._not_begun.items()
            self._not_begun = {name: file for name, file in not_begun if name in names}
            served.sort(key=self._order)
        return served

    def is_left_out(self, name: str) -> bool:
        """Return whether `all` left out a recording, as others were written to later."""
        with self._lock:
            return any(name == left_out for left_out, _ in self._left_out)

    def _order(self, file: NodeRecording) -> tuple[int, str]:
        began_ns = self._begun.get(file.key)
        if began_ns is None and self._not_begun.get(file.name) != file:
            began_ns = _first_session_ns(file.path)
            if began_ns is None and file.is_settled:
                self._not_begun[file.name] = file
            elif began_ns is not None:
                self._begun[file.key] = began_ns
        return file.changed_ns if began_ns is None else began_ns, file.name


def _first_session_ns(path: Path) -> int | None:
    try:
        with Recording.open(path) as recording:
            sessions = recording.sessions()
    except RecordingError:
        return None
    return sessions[0].started_ns if sessions else None


class Position(NamedTuple):
    """Place in one recording: after an event."""

    event: int = 0
    """Number of the event; 0 before the first one."""
    at_ns: int = 0
    """Time of the event, or of an earlier event if the recorder's ring removed it."""
    began_ns: int = 0
    """`began_ns` of the recording."""
    span: TimeSpan | None = None
    """Times on which the times of the query depend; None if the query has none."""

    def reached(self, event: int, at_ns: int) -> Position:
        """Return the later of this position and the one after an event; ``at_ns`` 0: unknown."""
        if event <= self.event:
            return self
        return self._replace(event=event, at_ns=at_ns or self.at_ns)


@dataclass(frozen=True, slots=True)
class Cursor:
    """Positions in all recordings, by name."""

    positions: dict[str, Position] = field(default_factory=dict[str, Position])
    now_ns: int = 0
    """Time of the first call, on which the times of the query depend; 0 if it has none."""


def format_cursor(cursor: Cursor) -> str:
    """Return a cursor as text."""
    parts = [f"@{cursor.now_ns}"] if cursor.now_ns else []
    for name, (event, at_ns, first_ns, span) in cursor.positions.items():
        times = "" if span is None else f":{span.first_ns}:{span.last_ns}"
        parts.append(f"{name}:{event}:{at_ns}:{first_ns}{times}")
    return ",".join(parts)


def parse_cursor(text: str) -> Cursor:
    """Parse the text of `format_cursor`. Raises UsageError."""
    problem = UsageError("after: not a cursor", "use the cursor of a response")
    if len(text) > _LENGTH_MAX:
        raise problem
    parts = text.split(",") if text else []
    now = _NOW.fullmatch(parts[0]) if parts else None
    now_ns = _number(now[1], problem) if now else 0
    positions: dict[str, Position] = {}
    for part in parts[1 if now else 0 :]:
        match = _PART.fullmatch(part)
        if match is None or match[1] in positions:
            raise problem
        event, at_ns, first_ns = (_number(text, problem) for text in match.group(2, 3, 4))
        span = None
        if match[5] is not None:
            span = TimeSpan(_number(match[5], problem), _number(match[6], problem))
        positions[match[1]] = Position(event, at_ns, first_ns, span)
    return Cursor(positions, now_ns)


def _number(text: str, problem: UsageError) -> int:
    number = int(text)
    if abs(number) > HIGHEST:
        raise problem
    return number


# -- positions in a recording -------------------------------------------------------------------


def is_replaced(path: Path, position: Position) -> bool:
    """Return whether a position belongs to another recording, which had the same path."""
    try:
        with Recording.open(path) as recording:
            first_ns = began_ns(recording)
            newest = newest_position(recording).event
            at_ns = time_of_event(recording, position.event)
    except RecordingError:
        return False
    if at_ns:
        return at_ns != position.at_ns
    # Nothing was read yet, or the ring has removed the event.
    return newest < position.event or (position.began_ns or first_ns) != first_ns


def is_of_ring(item: Item) -> bool:
    """Return whether an item is the gap for everything that the recorder's ring removed."""
    return isinstance(item, Gap) and item.reason == RING_REMOVED


def newest_position(recording: Recording) -> Position:
    """Return the position after everything in a recording."""
    _, newest = event_range(recording)
    if not newest:
        return newest_removed(recording)
    return Position(newest, time_of_event(recording, newest))


def newest_removed(recording: Recording) -> Position:
    """Return the position after the newest event that the recorder's ring removed."""
    lost, at_ns = removed_by_ring(recording)
    return Position(lost, at_ns)


def time_of_event(recording: Recording, number: int) -> int:
    """Return the time of an event; 0 if there is none."""
    event = recording.event(number) if number else None
    return 0 if event is None else event.at_ns
