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
"""Size in bytes at which the file is truncated, as it may stay on a node for years."""

KEPT_MAX = 200
"""Maximum number of lines kept in memory until the final file is known."""


def log_beside(recording: Path) -> Path:
    """Return the path of the log beside a recording. Its name ends in ``.nriscope.db.log``."""
    name = recording.name if recording.name.endswith(SUFFIX) else f"{recording.name}{SUFFIX}"
    return recording.with_name(f"{name}.log")


class _Target(NamedTuple):
    path: Path
    is_last: bool


class LogFile:
    """Log that a separate thread appends to a private file. Write errors are ignored.

    Lines written before `use` was called are kept in memory.
    """

    def __init__(self) -> None:
        self._path: Path | None = None
        self._is_last = False
        self._kept: list[str] = []
        self._background = Background[str | _Target](self._process, waiting_max=200)

    def write(self, text: str) -> None:
        """Write a line, with the time. Never blocks and never raises."""
        self._background.put(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ} {safe(text)}\n")

    def use(self, path: Path) -> None:
        """Write all lines, earlier ones included, to this file. Its folder must exist."""
        self._background.put(_Target(path, is_last=True))

    def use_temporarily(self, path: Path) -> None:
        """Write all lines to this file until `use`. A missing folder is created."""
        self._background.put(_Target(path, is_last=False))

    def close(self) -> None:
        """Write the queued lines."""
        self._background.close()

    def _process(self, item: str | _Target) -> None:
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
        # Neither follow a link nor block on a named pipe without a reader.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
        # Later lines may succeed, for example when there is space on the disk again.
        with suppress(OSError):
            with os.fdopen(
                os.open(self._path, flags | os.O_CLOEXEC, 0o600), "a", encoding="utf-8"
            ) as file:
                if not is_trusted_file(self._path, os.fstat(file.fileno())):
                    # In a sticky folder, another user may have created the file to read the log.
                    return
                if file.tell() > LOG_MAX:
                    file.truncate(0)
                file.write(text)
