# SPDX-License-Identifier: Apache-2.0
"""Printing events while they are recorded, without ever holding the recorder up."""

from __future__ import annotations

import contextlib
import threading
from collections import deque

from nri_scope.cli.lines import Lines
from nri_scope.cli.output import Output
from nri_scope.recorder.model import Captured, Event
from nri_scope.recorder.records import event_record, to_json

WAITING_MAX = 10_000
"""Events that may wait for a terminal or pipe that does not take them; later ones are skipped, and
the output says how many. They are in the recording all the same."""


class Printer:
    """Prints from a thread of its own: a stopped terminal (^S) must not stop the recording."""

    def __init__(self, print_format: str) -> None:
        self._output = Output()
        self._jsonl = print_format == "jsonl"
        self._lines = Lines(colour=self._output.colour, width=self._output.width)
        self._waiting: deque[Event] = deque()
        self._skipped = 0
        self._bell = threading.Event()
        self._closing = False
        # A daemon: a reader that never reads must not keep the process alive either.
        self._thread = threading.Thread(target=self._run, name="printer", daemon=True)
        self._thread.start()

    def show(self, event: Event, captured: Captured) -> None:
        """Called by the writer's thread for each event that was stored."""
        if len(self._waiting) >= WAITING_MAX:
            self._skipped += 1
            return
        self._waiting.append(event)
        self._bell.set()

    def close(self, timeout: float = 2.0) -> None:
        """Print what still waits, for at most ``timeout`` seconds."""
        self._closing = True
        self._bell.set()
        self._thread.join(timeout)

    def _run(self) -> None:
        # Nobody reads any more: recording goes on, printing ends.
        with contextlib.suppress(BrokenPipeError):
            while True:
                self._bell.wait()
                self._bell.clear()
                self._print_waiting()
                if self._closing and not self._waiting:
                    return

    def _print_waiting(self) -> None:
        while self._waiting:
            event = self._waiting.popleft()
            if self._jsonl:
                self._output.line(to_json(event_record(event)))
            else:
                for line in self._lines.of(event):
                    self._output.line(line)
        skipped, self._skipped = self._skipped, 0
        if skipped:
            words = f"{skipped} events are recorded but not shown"
            self._output.line(to_json({"skipped": skipped}) if self._jsonl else words)
        self._output.flush()
