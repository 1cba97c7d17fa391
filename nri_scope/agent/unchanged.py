# SPDX-License-Identifier: Apache-2.0
"""Keep what was read of recordings, until they are written to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

from .node_recordings import NodeRecording

_T = TypeVar("_T")


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
