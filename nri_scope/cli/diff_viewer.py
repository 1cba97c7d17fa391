# SPDX-License-Identifier: Apache-2.0
"""Print the changes of ``diff --live``, outside the process that answers the runtime."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING

from nri_scope.differ.attribution.attributed_changes import RoundDiff
from nri_scope.differ.attribution.differ import Differ
from nri_scope.differ.live.growing_recording import Seen
from nri_scope.differ.render import Renderer

from .output import Output

if TYPE_CHECKING:
    from nri_scope.filter import Filter

AHEAD_MAX = 1_000
"""Maximum number of rounds that wait for a terminal or a pipe; the recording has all others."""


class Showing:
    """Renders rounds, and prints them in a thread: a paused terminal blocks nothing else."""

    def __init__(
        self, output: Output, renderer: Renderer, title: str, where: Filter | None
    ) -> None:
        self._output = output
        self._renderer = renderer
        self._title = title
        self._where = where
        self._chosen: set[int] = set()
        """Events of future rounds that the filter matches."""
        self._lines: queue.Queue[list[str] | None] = queue.Queue(AHEAD_MAX)
        self._anything = False
        self._headed = False
        self.nobody_reads = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._print, name="output", daemon=True)
        self._thread.start()

    @property
    def changed(self) -> bool:
        """Whether any round shown had a change."""
        return self._renderer.changed

    def show(self, differ: Differ, seen: Seen) -> None:
        """Show the completed rounds; wait only while `AHEAD_MAX` are waiting."""
        self._anything = True
        if self._where is not None and seen.event is not None and self._where.matches(seen.event):
            self._chosen.add(seen.event.id)
        for one in seen.rounds:
            if self._is_chosen(one):
                self._put(self._renderer.round(one, differ.name_of))

    def finish(self) -> None:
        """Print the end, and wait until all is printed. Raise the error of printing, if any.

        If there were no events, nothing is printed.
        """
        if self._anything:
            self._put(self._renderer.end())
        self._hand_over(None)
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _is_chosen(self, one: RoundDiff) -> bool:
        if self._where is None:
            return True
        found = not self._chosen.isdisjoint(one.events)
        self._chosen -= {event for event in self._chosen if event <= max(one.events)}
        return found

    def _put(self, lines: Iterable[str]) -> None:
        told = list(lines)
        if not self._headed:
            self._headed = True
            told = [*self._renderer.head(self._title), *told]
        if told:
            self._hand_over(told)

    def _hand_over(self, lines: list[str] | None) -> None:
        while not self.nobody_reads:
            try:
                self._lines.put(lines, timeout=0.1)
                return
            except queue.Full:
                continue

    def _print(self) -> None:
        try:
            with self._output:
                while (lines := self._next()) is not None:
                    for line in lines:
                        self._output.line(line)
                    if self._lines.empty():
                        self._output.flush()
                return
        except BaseException as error:  # noqa: BLE001 - raised in the thread that waits for this one
            self._error = error
        finally:
            self.nobody_reads = True

    def _next(self) -> list[str] | None:
        """Return the lines to print next; None at the end, also if the output is no longer read."""
        while True:
            try:
                return self._lines.get(timeout=0.1)
            except queue.Empty:
                if self._output.wait(0):
                    return None
