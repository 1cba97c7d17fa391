# SPDX-License-Identifier: Apache-2.0
"""The output of a recorder: its default file, and text written in a background thread.

Callers must neither block nor fail. The text may go to a log file beside the recording.
"""

from __future__ import annotations

import os
import re
import socket
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from nri_scope.process.private_folders import make_private_folder
from nri_scope.recording.file.trusted_location import is_trusted_file
from nri_scope.text.escape import safe

SUFFIX = ".nriscope.db"

LAUNCHED_FOLDER = Path("/var/lib/nri-scope")
"""Folder of recordings of launched plugins, whose working directory is the runtime's."""

V01_SPOOL = LAUNCHED_FOLDER / "v01"
"""Spool of the requests of NRI 0.1."""

DEFAULT_MAX_SIZE = 256 << 20
"""Default size limit in bytes of a recording that is written unattended, as a ring."""

T = TypeVar("T")


class Background(Generic[T]):
    """Bounded queue of items that a separate thread passes to ``write``.

    While ``write`` blocks, because a terminal is stopped (^S) or a pipe is not read, items beyond
    ``waiting_max`` are skipped; their number is passed to ``skipped`` once writing continues. After
    an error, such as a closed pipe or a full disk, all items are dropped.
    """

    def __init__(
        self,
        write: Callable[[T], None],
        *,
        flush: Callable[[], None] = lambda: None,
        skipped: Callable[[int], None] = lambda count: None,
        waiting_max: int = 1000,
    ) -> None:
        self._write = write
        self._flush = flush
        self._on_skipped = skipped
        self._waiting_max = waiting_max
        self._queue: deque[T] = deque()
        self._skipped = 0
        self._wake = threading.Event()
        self._closing = False
        self._has_failed = False
        # A daemon: a blocked write must not keep the process alive.
        self._thread = threading.Thread(target=self._run, name="output", daemon=True)
        self._thread.start()

    def put(self, item: T) -> None:
        """Queue an item, or skip it. Never blocks and never raises."""
        if self._has_failed:
            return
        if len(self._queue) >= self._waiting_max:
            self._skipped += 1
            return
        self._queue.append(item)
        self._wake.set()

    def close(self, timeout: float = 2.0) -> None:
        """Write the queued items, for at most ``timeout`` seconds."""
        self._closing = True
        self._wake.set()
        self._thread.join(timeout)

    def _run(self) -> None:
        while not (self._closing and not self._queue):
            self._wake.wait()
            self._wake.clear()
            try:
                self._write_queue()
            except (OSError, ValueError):
                # ValueError: the stream is closed. The command continues without output.
                self._has_failed = True
                self._queue.clear()
                return

    def _write_queue(self) -> None:
        while self._queue:
            self._write(self._queue.popleft())
        skipped, self._skipped = self._skipped, 0
        if skipped:
            self._on_skipped(skipped)
        self._flush()


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
                make_private_folder(item.path.parent)
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


def host_name() -> str:
    """Return the name of the host, reduced to characters that are safe in a file name."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", socket.gethostname()).strip(".-")[:64] or "host"


def default_path(folder: Path, *, with_host: bool = True) -> Path:
    """Return an unused path ``nri-<host>-<UTC time>.nriscope.db`` in ``folder``."""
    host = f"{host_name()}-" if with_host else ""
    stem = f"nri-{host}{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    path = folder / f"{stem}{SUFFIX}"
    number = 2
    while path.exists() or path.is_symlink():
        path = folder / f"{stem}-{number}{SUFFIX}"
        number += 1
    return path
