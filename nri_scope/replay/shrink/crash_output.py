# SPDX-License-Identifier: Apache-2.0
"""Reduce the output of a crashed program to a signature that identifies the same crash.

The signature consists of the message, without numbers, and the innermost frame in the plugin's own
code: unrelated Go panics or Python tracebacks share the frames of the library that called the
plugin, and the exit status.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from ..result import PrintedLine

LINES_MAX = 500
"""Maximum number of lines stored of a crash: message and frames of one goroutine or thread."""
_MESSAGE_LINES = 20
_LINE_MAX = 2_000
"""Maximum number of characters of a line."""

_NUMBERS = re.compile(r"0x[0-9a-fA-F]+|\b[0-9a-f]{12,}\b|\d+")

_GO = re.compile(r"(panic: |fatal error: |SIG[A-Z]+: )")
_GO_FILE = re.compile(r"\t(?P<file>.+?):(?P<line>\d+)(?: \+0x[0-9a-f]+)?$")
_GO_LIBRARY = re.compile(r"github\.com/containerd/(nri/pkg|ttrpc)\b")
_PYTHON = re.compile(r"(.*\bTraceback \(most recent call last\):|Fatal Python error: .*)$")
_PYTHON_FRAME = re.compile(r'\s*File "(?P<file>[^"]+)", line (?P<line>\d+)(?:,)? in (?P<name>.+)$')
_PYTHON_LIBRARY = re.compile(r"^<|/(site|dist)-packages/|/lib/python\d|/nri_scope/")
_IN_GROUP = re.compile(r"^ *[|+] ?")
"""Prefix of the lines of an exception group."""
_RUST = re.compile(r"thread '[^']*' (?:\(\d+\) )?panicked at (?P<place>.*)$")
_RUST_FRAME = re.compile(r"\s+at (?P<file>\S+?):(?P<line>\d+)(?::\d+)?$")
_RUST_LIBRARY = re.compile(r"^/rustc/|/\.cargo/|/rustlib/")


class CrashOutput:
    """Output of plugins, reduced to the lines of each plugin's last crash."""

    def __init__(self) -> None:
        self._lines: dict[str, list[str]] = {}

    def add(self, line: PrintedLine) -> None:
        """Process a line that a plugin printed."""
        if line.stream != "stderr":
            return
        text = line.text[:_LINE_MAX]
        lines = self._lines.get(line.plugin)
        if _is_new_crash(text, lines):
            self._lines[line.plugin] = [text]
        elif lines is not None and len(lines) < LINES_MAX:
            lines.append(text)

    def forget(self, plugin: str) -> None:
        """Discard the output of a plugin that is still running."""
        self._lines.pop(plugin, None)

    def signature_of(self, plugin: str) -> str:
        """Return the signature of the plugin's crash; "" if it printed none."""
        return signature(self._lines.get(plugin, ()))


def without_numbers(text: str) -> str:
    """Replace addresses, ids and other numbers, which differ between runs, with ``#``."""
    return _NUMBERS.sub("#", text)


def signature(lines: Sequence[str]) -> str:
    """Return the message and the innermost own frame of a crash; "" without lines."""
    if not lines:
        return ""
    if _GO.match(lines[0]):
        message, place = " ".join(_go_message(lines)), next(_go_places(lines), "")
    elif (panicked := _RUST.search(lines[0])) is not None:
        message, place = _rust(lines, panicked["place"])
    else:
        message, place = _python(lines)
    return f"{without_numbers(message)} at {place}"


def _is_new_crash(text: str, lines: list[str] | None) -> bool:
    """Return whether a new crash begins, rather than another part of the current one."""
    if _RUST.search(text) or _PYTHON.match(text):
        # Of several consecutive tracebacks, the last one is fatal.
        return True
    # Go prints the signal of a fatal error directly after the error.
    return _GO.match(text) is not None and not (lines and len(lines) < 3 and _GO.match(lines[0]))


# -- Go ------------------------------------------------------------------------------------------


def _go_message(lines: Sequence[str]) -> Iterator[str]:
    for line in lines[:_MESSAGE_LINES]:
        if not line.strip() or line.startswith("goroutine "):
            return
        yield line.strip()


def _go_places(lines: Sequence[str]) -> Iterator[str]:
    for function, place in pairwise(lines):
        where = _GO_FILE.match(place)
        if where is None or function.startswith("\t"):
            continue
        name = function.removeprefix("created by ").partition(" in goroutine ")[0]
        if not function.startswith("created by "):
            # Arguments are addresses, and never contain parentheses.
            name = name.rpartition("(")[0]
        if not _is_go_library(name, where["file"]):
            yield f"{name} {where['file']}:{where['line']}"


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
    return standard and (folder == package or folder.endswith(f"/src/{package}"))


# -- Python --------------------------------------------------------------------------------------


def _python(lines: Sequence[str]) -> tuple[str, str]:
    own: list[str] = []
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


def _rust(lines: Sequence[str], place: str) -> tuple[str, str]:
    # Until Rust 1.72, the message precedes the place, in quotes.
    quoted, _, after = place.rpartition(", ") if place.startswith("'") else ("", "", place)
    frames = filter(None, map(_RUST_FRAME.match, lines))
    own = (
        f"{frame['file']}:{frame['line']}"
        for frame in frames
        if not _RUST_LIBRARY.search(frame["file"])
    )
    return quoted or " ".join(lines[1:2]), f"{after} {next(own, '')}"
