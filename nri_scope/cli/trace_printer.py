# SPDX-License-Identifier: Apache-2.0
"""Print a plugin's requests and replies while they happen, as strace does."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from time import time_ns
from typing import NamedTuple

from nri_scope.events import CapturedCall, Event
from nri_scope.logger.background_output import Background
from nri_scope.nri.plain import Plain
from nri_scope.recording.records import rfc3339, to_json

from .output import Output
from .trace_lines import Exchange, TraceLines

WAITING_MAX = 10_000
"""Maximum number of lines that wait for a slow terminal or pipe; later ones are skipped, and the
output shows how many. The recording still has them."""
WAITING_BYTES_MAX = 16 << 20
"""Maximum number of bytes of waiting messages; later lines are printed without their messages."""


BEHIND = 0.12
"""Seconds that a line waits for earlier exchanges: a recorder passes these on when they are
written, up to 50 ms later."""


class _Said(NamedTuple):
    at_ns: int
    plugin: str
    stream: str
    text: str


class _Turn(NamedTuple):
    """A mark in the queue: print waiting lines now, or once earlier exchanges are printed."""

    ready: bool


class Trace:
    """Prints exchanges as they are recorded, and lines that plugins print.

    Its methods may be called from any thread, never wait and never raise.
    """

    def __init__(
        self,
        print_format: str,
        *,
        several: bool = False,
        redact: Callable[[str], str] | None = None,
    ) -> None:
        """Start the output. ``print_format``: text or jsonl. ``several``: show the plugin in each
        line of text. ``redact``: applied to lines that plugins print; exchanges are already as they
        were recorded.
        """
        self._output = Output()
        self._jsonl = print_format == "jsonl"
        self._redact = redact
        self._lines = TraceLines(
            width=self._output.width,
            with_plugin=several,
            with_tap=True,
        )
        # Each of the two counters is changed by one thread only.
        self._bytes_in = self._bytes_out = 0
        self._said: deque[_Said] = deque(maxlen=WAITING_MAX)
        self._closing = threading.Event()
        self._background = Background[Exchange | _Turn](
            self._print,
            flush=self._output.flush,
            skipped=self._print_skipped,
            waiting_max=WAITING_MAX,
        )

    def show(self, event: Event, captured: CapturedCall) -> None:
        """Print one exchange, which a recorder has stored."""
        size = len(captured.request) + len(captured.reply)
        if self._bytes_in - self._bytes_out + size > WAITING_BYTES_MAX:
            self._background.put(Exchange(event, None))
            return
        self._bytes_in += size
        self._background.put(Exchange(event, captured))

    def said(self, at_ns: int, plugin: str, stream: str, text: str) -> None:
        """Print a line of a plugin's ``stream``: stdout or stderr. ``at_ns``: wall clock."""
        self._said.append(_Said(at_ns, plugin, stream, text))
        self._background.put(_Turn(ready=False))

    def close(self) -> None:
        """Print the lines that are still waiting, for a limited time."""
        self._closing.set()
        self._background.put(_Turn(ready=True))
        self._background.close()

    def _print(self, item: Exchange | _Turn) -> None:
        if isinstance(item, _Turn):
            self._take_turn(item)
            return
        if item.captured is not None:
            self._bytes_out += len(item.captured.request) + len(item.captured.reply)
        with suppress(Exception):
            # Exchanges that are not shown have names, too.
            self._lines.learn(item)
        self._print_said(item.event.at_ns)
        try:
            lines = self._rendered(item)
        except Exception:  # noqa: BLE001 - what a peer sent must not end the trace
            lines = self._rendered(item._replace(captured=None))
        for line in lines:
            self._output.line(line)

    def _take_turn(self, turn: _Turn) -> None:
        if turn.ready:
            self._print_said(None if self._closing.is_set() else time_ns() - int(BEHIND * 1e9))
        elif self._said:
            left = BEHIND - (time_ns() - self._said[0].at_ns) / 1e9
            if 0 < left <= BEHIND:
                self._closing.wait(left)
            # After all exchanges received meanwhile.
            self._background.put(_Turn(ready=True))

    def _rendered(self, item: Exchange) -> list[str]:
        return [to_json(self._lines.record(item))] if self._jsonl else self._lines.of(item)

    def _print_said(self, until_ns: int | None) -> None:
        """Print the lines that plugins printed before ``until_ns``; None: all of them."""
        while self._said and (until_ns is None or self._said[0].at_ns < until_ns):
            self._print_line(self._said.popleft())

    def _print_line(self, said: _Said) -> None:
        if self._redact is not None:
            said = said._replace(text=self._redact(said.text))
        if self._jsonl:
            line: dict[str, Plain] = {"at": rfc3339(said.at_ns), "plugin": said.plugin}
            line |= {"stream": said.stream, "text": said.text}
            self._output.line(to_json({"output": line}))
            return
        for text in self._lines.said(said.at_ns, said.plugin, said.stream, said.text):
            self._output.line(text)

    def _print_skipped(self, count: int) -> None:
        words = f"{count} lines are not shown; what was recorded is in the recording"
        self._output.line(to_json({"skipped": count}) if self._jsonl else words)
