# SPDX-License-Identifier: Apache-2.0
"""The terminal of the user interface, which may disappear at any time, and what it shows.

When a remote connection breaks or a window is closed, writing to the terminal fails, and reading
from it returns end of file immediately. Some terminals also send SIGHUP, followed by SIGCONT from
the kernel.

An update sends only what differs from the screen as last sent. Textual sends whole regions, with
all attributes of each segment: 60 KB to open the filter bar on 120 × 40 cells. Over a slow
connection, each key would take seconds.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

from rich.cells import cell_len
from rich.color import ColorSystem
from rich.style import Style as RichStyle
from textual.drivers.linux_driver import LinuxDriver
from textual.strip import Strip

from nri_scope.process.signals import END_SIGNALS, stop_signals
from nri_scope.text.escape import is_narrow

_UNKNOWN = "\0"
"""Text of a cell whose content is unknown; differs from any text."""
_BRIDGE = 5
"""Maximum number of equal cells sent again, as moving the cursor takes more bytes."""
_OFF = {"1": "22", "2": "22", "3": "23", "4": "24", "5": "25", "7": "27", "9": "29"}
"""SGR codes that end attributes; others are ended by a reset."""
_INVISIBLE = frozenset(("1", "2", "3"))
"""Attributes that do not change a blank: bold, dim, italic."""


def is_gone() -> bool:
    """Return whether the terminal has disappeared."""
    stream = sys.__stdin__
    return stream is None or not os.isatty(stream.fileno())


class TerminalDriver(LinuxDriver):
    """Textual's driver, for terminals that disappear.

    Textual's writer thread ends after the first failed write, but Textual continues to fill its
    queue of 30 writes, and then blocks forever.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.sent = SentScreen()
        """The cells of the screen."""

    def start_application_mode(self) -> None:
        """Take over the terminal."""
        self.sent.forget()
        super().start_application_mode()  # type: ignore[no-untyped-call]

    def suspend(self) -> bool:
        """Stop the process group and return True once continued; False if no shell would notice.

        Programs that wait for this one, such as ``sh -c``, are of the group; helpers are not. The
        terminal is restored first, because the shell uses it as soon as one of them has stopped.
        """
        if os.getsid(0) == os.getpgrp():
            return False
        self.suspend_application_mode()
        handler = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.killpg(0, signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, handler)
        return True

    def write(self, data: str) -> None:
        """Write, unless the terminal has disappeared."""
        if not is_gone():
            super().write(data)

    def close(self) -> None:
        """Flush the output, unless the terminal has disappeared."""
        if not is_gone():
            super().close()


class EndSignals:
    """Handlers of the signals that end the program.

    They end it as the quit key does, restoring the terminal and closing the recording.
    """

    def __init__(self, end: Callable[[], None]) -> None:
        """Install the handlers. ``end`` is called in the current event loop."""
        self._end = end
        self._loop = asyncio.get_running_loop()
        self._handled = ExitStack()
        self._handled.callback(signal.signal, signal.SIGCONT, signal.getsignal(signal.SIGCONT))
        self._handled.enter_context(stop_signals(self._on_signal, signals=END_SIGNALS))

    def _on_signal(self, number: int, _words: str) -> None:
        if number == signal.SIGHUP:
            # On SIGCONT, Textual would take over the terminal again. SIGHUP is handled first, as it
            # has the lower number.
            signal.signal(signal.SIGCONT, signal.SIG_IGN)
        self._loop.call_soon_threadsafe(self._end)

    def restore(self) -> None:
        """Restore the previous signal handlers."""
        self._handled.close()


class _Sgr(NamedTuple):
    """A style as SGR codes: ``38;2;1;2;3`` is a foreground."""

    attributes: frozenset[str]
    foreground: str
    background: str

    @property
    def is_plain_blank(self) -> bool:
        """Whether a blank of this style shows only its background."""
        return self.attributes <= _INVISIBLE


_RESET = _Sgr(frozenset(), "", "")


