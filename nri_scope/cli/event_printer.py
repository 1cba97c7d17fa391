# SPDX-License-Identifier: Apache-2.0
"""Print events while they are recorded, without ever delaying the recorder.

Also the program of a process that writes a recording and prints its events.
"""

from __future__ import annotations

from nri_scope.events import CapturedCall, Event
from nri_scope.logger.background_output import Background
from nri_scope.logger.writer_main import serve
from nri_scope.recording.records import to_json

from .log_lines import LogPrinter
from .output import Output

WAITING_MAX = 10_000
"""Maximum number of events that wait for a slow terminal or pipe; later ones are skipped, and the
output shows how many. The recording still has them."""


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
        """Queue an event. Called by the writer's thread for each event that was stored."""
        self._background.put(event)

    def close(self) -> None:
        """Print the events that are still waiting, for a limited time."""
        self._background.close()

    def _print_skipped(self, count: int) -> None:
        words = f"{count} events are recorded but not shown"
        self._output.line(to_json({"skipped": count}) if self._jsonl else words)


def main(descriptor: int, print_format: str) -> int:
    """Write the entries received through a channel, and print them; return the exit status."""
    printer = Printer(print_format)
    return serve(descriptor, printer.show, printer.close)
