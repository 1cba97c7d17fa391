# SPDX-License-Identifier: Apache-2.0
"""Standard output of commands: batched for pipes, with colours for terminals, and tables."""

from __future__ import annotations

import io
import os
import select
import shutil
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain, islice
from typing import Self, TextIO

from nri_scope.errors import UsageError, reason_of
from nri_scope.text.escape import columns, safe
from nri_scope.text.styled_text import paint_line

_BATCH_LINES, _BATCH_CHARACTERS = 256, 1 << 20
"""Maximum lines and characters per write: one call per line would take longer than making it."""


class Output:
    """Standard output, with its capabilities ``colour`` and ``width`` (None: no limit).

    As a context manager, it ends the block silently when the reader is gone (``| head``), and
    raises UsageError if output cannot be written. Raises UsageError if standard output is closed.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        # Python has no stdout if it was started with a closed descriptor (``>&-``).
        standard: TextIO | None = sys.stdout
        stream = standard if stream is None else stream
        if stream is None:
            raise UsageError("standard output is closed", "redirect it, for example > /dev/null")
        self._stream = stream
        self._failure: OSError | None = None
        if isinstance(self._stream, io.TextIOWrapper):
            # Characters that the terminal cannot encode are written as escapes such as \u2026.
            self._stream.reconfigure(errors="backslashreplace")
        self.is_terminal = self._stream.isatty()
        self.colour = self.is_terminal and _wants_colour()
        self.width = _width(self.is_terminal)
        self._lines: list[str] = []
        self._waiting = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if error is None:
            with suppress(OSError):
                self.flush()
            error = self._failure
        if error is not self._failure or error is None:
            return False
        self._lines = []
        discard(self._stream)
        if isinstance(error, BrokenPipeError):
            return True
        raise UsageError(f"cannot write to standard output: {reason_of(error)}") from error

    def line(self, text: str) -> None:
        """Queue one line, with colours if enabled. The next ``flush`` writes it at the latest."""
        self._lines.append(paint_line(text) if self.colour else text)
        self._waiting += len(text)
        if len(self._lines) >= _BATCH_LINES or self._waiting > _BATCH_CHARACTERS:
            self._write()

    def text(self, text: str) -> None:
        """Write text that contains its own line ends."""
        self._write()
        with self._storing_errors():
            self._stream.write(text)

    def bytes(self, data: bytes) -> None:
        """Write bytes unchanged."""
        self.flush()
        with self._storing_errors():
            self._stream.buffer.write(data)

    def flush(self) -> None:
        """Write all queued output."""
        self._write()
        with self._storing_errors():
            self._stream.flush()

    def wait(self, seconds: float) -> bool:
        """Wait; return True as soon as the output has no reader, False after ``seconds``."""
        try:
            descriptor = self._stream.fileno()
        except (OSError, ValueError):
            time.sleep(seconds)
            return False
        poll = select.poll()
        # Errors and hang-ups are always reported.
        poll.register(descriptor, 0)
        return bool(poll.poll(seconds * 1000))

    def _write(self) -> None:
        if self._lines:
            lines, self._lines = self._lines, []
            self._waiting = 0
            lines.append("")
            with self._storing_errors():
                self._stream.write("\n".join(lines))

    @contextmanager
    def _storing_errors(self) -> Iterator[None]:
        """Store a write error, to distinguish it from the command's own errors."""
        try:
            yield
        except OSError as error:
            self._failure = error
            raise


def discard(stream: TextIO) -> None:
    """Redirect a stream to /dev/null: at exit, Python would flush it again and report an error."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)


def _wants_colour() -> bool:
    # https://no-color.org: set and not empty.
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _width(is_terminal: bool) -> int | None:
    if is_terminal:
        return max(1, shutil.get_terminal_size().columns)
    # COLUMNS also counts for a pipe, as watch(1) sets it.
    columns = os.environ.get("COLUMNS", "")
    return (int(columns) or None) if columns.isascii() and columns.isdigit() else None


_LOOK_AHEAD = 200
"""Number of rows that determine column widths, so that output starts before the last row."""
_COLUMN_WIDTH_MAX = 60
"""Maximum width of a padded column; in a terminal, wider cells are cut."""

Value = None | int | float | str | bytes


def cell(value: Value, width: int | None = None) -> str:
    """Return a value as text that is safe for a terminal; "" for NULL."""
    match value:
        case None:
            return ""
        case bytes():
            return safe(f"x'{value.hex()}'", width)
        case str():
            return safe(value, width)
    return str(value)


def table(
    headings: Sequence[str],
    rows: Iterable[Sequence[Value]],
    width: int | None = None,
    right: Collection[int] = (),
) -> Iterator[str]:
    """Yield the lines of a table. ``width``: the terminal's; None for other output.

    Columns of numbers, and those whose positions are in ``right``, are aligned to the right.
    """
    rows = iter(rows)
    first = list(islice(rows, _LOOK_AHEAD))
    # The last column may take the rest of the line.
    limits = [None if width is None else _COLUMN_WIDTH_MAX] * (len(headings) - 1) + [None]
    names = [cell(heading, limit) for heading, limit in zip(headings, limits, strict=True)]

    def cells(row: Sequence[Value]) -> list[str]:
        return [cell(value, limit) for value, limit in zip(row, limits, strict=True)]

    shown = [names, *(cells(row) for row in first)]
    widths = [
        min(_COLUMN_WIDTH_MAX, max(map(columns, column))) for column in zip(*shown, strict=True)
    ]
    numeric = [
        at in right
        or (bool(first) and all(isinstance(row[at], int | float | None) for row in first))
        for at in range(len(names))
    ]
    yield _line(names, widths, numeric, width)
    yield _line(["─" * each for each in widths], widths, numeric, width)
    for row in chain(first, rows):
        yield _line(cells(row), widths, numeric, width)


def _line(
    cells: Sequence[str], widths: Sequence[int], numeric: Sequence[bool], width: int | None
) -> str:
    parts: list[str] = []
    for text, wide, right in zip(cells, widths, numeric, strict=True):
        padding = " " * (wide - columns(text))
        parts.append(padding + text if right else text + padding)
    line = "  ".join(parts).rstrip()
    return line if width is None else safe(line, width)
