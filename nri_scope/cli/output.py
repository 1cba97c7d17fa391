# SPDX-License-Identifier: Apache-2.0
"""What the reading commands print to: quick for a pipe, friendly to a terminal."""

from __future__ import annotations

import io
import os
import select
import shutil
import sys
import time
from types import TracebackType
from typing import Self, TextIO

_BATCH = 256
"""Lines that are written together; a call per line would take longer than making the line."""

_NARROWEST = 40
"""Columns. A line's number, time and duration take 30 of them."""


class Output:
    """Standard output. ``colour`` and ``width`` (None: as wide as it gets) say what it can show.

    As a context it ends the block quietly when nobody reads any more (``| head``).
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stdout if stream is None else stream
        if isinstance(self._stream, io.TextIOWrapper):
            # A terminal with another character set than ours gets \u2026 instead of an error.
            self._stream.reconfigure(errors="backslashreplace")
        self.is_terminal = self._stream.isatty()
        self.colour = self.is_terminal and _wants_colour()
        self.width = _width(self.is_terminal)
        self._lines: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if error is None:
            try:
                self.flush()
            except BrokenPipeError as broken:
                error = broken
        if not isinstance(error, BrokenPipeError):
            return False
        self._lines = []
        # What Python has buffered it would try to write once more, and complain.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)
        return True

    def line(self, text: str) -> None:
        """Print one line, at the latest with the next ``flush``."""
        self._lines.append(text)
        if len(self._lines) >= _BATCH:
            self._write()

    def text(self, text: str) -> None:
        """Print text that brings its own line ends."""
        self._write()
        self._stream.write(text)

    def bytes(self, data: bytes) -> None:
        """Write bytes as they are."""
        self.flush()
        self._stream.buffer.write(data)

    def flush(self) -> None:
        """Make sure that everything so far can be seen."""
        self._write()
        self._stream.flush()

    def wait(self, seconds: float) -> bool:
        """Wait so long; True, and at once, when nobody is left to read what we print."""
        try:
            descriptor = self._stream.fileno()
        except (OSError, ValueError):
            time.sleep(seconds)
            return False
        poll = select.poll()
        # Errors and hang-ups are told without being asked for.
        poll.register(descriptor, 0)
        return bool(poll.poll(seconds * 1000))

    def _write(self) -> None:
        if self._lines:
            lines, self._lines = self._lines, []
            lines.append("")
            self._stream.write("\n".join(lines))


def _wants_colour() -> bool:
    # https://no-color.org: set and not empty.
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _width(is_terminal: bool) -> int | None:
    if is_terminal:
        return max(_NARROWEST, shutil.get_terminal_size().columns)
    # Somebody who sets COLUMNS for a pipe, as watch(1) does, means it.
    columns = os.environ.get("COLUMNS", "")
    return max(_NARROWEST, int(columns)) if columns.isascii() and columns.isdigit() else None
