# SPDX-License-Identifier: Apache-2.0
"""Output of a launched plugin, line by line, in bounded memory.

Real runtimes discard it. Here it is stored up to a limit: a plugin that prints endlessly must
neither exhaust memory nor block on a full pipe.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from .crash_output import CrashOutput

LINE_MAX = 16 << 10
"""Maximum bytes of one line; longer lines are cut."""

OUTPUT_MAX = 4 << 20
"""Maximum bytes stored of both streams, from their start, including `LINE_COST` per line."""

PASSING_RATE = 256 << 10
"""Bytes of `OUTPUT_MAX` regained each second if lines are forwarded instead of stored. The limit
remains, as splitting output into lines takes time of the event loop."""

LINE_COST = 256
"""Approximate bytes of memory per line in addition to its text."""

LAST_KEPT = 60
"""Number of last lines of each stream that are stored even if the output exceeds its limit."""


class Stream(StrEnum):
    """The stream that a plugin printed to."""

    STDOUT = "stdout"
    STDERR = "stderr"


OnOutput = Callable[[Stream, str, int], None]
"""Called with the stream, the line without its end, and the monotonic time (ns) at which its first
byte was read. The call is made when the line is complete, so times may decrease between streams.
Lines over `OUTPUT_MAX` are not forwarded, only counted.
"""


@dataclass(frozen=True, slots=True)
class OutputLine:
    """One line, with undecodable bytes as ``\\xNN`` and with control characters as printed."""

    stream: Stream
    text: str
    mono_ns: int


class Output:
    """The output of one process."""

    def __init__(self, on_output: OnOutput | None = None, *, passing: bool = False) -> None:
        """Collect lines; with ``passing``, forward each line instead of storing it."""
        self.left_out = 0
        """Number of printed lines that are not in `lines`, or were not forwarded."""
        self.crash_output = CrashOutput()
        """The last crash printed to stderr."""
        self._passing = passing
        self._passed_ns = 0
        self._on_output = on_output
        self._lines: list[OutputLine] = []
        self._budget = OUTPUT_MAX
        self._streams = {stream: _Lines() for stream in Stream}
        self._last: dict[Stream, deque[str]] = {
            stream: deque(maxlen=LAST_KEPT) for stream in Stream
        }

    @property
    def lines(self) -> Sequence[OutputLine]:
        """The stored lines of both streams, in the order in which they were completed."""
        return tuple(self._lines)

    def last(self, stream: Stream, count: int) -> list[str]:
        """Return the last lines of a stream, including a partial one, at most ``count`` and
        `LAST_KEPT`.
        """
        partial = self._streams[stream].partial
        lines = [*self._last[stream], *([partial] if partial else [])]
        return lines[-count:]

    def feed(self, stream: Stream, data: bytes, mono_ns: int) -> None:
        """Process bytes that were read from a stream at the monotonic time ``mono_ns``."""
        if self._passing:
            earned = (mono_ns - (self._passed_ns or mono_ns)) * PASSING_RATE // 1_000_000_000
            self._budget = min(self._budget + earned, OUTPUT_MAX)
            self._passed_ns = mono_ns
        if self._budget <= 0:
            skipped, data = self._streams[stream].skip(data)
            self.left_out += skipped
        for text, started_ns in self._streams[stream].feed(data, mono_ns):
            self._add(OutputLine(stream, text, started_ns))

    def finish(self, stream: Stream) -> None:
        """End the stream; a last line without a line end is complete now."""
        lines = self._streams[stream]
        if lines.partial:
            text, started_ns = lines.take()
            self._add(OutputLine(stream, text, started_ns))

    def _add(self, line: OutputLine) -> None:
        self._last[line.stream].append(line.text)
        if line.stream is Stream.STDERR:
            self.crash_output.add(line.text, line.mono_ns)
        if self._budget <= 0:
            self.left_out += 1
            return
        self._budget -= len(line.text) + LINE_COST
        if not self._passing:
            self._lines.append(line)
        if self._on_output is not None:
            self._on_output(line.stream, line.text, line.mono_ns)


class _Lines:
    """Splitter of a byte stream into lines of at most `LINE_MAX` bytes."""

    def __init__(self) -> None:
        self._start = bytearray()
        self._cut = 0
        self._started_ns = 0

    @property
    def partial(self) -> str:
        """The line that is not complete yet."""
        return _text(bytes(self._start), self._cut)

    def feed(self, data: bytes, mono_ns: int) -> list[tuple[str, int]]:
        """Return the lines that end in ``data``, each with the time of its first byte."""
        *ended, rest = data.split(b"\n")
        lines: list[tuple[str, int]] = []
        for piece in ended:
            self._add(piece, mono_ns)
            lines.append(self.take(mono_ns))
        self._add(rest, mono_ns)
        return lines

    def skip(self, data: bytes) -> tuple[int, bytes]:
        """Return the number of lines of ``data`` to skip, and ``data`` without them.

        The last `LAST_KEPT` lines remain.
        """
        pieces = data.rsplit(b"\n", LAST_KEPT + 1)
        if len(pieces) <= LAST_KEPT + 1:
            return 0, data
        self._start.clear()
        self._cut = 0
        return pieces[0].count(b"\n") + 1, b"\n".join(pieces[1:])

    def take(self, mono_ns: int = 0) -> tuple[str, int]:
        """End the current line; an empty one gets the time ``mono_ns``."""
        started_ns = self._started_ns if self._start else mono_ns
        text = self.partial
        self._start.clear()
        self._cut = 0
        return text, started_ns

    def _add(self, piece: bytes, mono_ns: int) -> None:
        if not piece:
            return
        if not self._start:
            self._started_ns = mono_ns
        room = LINE_MAX - len(self._start)
        self._start += piece[:room]
        self._cut += max(0, len(piece) - room)


def _text(line: bytes, over: int) -> str:
    if not over:
        return line.removesuffix(b"\r").decode("utf-8", "backslashreplace")
    # If a character was cut in two, its first half counts among the bytes that were cut.
    for length in range(1, 4):
        if line[-length] >= 0xC0:
            if len(line[-length:].decode("utf-8", "ignore")) == 0:
                line, over = line[:-length], over + length
            break
        if line[-length] < 0x80:
            break
    return f"{line.decode('utf-8', 'backslashreplace')} … ({over} more bytes)"
