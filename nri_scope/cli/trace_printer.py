# SPDX-License-Identifier: Apache-2.0
"""Print a plugin's requests and replies as they happen, like strace.

`main` is the entry point of a process that writes the recording of a tap and prints the trace.
"""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress
from time import time_ns
from typing import NamedTuple

from nri_scope.events import CapturedCall, Event
from nri_scope.logger.background_output import Background
from nri_scope.nri.plain import Plain
from nri_scope.recorder.inbox import ShownLine
from nri_scope.recording.records import rfc3339, to_json
from nri_scope.writer.main import serve

from .output import Output
from .trace_lines import Exchange, TraceLines

WAITING_MAX = 10_000
"""Maximum number of items queued for a slow terminal or pipe. Later exchanges are recorded but not
printed, and the output shows the number of skipped items."""
WAITING_BYTES_MAX = 16 << 20
"""Maximum number of bytes of queued messages; further exchanges are printed without messages."""


OUTPUT_DELAY_S = 0.12
"""Seconds that a plugin's output waits for earlier exchanges, which the recorder forwards once they
are written, up to 50 ms later."""


class _OutputTurn(NamedTuple):
    """Queue entry that prints the waiting output: now if ``ready``, else after `OUTPUT_DELAY_S`."""

    ready: bool


class Trace:
    """Printer of recorded exchanges, and of plugins' output.

    Its methods can be called from any thread, and never block or raise. Only `close` waits.
    """

    def __init__(
        self,
        print_format: str,
        *,
        several: bool = False,
    ) -> None:
        """Start the output. ``print_format``: text or jsonl. ``several``: show the plugin in each
        line of text.
        """
        self._output = Output()
        self._jsonl = print_format == "jsonl"
        self._lines = TraceLines(
            width=self._output.width,
            with_plugin=several,
            with_tap=True,
        )
        # Each of the two counters is changed by one thread only.
        self._bytes_in = self._bytes_out = 0
        self._output_lines: deque[ShownLine] = deque(maxlen=WAITING_MAX)
        self._closing = threading.Event()
        self._background = Background[Exchange | _OutputTurn](
            self._print,
            flush=self._output.flush,
            skipped=self._print_skipped,
            waiting_max=WAITING_MAX,
        )

    def show(self, event: Event, captured: CapturedCall) -> None:
        """Queue one exchange that was recorded."""
        size = len(captured.request) + len(captured.reply)
        if self._bytes_in - self._bytes_out + size > WAITING_BYTES_MAX:
            self._background.put(Exchange(event, None))
            return
        self._bytes_in += size
        self._background.put(Exchange(event, captured))

    def printed(self, line: ShownLine) -> None:
        """Queue a line that a plugin printed."""
        self._output_lines.append(line)
        self._background.put(_OutputTurn(ready=False))

    def close(self) -> None:
        """Print the queued lines, within a limited time."""
        self._closing.set()
        self._background.put(_OutputTurn(ready=True))
        self._background.close()

    def _print(self, item: Exchange | _OutputTurn) -> None:
        if isinstance(item, _OutputTurn):
            self._take_turn(item)
            return
        if item.captured is not None:
            self._bytes_out += len(item.captured.request) + len(item.captured.reply)
        with suppress(Exception):
            # Also for exchanges that are not printed.
            self._lines.learn(item)
        self._print_output(item.event.at_ns)
        try:
            lines = self._rendered(item)
        except Exception:  # noqa: BLE001 - a peer's message must not end the trace
            lines = self._rendered(item._replace(captured=None))
        for line in lines:
            self._output.line(line)

    def _take_turn(self, turn: _OutputTurn) -> None:
        if turn.ready:
            self._print_output(
                None if self._closing.is_set() else time_ns() - int(OUTPUT_DELAY_S * 1e9)
            )
        elif self._output_lines:
            left = OUTPUT_DELAY_S - (time_ns() - self._output_lines[0].at_ns) / 1e9
            if 0 < left <= OUTPUT_DELAY_S:
                self._closing.wait(left)
            # Behind the exchanges that were queued meanwhile.
            self._background.put(_OutputTurn(ready=True))

    def _rendered(self, item: Exchange) -> list[str]:
        return [to_json(self._lines.record(item))] if self._jsonl else self._lines.of(item)

    def _print_output(self, until_ns: int | None) -> None:
        """Print the plugins' output from before ``until_ns``; None: all."""
        lines = self._output_lines
        while lines and (until_ns is None or lines[0].at_ns < until_ns):
            self._print_line(lines.popleft())

    def _print_line(self, printed: ShownLine) -> None:
        if self._jsonl:
            line: dict[str, Plain] = {"at": rfc3339(printed.at_ns), "plugin": printed.plugin}
            line |= {"stream": printed.stream, "text": printed.text}
            self._output.line(to_json({"output": line}))
            return
        for text in self._lines.printed(
            printed.at_ns, printed.plugin, printed.stream, printed.text
        ):
            self._output.line(text)

    def _print_skipped(self, count: int) -> None:
        text = f"{count} lines were not printed; recorded events are in the recording"
        self._output.line(to_json({"skipped": count}) if self._jsonl else text)


def main(descriptor: int, print_format: str, *several: str) -> int:
    """Write and print what is received through a channel; return the exit status."""
    trace = Trace(print_format, several=bool(several))
    return serve(descriptor, trace.show, trace.printed, trace.close)
