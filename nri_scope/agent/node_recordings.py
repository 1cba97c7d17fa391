# SPDX-License-Identifier: Apache-2.0
"""The recordings in the folder of one node."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from time import time_ns
from typing import Generic, TypeVar

from nri_scope.errors import NriScopeError, RecordingError, UsageError
from nri_scope.recording.file_errors import error_words
from nri_scope.recording.node_files import MAX_RECORDINGS, NAME, SUFFIX
from nri_scope.recording.reader import Recording

_T = TypeVar("_T")
_SETTLED_NS = 10 * 10**9
"""Time after the last write after which all that was written can be read.

The times of files advance in steps of some milliseconds, and SQLite's readers see what was written
to the write-ahead log only afterwards, when its index is written too.
"""


@dataclass(frozen=True, slots=True)
class NodeRecording:
    """A recording of the node."""

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

    def is_there(self) -> bool:
        """Return whether the file was neither removed nor replaced."""
        try:
            return self.path.stat().st_ino == self.inode
        except OSError:
            return False


class UnchangedContents(Generic[_T]):
    """What was read of recordings. Use it in one thread at a time."""

    def __init__(self) -> None:
        self._read: dict[tuple[str, int], tuple[NodeRecording, _T]] = {}
        """By name and inode: the file as it was when it was read."""

    def get(self, file: NodeRecording) -> _T | None:
        """Return what was read, or None if the file may have changed since then."""
        before, contents = self._read.get((file.name, file.inode), (None, None))
        return contents if before == file else None

    def put(self, file: NodeRecording, contents: _T) -> None:
        """Keep what was read after the file had been listed as ``file``."""
        if file.is_settled:
            self._read[file.name, file.inode] = file, contents

    def keep(self, files: Iterable[NodeRecording]) -> None:
        """Forget all other files."""
        keys = {(file.name, file.inode) for file in files}
        self._read = {key: one for key, one in self._read.items() if key in keys}


class FolderError(NriScopeError):
    """The folder of the recordings cannot be read."""


class NodeRecordings:
    """A folder of recordings, for any number of threads."""

    def __init__(self, folder: Path) -> None:
        """Check that the folder exists. Raises UsageError."""
        if not folder.is_dir():
            raise UsageError(f"{folder}: no such folder", "name the folder of the recordings")
        self.folder = folder
        self._lock = threading.Lock()
        self._begun: dict[tuple[str, int], int] = {}
        """By name and inode: the time of the first session in ns."""
        self._not_begun: dict[str, NodeRecording] = {}
        """Those without a session, or that cannot be read, as they were then."""
        self._left_out: dict[tuple[str, int], int] = {}
        """By name and inode, those that are not served: `NodeRecording.changed_ns`."""

    def all(self) -> list[NodeRecording]:
        """Return the recordings, oldest first. Raises FolderError.

        Links and files with other names are left out, and all but the `MAX_RECORDINGS` that were
        written to last. One that was left out stays so until it is written to.
        """
        found: list[NodeRecording] = []
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
                        more, log_ns = _log(path.with_name(f"{entry.name}-wal"))
                        changed_ns = max(status.st_mtime_ns, log_ns)
                        size = status.st_size + more
                        settled = changed_ns < settled_ns
                        found.append(
                            NodeRecording(name, path, status.st_ino, size, changed_ns, settled)
                        )
        except OSError as error:
            raise FolderError(f"{self.folder}: cannot be read: {error_words(error)}") from error
        with self._lock:
            served = [
                one for one in found if one.changed_ns != self._left_out.get((one.name, one.inode))
            ]
            served.sort(key=lambda one: (one.changed_ns, one.name))
            served = served[-MAX_RECORDINGS:]
            keys = {(one.name, one.inode) for one in served}
            self._left_out = {
                (one.name, one.inode): one.changed_ns
                for one in found
                if (one.name, one.inode) not in keys
            }
            self._begun = {key: at for key, at in self._begun.items() if key in keys}
            names = {one.name for one in served}
            self._not_begun = {name: at for name, at in self._not_begun.items() if name in names}
            served.sort(key=self._order)
        return served

    def is_left_out(self, name: str) -> bool:
        """Return whether `all` left out a recording, as others were written to later."""
        with self._lock:
            return any(name == left_out for left_out, _ in self._left_out)

    def _order(self, one: NodeRecording) -> tuple[int, str]:
        began_ns = self._begun.get((one.name, one.inode))
        if began_ns is None and self._not_begun.get(one.name) != one:
            began_ns = _first_session_ns(one.path)
            if began_ns is None and one.is_settled:
                self._not_begun[one.name] = one
            elif began_ns is not None:
                self._begun[one.name, one.inode] = began_ns
        return one.changed_ns if began_ns is None else began_ns, one.name


def _first_session_ns(path: Path) -> int | None:
    try:
        with Recording.open(path) as recording:
            sessions = recording.sessions()
    except RecordingError:
        return None
    return sessions[0].started_ns if sessions else None


def _log(path: Path) -> tuple[int, int]:
    """Return the size of a write-ahead log, and the time of the last write to it."""
    try:
        status = path.stat()
    except OSError:
        return 0, 0
    return status.st_size, status.st_mtime_ns
