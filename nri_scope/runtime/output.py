# SPDX-License-Identifier: Apache-2.0
"""Output of a launched plugin, line by line, in bounded memory, and the crash that it shows.

Real runtimes discard it. Here it is forwarded up to a limit: a plugin that prints endlessly must
neither exhaust memory nor block on a full pipe.

A crash is a message, and the place where it was caused. Unrelated Go panics or Python tracebacks
have the same exit status, and the same frames of the library that called the plugin. A crash is
therefore identified by its message and by the innermost frame in the plugin's own code.
"""

from __future__ import annotations

import re
import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

LINE_MAX = 16 << 10
"""Maximum bytes of one line; longer lines are cut."""

OUTPUT_MAX = 4 << 20
"""Maximum bytes forwarded of both streams, from their start, including `LINE_COST` per line."""

PASSING_RATE = 256 << 10
"""Bytes of `OUTPUT_MAX` regained each second if the receiver does not store lines. The limit
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
byte was read. Undecodable bytes are ``\\xNN``; control characters are as printed.
The call is made when the line is complete, so times may decrease between streams.
Lines over `OUTPUT_MAX` are not forwarded, only counted.
"""


class ProcessOutput:
    """The output of one process."""

    def __init__(self, on_output: OnOutput | None = None, *, passing: bool = False) -> None:
        """Forward lines to ``on_output``; with ``passing``, the limit is that of a rate."""
        self.left_out = 0
        """Number of printed lines that were not forwarded."""
        self.crash_output = CrashOutput()
        """The last crash printed to stderr."""
        self._passing = passing
        self._passed_ns = 0
        self._on_output = on_output
        self._budget = OUTPUT_MAX
        self._streams = {stream: _LineSplitter() for stream in Stream}
        self._last: dict[Stream, deque[str]] = {
            stream: deque(maxlen=LAST_KEPT) for stream in Stream
        }

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
            self._add(stream, text, started_ns)

    def finish(self, stream: Stream) -> None:
        """End the stream; a last line without a line end is complete now."""
        lines = self._streams[stream]
        if lines.partial:
            self._add(stream, *lines.take())

    def _add(self, stream: Stream, text: str, mono_ns: int) -> None:
        self._last[stream].append(text)
        if stream is Stream.STDERR:
            self.crash_output.add(text, mono_ns)
        if self._budget <= 0:
            self.left_out += 1
            return
        self._budget -= len(text) + LINE_COST
        if self._on_output is not None:
            self._on_output(stream, text, mono_ns)


class _LineSplitter:
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
        *ended, unfinished = data.split(b"\n")
        lines: list[tuple[str, int]] = []
        for piece in ended:
            self._add(piece, mono_ns)
            lines.append(self.take(mono_ns))
        self._add(unfinished, mono_ns)
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


CRASH_LINES_MAX = 500
"""Maximum number of lines stored of a crash: message and frames of one goroutine or thread."""
LATER_LINES_MAX = 12
"""Number of other lines after which a Python traceback or a Rust panic was not the program's end.

Both are printed by programs that continue, while a Go panic always ends the program."""
CAUGHT_MAX_NS = 1_000_000_000
"""Maximum time between the traceback of a caught exception and the end that it caused."""
_HEAD_LINES = 20
_CRASH_LINE_MAX = 2_000
"""Maximum number of characters of a line."""
_MESSAGE_MAX = 500
"""Maximum number of characters of a message."""