class SentScreen:
    """The cells of the terminal, as texts and styles.

    A segment with a character of any other width than one column is a unit: its first cell has the
    whole text, its others are empty. Terminals disagree on such widths, so a row with such a unit
    is sent completely if anything in it differs.
    """

    def __init__(self) -> None:
        self._rows: dict[int, tuple[list[str], list[_Sgr]]] = {}

    def forget(self) -> None:
        """Send every cell again, because the terminal may show something else."""
        self._rows.clear()

    def update(self, pieces: Iterable[tuple[int, int, Strip]], colors: ColorSystem) -> str:
        """Return the control sequences and text of the cells that differ, and remember them.

        ``pieces``: row, first column, and content.
        """
        sequences: list[str] = []
        state = _RESET
        for y, x, strip in pieces:
            texts, styles = _cells(strip, colors)
            state = self._piece(y, x, texts, styles, state, sequences)
        if sequences:
            sequences.append("\x1b[m")
        return "".join(sequences)

    def _piece(
        self, y: int, x: int, texts: list[str], styles: list[_Sgr], state: _Sgr, out: list[str]
    ) -> _Sgr:
        row_texts, row_styles = self._rows.setdefault(y, ([], []))
        end = x + len(texts)
        if missing := end - len(row_texts):
            row_texts += [_UNKNOWN] * missing
            row_styles += [_RESET] * missing
        before, styles_before = row_texts[x:end], row_styles[x:end]
        if texts == before and styles == styles_before:
            return state
        row_texts[x:end], row_styles[x:end] = texts, styles
        if _has_unit(texts) or _has_unit(before):
            changed: Sequence[int] = range(len(texts))
        else:
            changed = [
                column
                for column, (text, old, style, old_style) in enumerate(
                    zip(texts, before, styles, styles_before, strict=True)
                )
                if text != old or (style is not old_style and not _same(text, style, old_style))
            ]
        position = None
        for column in _bridged(changed, texts, styles):
            text, style = texts[column], styles[column]
            if not text:
                continue
            if column != position:
                out.append(f"\x1b[{y + 1};{x + column + 1}H")
            if style is not state:
                sequence, state = _switch(state, style, text == " ")
                out.append(sequence)
            out.append(text)
            # After a unit, the cursor may be anywhere.
            is_unit = len(text) > 1 or not all(texts[column + 1 : column + 2])
            position = None if is_unit else column + 1
        return state


def _has_unit(texts: list[str]) -> bool:
    """Return whether the text of any cell is not one character."""
    # Faster than the length of each, and exact: only an empty text makes up for a longer one.
    return "" in texts or len("".join(texts)) != len(texts)


def _bridged(changed: Sequence[int], texts: list[str], styles: list[_Sgr]) -> Iterable[int]:
    """Yield the indices of changed cells, and of others if moving past them takes more bytes."""
    yield from changed[:1]
    for one, other in pairwise(changed):
        if 1 < other - one <= _BRIDGE + 1 and all(
            _same(texts[at], styles[at], styles[one]) for at in range(one + 1, other)
        ):
            yield from range(one + 1, other)
        yield other


def _same(text: str, style: _Sgr, other: _Sgr) -> bool:
    """Return whether ``text`` looks the same in both styles."""
    return style == other or (
        text == " "
        and style.background == other.background
        and style.is_plain_blank
        and other.is_plain_blank
    )


def _cells(strip: Strip, colors: ColorSystem) -> tuple[list[str], list[_Sgr]]:
    """Return the texts and styles of a strip's cells."""
    texts: list[str] = []
    styles: list[_Sgr] = []
    for text, style, _ in strip:
        if text.isascii() or is_narrow(text) or _is_single(text):
            texts += text
            width = len(text)
        elif width := cell_len(text):
            texts.append(text)
            texts += [""] * (width - 1)
        styles += [_RESET if style is None else _sgr(style, colors)] * width
    return texts, styles


@lru_cache(4_096)
def _is_single(text: str) -> bool:
    """Return whether each character is one column wide."""
    return all(cell_len(char) == 1 for char in text)


@lru_cache(1_024)
def _sgr(style: RichStyle, colors: ColorSystem) -> _Sgr:
    return _parsed(Strip.render_ansi(style, colors))


@lru_cache(1_024)
def _parsed(codes: str) -> _Sgr:
    """Parse SGR codes; equal styles are one object."""
    attributes: set[str] = set()
    foreground = background = ""
    parts = iter(codes.split(";") if codes else ())
    for code in parts:
        color = code
        if code in ("38", "48"):
            kind = next(parts)
            values = [next(parts) for _ in range(3 if kind == "2" else 1)]
            color = ";".join((code, kind, *values))
        if code[:1] in ("3", "9") and len(code) == 2:
            foreground = "" if code == "39" else color
        elif code[:1] in ("4", "1") and len(code) >= 2:
            background = "" if code == "49" else color
        else:
            attributes.add(code)
    return _Sgr(frozenset(attributes), foreground, background)


@lru_cache(4_096)
def _switch(state: _Sgr, style: _Sgr, is_blank: bool) -> tuple[str, _Sgr]:
    """Return the control sequence that changes the style, and the new style.

    For a blank, what it does not show is left unchanged.
    """
    if is_blank and style.is_plain_blank:
        kept = state.attributes & _INVISIBLE
        style = style._replace(attributes=kept, foreground=state.foreground)
    if style == state:
        return "", style
    ended = state.attributes - style.attributes
    # 22 ends both bold and dim.
    begun = style.attributes if ended & {"1", "2"} else style.attributes - state.attributes
    changes = sorted({_OFF.get(code, "") for code in ended}) + sorted(begun)
    if style.foreground != state.foreground:
        changes.append(style.foreground or "39")
    if style.background != state.background:
        changes.append(style.background or "49")
    whole = ["", *sorted(style.attributes), style.foreground, style.background]
    reset = ";".join(["", *filter(None, whole)])
    short = ";".join(changes)
    return f"\x1b[{reset if not all(changes) or len(reset) < len(short) else short}m", style
