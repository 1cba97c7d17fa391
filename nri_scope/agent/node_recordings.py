# SPDX-License-Identifier: Apache-2.0
"""The recordings in the folder of one node."""

from __future__ import annotations

import os
import re
import threading
from dataclasses import dataclass
from pathlib import Path

from nri_scope.errors import NriScopeError, RecordingError, UsageError
from nri_scope.recording.file_errors import error_words
from nri_scope.recording.reader import Recording

SUFFIX = ".nriscope.db"
MAX_RECORDINGS = 64
"""Maximum number of recordings that are served, the newest."""
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")


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
    """Time of the last write to the file, but for its write-ahead log."""


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

    def all(self) -> list[NodeRecording]:
        """Return the recordings, oldest first. Raises FolderError.

        Links and files with other names are left out.
        """
        found: list[NodeRecording] = []
        try:
            with os.scandir(self.folder) as entries:
                for entry in entries:
                    name = entry.name.removesuffix(SUFFIX)
                    if name == entry.name or not _NAME.fullmatch(name):
                        continue
                    if entry.is_file(follow_symlinks=False):
                        try:
                            status = entry.stat(follow_symlinks=False)
                        except FileNotFoundError:
                            continue
                        path = self.folder / entry.name
                        size = status.st_size + _size(path.with_name(f"{entry.name}-wal"))
                        found.append(
                            NodeRecording(name, path, status.st_ino, size, status.st_mtime_ns)
                        )
        except OSError as error:
            raise FolderError(f"{self.folder}: cannot be read: {error_words(error)}") from error
        with self._lock:
            known = {(one.name, one.inode) for one in found}
            self._begun = {key: at for key, at in self._begun.items() if key in known}
            found.sort(key=self._order)
        return found[-MAX_RECORDINGS:]

    def _order(self, one: NodeRecording) -> tuple[int, str]:
        began_ns = self._begun.get((one.name, one.inode))
        if began_ns is None:
            began_ns = _first_session_ns(one.path)
            if began_ns is None:
                # It has no session yet, or cannot be read.
                return one.changed_ns, one.name
            self._begun[one.name, one.inode] = began_ns
        return began_ns, one.name


def _first_session_ns(path: Path) -> int | None:
    try:
        with Recording.open(path) as recording:
            sessions = recording.sessions()
    except RecordingError:
        return None
    return sessions[0].started_ns if sessions else None


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
