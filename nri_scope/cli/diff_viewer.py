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
"""Maximum number of rounds queued for a slow terminal or pipe; more stay in the recording only
until the queue has room."""


class Showing:
    """Renders rounds, and prints them in a thread, so that a paused terminal blocks only it."""

    def __init__(
        self, output: Output, renderer: Renderer, title: str, where: Filter | None
    ) -> None:
        self._output = output
        self._renderer = renderer
        self._title = title
        self._where = where
        self._selected: set[int] = set()
        """Ids of events that the filter matches, until their round is complete."""
        self._lines: queue.Queue[list[str] | None] = queue.Queue(AHEAD_MAX)
        self._has_events = False
        self._has_title = False
        self.has_no_reader = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._print, name="output", daemon=True)
        self._thread.start()

    @property
    def changed(self) -> bool:
        """Whether any printed round had a change."""
        return self._renderer.changed

    def show(self, differ: Differ, seen: Seen) -> None:
        """Queue the completed rounds for printing; block only while the queue is full."""
        self._has_events = True
        if self._where is not None and seen.event is not None and self._where.matches(seen.event):
            self._selected.add(seen.event.id)
        for one in seen.rounds:
            if self._is_selected(one):
                self._put(self._renderer.round(one, differ.name_of))

    def finish(self) -> None:
        """Print the end, and wait for the printing thread. Raise its error, if any.

        Without events, nothing is printed.
        """
        if self._has_events:
            self._put(self._renderer.end())
        self._hand_over(None)
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _is_selected(self, one: RoundDiff) -> bool:
        if self._where is None:
            return True
        found = not self._selected.isdisjoint(one.events)
        self._selected -= {event for event in self._selected if event <= max(one.events)}
        return found

    def _put(self, lines: Iterable[str]) -> None:
        output = list(lines)
        if not self._has_title:
            self._has_title = True
            output = [*self._renderer.head(self._title), *output]
        if output:
            self._hand_over(output)

    def _hand_over(self, lines: list[str] | None) -> None:
        while not self.has_no_reader:
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
            self.has_no_reader = True

    def _next(self) -> list[str] | None:
        """Return the next lines to print; None at the end, or once the output has no reader."""
        while True:
            try:
                return self._lines.get(timeout=0.1)
            except queue.Empty:
                if self._output.wait(0):
                    return None
