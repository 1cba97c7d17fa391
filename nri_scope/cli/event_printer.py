# SPDX-License-Identifier: Apache-2.0
"""Print events as they are recorded, without delaying the recorder.

`main` is the entry point of a process that writes a recording and prints its events.
"""

from __future__ import annotations

from nri_scope.events import CapturedCall, Event
from nri_scope.logger.background_output import Background
from nri_scope.recording.records import to_json
from nri_scope.writer.main import serve

from .log_lines import LogPrinter
from .output import Output

WAITING_MAX = 10_000
"""Maximum number of events queued for a slow terminal or pipe. Later events are recorded but not
printed, and the output shows their number."""


class Printer:
    """Prints events as they are recorded, as `log` does."""

    def __init__(self, print_format: str) -> None:
        self._output = Output()
        self._jsonl = print_format == "jsonl"
        self._background = Background[Event](
            LogPrinter(self._output, jsonl=self._jsonl).print,
            flush=self._output.flush,
            skipped=self._print_skipped,
            waiting_max=WAITING_MAX,
        )

    def show(self, event: Event, captured: CapturedCall) -> None:
        """Queue an event. Called in the writer's thread for each stored event."""
        self._background.put(event)

    def close(self) -> None:
        """Print the queued events, within a limited time."""
        self._background.close()

    def _print_skipped(self, count: int) -> None:
        text = f"{count} events were recorded but not printed"
        self._output.line(to_json({"skipped": count}) if self._jsonl else text)


def main(descriptor: int, print_format: str) -> int:
    """Write and print the events received through a channel; return the exit status."""
    printer = Printer(print_format)
    return serve(descriptor, printer.show, finish=printer.close)
