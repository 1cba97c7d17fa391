# SPDX-License-Identifier: Apache-2.0
"""The log file of a launched logger, beside its recording."""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from nri_scope.recording.trusted_location import is_trusted_file
from nri_scope.text.escape import safe

from .background_output import Background
from .default_file import SUFFIX

LOG_MAX = 1 << 20
"""Bytes after which the file is truncated: it stays on a node for years."""

KEPT_MAX = 200
"""Maximum number of lines that are kept until the file is known."""


def log_beside(recording: Path) -> Path:
    """Return the log's path; its name always contains ``nriscope``, unlike those of other logs."""
    name = recording.name if recording.name.endswith(SUFFIX) else f"{recording.name}{SUFFIX}"
    return recording.with_name(f"{name}.log")


class _Place(NamedTuple):
    path: Path
    is_last: bool


class LogFile:
    """Appends lines to a private file, in a separate thread; lost lines are not an error.

    Lines are kept until the file is known.
    """

    def __init__(self) -> None:
        self._path: Path | None = None
        self._is_last = False
        self._kept: list[str] = []
        self._background = Background[str | _Place](self._take, waiting_max=200)

    def write(self, text: str) -> None:
        """Write a line, with the time. Never blocks and never raises."""
        self._background.put(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ} {safe(text)}\n")

    def settle(self, path: Path) -> None:
        """Write all lines, earlier ones included, to this file, in a folder that exists."""
        self._background.put(_Place(path, is_last=True))

    def make_do(self, path: Path) -> None:
        """Write all lines to this file until `settle`. The folder is made if it is missing."""
        self._background.put(_Place(path, is_last=False))

    def close(self) -> None:
        """Write the waiting lines."""
        self._background.close()

    def _take(self, item: str | _Place) -> None:
        if isinstance(item, str):
            self._append(item)
            if not self._is_last and len(self._kept) < KEPT_MAX:
                self._kept.append(item)
            return
        if not item.is_last:
            with suppress(OSError):
                item.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if item.path != self._path:
            self._path = item.path
            self._append("".join(self._kept))
        if item.is_last:
            self._is_last = True
            self._kept.clear()

    def _append(self, text: str) -> None:
        if self._path is None or not text:
            return
        # Not through a link, nor into a named pipe, which would wait for a reader.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
        # Errors are not permanent: later there may be more room, or a writable folder.
        with suppress(OSError):
            with os.fdopen(
                os.open(self._path, flags | os.O_CLOEXEC, 0o600), "a", encoding="utf-8"
            ) as file:
                if not is_trusted_file(self._path, os.fstat(file.fileno())):
                    # In a sticky folder another user can create the file first, to read the log.
                    return
                if file.tell() > LOG_MAX:
                    file.truncate(0)
                file.write(text)
