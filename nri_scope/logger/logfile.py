# SPDX-License-Identifier: Apache-2.0
"""The log file of a launched logger, beside its recording."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

from nri_scope.recorder.escape import safe

from .background import Background

LOG_MAX = 1 << 20
"""Bytes after which the file starts anew: it lives on a node for years."""


class LogFile:
    """Appends lines to a private file, from a thread of its own; losing them is no failure."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._background = Background[str](self._append, waiting_max=200)

    def write(self, text: str) -> None:
        """One line, with the time. Never blocks and never raises."""
        self._background.put(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ} {safe(text)}\n")

    def close(self) -> None:
        """Write what waits."""
        self._background.close()

    def _append(self, line: str) -> None:
        # The recording may be waited for in a folder that is not there yet.
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(self.path, flags, 0o600), "a", encoding="utf-8") as file:
            if file.tell() > LOG_MAX:
                file.truncate(0)
            file.write(line)
