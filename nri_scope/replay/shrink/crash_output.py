# SPDX-License-Identifier: Apache-2.0
"""The output of a crashed program, reduced to what identifies the same crash again.

A crash is identified by its message, without the numbers in it, and by the first place in the
plugin's own code: two Go panics, or two Python tracebacks, end in the same frames of the library
that called the plugin, and with the same exit status.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from ..result import PrintedLine

LINES_MAX = 500
"""Maximum lines kept from the start of a crash: message and frames of one goroutine or thread."""
_MESSAGE_LINES = 20
_LINE_MAX = 2_000
"""Maximum characters of a line."""

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


class LastWords:
    """Receives the output of plugins, and keeps the lines from each plugin's last crash on."""

    def __init__(self) -> None:
        self._lines: dict[str, list[str]] = {}

    def hear(self, line: PrintedLine) -> None:
        """Process a line that a plugin printed."""
        if line.stream != "stderr":
            return
        text = line.text[:_LINE_MAX]
        kept = self._lines.get(line.plugin)
        if _begins(text, kept):
            self._lines[line.plugin] = [text]
        elif kept is not None and len(kept) < LINES_MAX:
            kept.append(text)

    def forget(self, plugin: str) -> None:
        """Discard the output: the plugin is alive, so it did not crash."""
        self._lines.pop(plugin, None)

    def of(self, plugin: str) -> str:
        """Return the signature of the plugin's crash; "" if it printed none."""
        return signature(self._lines.get(plugin, ()))


def alike(text: str) -> str:
    """Return ``text`` without parts that differ between runs: addresses, ids and other numbers."""
    return _NUMBERS.sub("#", text)


def signature(lines: Sequence[str]) -> str:
    """Return the message and first own frame of the crash that begins with the first line."""
    if not lines:
        return ""
    if _GO.match(lines[0]):
        message, place = " ".join(_go_message(lines)), next(_go_places(lines), "")
    elif (panicked := _RUST.search(lines[0])) is not None:
        message, place = _rust(lines, panicked["place"])
    else:
        message, place = _python(lines)
    return f"{alike(message)} at {place}"


def _begins(text: str, kept: list[str] | None) -> bool:
    """Return whether a new crash begins, rather than another part of the current one."""
    if _RUST.search(text) or _PYTHON.match(text):
        # If there are several tracebacks in a row, the last one ends the program.
        return True
    # Go prints the signal that caused a fatal error immediately after it.
    return _GO.match(text) is not None and not (kept and len(kept) < 3 and _GO.match(kept[0]))


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
    # Up to Rust 1.72 the message comes first, in quotes.
    quoted, _, after = place.rpartition(", ") if place.startswith("'") else ("", "", place)
    frames = filter(None, map(_RUST_FRAME.match, lines))
    own = (
        f"{frame['file']}:{frame['line']}"
        for frame in frames
        if not _RUST_LIBRARY.search(frame["file"])
    )
    return quoted or " ".join(lines[1:2]), f"{after} {next(own, '')}"