_GO = re.compile(r"\t*(panic: |fatal error: |SIG[A-Z]+: )")
_GO_FILE = re.compile(r"\t(?P<file>.+?):(?P<line>\d+)(?: \+0x[0-9a-f]+)?$")
_GO_LIBRARY = re.compile(r"github\.com/containerd/(nri/pkg|ttrpc)\b")
_PYTHON = re.compile(r"(.*\bTraceback \(most recent call last\):|Fatal Python error: .*)$")
_PYTHON_SYNTAX = re.compile(r'  File "(?P<file>[^"]+)", line (?P<line>\d+)$')
"""Place of a syntax error, which has no traceback if it is in the program itself."""
_PYTHON_FRAME = re.compile(r'\s*File "(?P<file>[^"]+)", line (?P<line>\d+)(?:,)? in (?P<name>.+)$')
_PYTHON_LIBRARY = re.compile(r"^<|/(site|dist)-packages/|/lib/python\d|/nri_scope/")
_PYTHON_TOP = re.compile(r'\s*(\| +)?File ("<frozen runpy>"|".*", line \d+, in <module>$)')
"""First frame of an exception that ends Python: a caught one begins where it was caught."""
_PYTHON_IGNORED = "Exception ignored "
"""Start of the line above a traceback of an exception that cannot be raised, often at the exit."""
_PYTHON_EXIT = re.compile(r"(sys|<sys>|<frozen .*>):\d+: \w+Warning: ")
"""Other output of the interpreter at the exit."""
_IN_GROUP = re.compile(r"^ *[|+] ?")
"""Prefix of the lines of an exception group."""
_RUST = re.compile(r"thread '[^']*' (?:\(\d+\) )?panicked at (?P<place>.*)$")
_RUST_FRAME = re.compile(r"\s+at (?P<file>\S+?):(?P<line>\d+)(?::\d+)?$")
_RUST_LIBRARY = re.compile(r"^/rustc/|/\.cargo/|/rustlib/")


class Crash(NamedTuple):
    """What a crashed program printed about its crash."""

    message: str
    """The panic, or the last line of the traceback."""
    location: str
    """Function, file and line of the innermost frame in the program's own code; "" if none."""

    def __str__(self) -> str:
        return f"{self.message} (in {self.location})" if self.location else self.message


class CrashOutput:
    """The last crash in a program's standard error."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._began_ns = 0
        self._later = 0
        self._indent = ""
        """Indentation of the whole traceback, as in a log."""
        self._is_ignored = False
        """Whether the next lines belong to an ignored exception."""

    def crash(self, exit_code: int | None = None, ended_ns: int = 0) -> Crash | None:
        """Return the crash that ended the program; None if it printed none.

        ``exit_code``: as of `os.waitstatus_to_exitcode`; None if it is unknown. ``ended_ns``: the
        monotonic time of the end, in ns.
        """
        if not self._lines or not self._is_end(exit_code, ended_ns):
            return None
        return crash_in(self._lines)

    def _is_end(self, exit_code: int | None, ended_ns: int) -> bool:
        first = self._lines[0]
        if _GO.match(first) or first.startswith("Fatal"):
            return True
        if exit_code == 0:
            return False
        if not _PYTHON.match(first):
            return True
        if exit_code is not None and exit_code < 0 and exit_code != -signal.SIGINT:
            # Of all exceptions, only KeyboardInterrupt ends Python by a signal.
            return False
        if any(map(_PYTHON_TOP.match, self._lines[1:2])):
            return True
        # The exception was caught, and ended the program if it did nothing else afterwards.
        return self._later <= 1 and ended_ns - self._began_ns <= CAUGHT_MAX_NS

    def add(self, line: str, at_ns: int) -> None:
        """Process a line, which was printed at a monotonic time in ns."""
        text = line[:_CRASH_LINE_MAX]
        lines = self._lines
        if self._is_ignored or text.startswith(_PYTHON_IGNORED):
            # Its last line is the first one that is not indented.
            is_inside = not text.strip() or text[0].isspace() or "Traceback (" in text
            self._is_ignored = is_inside or not self._is_ignored
        elif _is_new_crash(text, lines):
            self._lines, self._began_ns, self._later = [text], at_ns, 0
            indent, traceback, _ = text.partition("Traceback (")
            self._indent = indent if traceback and indent.isspace() else ""
        elif lines:
            text = text.removeprefix(self._indent)
            if len(lines) < CRASH_LINES_MAX:
                lines.append(text)
            is_other = bool(text[:1].strip()) and not _PYTHON_EXIT.match(text)
            if is_other and not _GO.match(lines[0]) and not lines[0].startswith("Fatal"):
                self._later += 1
                if self._later > LATER_LINES_MAX:
                    lines.clear()

    def forget_before(self, at_ns: int) -> None:
        """Discard a crash printed earlier, as the program is still running."""
        if self._lines and self._began_ns < at_ns:
            self._lines.clear()


def crash_in(lines: Sequence[str]) -> Crash:
    """Return the crash that begins with the first of ``lines``."""
    if _GO.match(lines[0]):
        message, location = " ".join(_go_message(lines)), next(_go_places(lines), "")
    elif (panicked := _RUST.search(lines[0])) is not None:
        message, location = _rust(lines, panicked["place"])
    else:
        message, location = _python(lines)
    return Crash(message[:_MESSAGE_MAX], location)


def _is_new_crash(text: str, lines: list[str]) -> bool:
    """Return whether a new crash begins, rather than another part of the current one."""
    if not lines and _PYTHON_SYNTAX.match(text):
        return True
    if "panicked at" in text or "Traceback (" in text or text.startswith("Fatal Python"):
        # Of several consecutive tracebacks, the last one is fatal.
        return (_RUST.search(text) or _PYTHON.match(text)) is not None
    # Go prints the signal of a fatal error, and a panic during a panic, directly after the first.
    return (
        _GO.match(text) is not None
        and text[0] != "\t"
        and not (lines and len(lines) < 3 and _GO.match(lines[0]))
    )


# -- Go ------------------------------------------------------------------------------------------


def _go_message(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines of one or several nested panics, without the further lines of a message."""
    for line in lines[:_HEAD_LINES]:
        if not line.strip() or line.startswith("goroutine "):
            return
        if _GO.match(line):
            yield line.strip()


def _go_places(lines: Sequence[str]) -> Iterator[str]:
    for function, frame in pairwise(lines):
        match = _GO_FILE.match(frame)
        if match is None or function.startswith("\t"):
            continue
        name = function.removeprefix("created by ").partition(" in goroutine ")[0]
        if not function.startswith("created by "):
            # Arguments are addresses, and never contain parentheses.
            name = name.rpartition("(")[0]
        if not _is_go_library(name, match["file"]):
            yield f"{name} {match['file']}:{match['line']}"


def _is_go_library(function: str, file: str) -> bool:
    """Return whether a frame is in the standard library, a downloaded or a vendored module."""
    path, slash, name = function.rpartition("/")
    package = f"{path}{slash}{name.partition('.')[0]}"
    if function == "panic" or _GO_LIBRARY.match(package):
        return True
    if "/vendor/" in file or re.search(r"@v\d", file):
        return True
    folder = file.rpartition("/")[0]
    standard = package != "main" and "." not in package.partition("/")[0]
    # The runtime implements functions of other packages, such as internal/sync.fatal.
    return standard and f"/src/{folder}".endswith((f"/src/{package}", "/src/runtime"))


# -- Python --------------------------------------------------------------------------------------


def _python(lines: Sequence[str]) -> tuple[str, str]:
    own: list[str] = []
    syntax = _PYTHON_SYNTAX.match(lines[0])
    if syntax is not None:
        own.append(f"{syntax['file']}:{syntax['line']}")
    message = lines[0] if lines[0].startswith("Fatal") else ""
    for raw in lines[1:]:
        line = _IN_GROUP.sub("", raw)
        frame = _PYTHON_FRAME.match(line)
        if frame is not None:
            if not _PYTHON_LIBRARY.search(frame["file"]):
                own.append(f"{frame['name']} {frame['file']}:{frame['line']}")
        elif line and not line[0].isspace() and not message:
            message = line
            break
    # A fatal error of the interpreter prints the innermost frame first, a traceback prints it last.
    innermost = 0 if lines[0].startswith("Fatal") else -1
    return message, own[innermost] if own else ""


# -- Rust ----------------------------------------------------------------------------------------


def _rust(lines: Sequence[str], location: str) -> tuple[str, str]:
    # Until Rust 1.72, the message precedes the location, in quotes.
    quoted, _, after = location.rpartition(", ") if location.startswith("'") else ("", "", location)
    frames = filter(None, map(_RUST_FRAME.match, lines))
    own = (
        f"{frame['file']}:{frame['line']}"
        for frame in frames
        if not _RUST_LIBRARY.search(frame["file"])
    )
    message = quoted or " ".join(lines[1:2])
    return f"panicked: {message.strip()}", next(own, after.rstrip(":"))
