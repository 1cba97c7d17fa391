# SPDX-License-Identifier: Apache-2.0
"""The screen of an app under test as text, and waiting for its content."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import Any, Generic, TypeVar

from textual.app import App
from textual.pilot import Pilot
from textual.worker import WorkerCancelled

from nri_scope.tui import polling
from nri_scope.tui.app import ScopeApp
from tests.tui import keyboard
from tests.tui.widgets.drawn import strips_of

RECORDINGS = Path(__file__).parents[2] / "recordings"
RECORDING = RECORDINGS / "containerd-2.1.nriscope.db"
A = TypeVar("A", bound=App[Any])

TIMEOUT_S = 30.0
"""Timeout of a condition, sufficient on a busy machine."""
_CHECK_INTERVAL_S = 0.005
"""Seconds between checks of the screen."""
_MAX_COUNTED_S = 0.5
"""Maximum seconds counted per check: if the machine stalls, so does the app."""

# Waiting uses a whole processor here: do not reduce polling because of the measured load.
polling.MAX_POLL_SECONDS = polling.POLL_SECONDS


class Screen(Generic[A]):
    """A running app, its screen and its keyboard."""

    def __init__(self, app: A, pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot

    def text(self) -> str:
        """Return the screen's text."""
        return "\n".join(strip.text for strip in strips_of(self.app))

    def line(self, words: str) -> str:
        """Return the first line that contains ``words``; "" if there is none."""
        return next((line for line in self.text().splitlines() if words in line), "")

    async def press(self, *keys: str) -> None:
        """Press keys."""
        await keyboard.press(self.pilot, *keys)

    async def type(self, text: str) -> None:
        """Type a text."""
        await keyboard.press(self.pilot, *text)

    async def until(self, condition: Callable[[], Any]) -> None:
        """Wait until the condition holds."""
        waited = 0.0
        while not condition():
            if waited > TIMEOUT_S:
                raise AssertionError(f"timed out; the screen shows:\n{self.text()}")
            began = monotonic()
            # Not `Pilot.pause`, which sends a message to every widget.
            await asyncio.sleep(_CHECK_INTERVAL_S)
            waited += min(monotonic() - began, _MAX_COUNTED_S)
        if waited:
            await self.pilot.pause(0)

    async def shows(self, *words: str) -> None:
        """Wait until all of ``words`` are on the screen."""

        def is_shown() -> bool:
            text = self.text()
            return all(each in text for each in words)

        await self.until(is_shown)

    async def hides(self, words: str) -> None:
        """Wait until ``words`` are not on the screen."""
        await self.until(lambda: words not in self.text())


class Shown(Screen[ScopeApp]):
    """The terminal interface, its screen and its keyboard."""

    async def go_to(self, event: int) -> None:
        """Go to an event in the list, and wait until its row has been read."""
        await self.until(lambda: self.app.views.events.go_to_event(event))
        await self.until(lambda: self.app.views.events.selected_row is not None)

    @property
    def selected(self) -> int | None:
        """Number of the event under the cursor."""
        return self.app.views.events.selected_event_id


def copy_recording(folder: Path) -> Path:
    """Copy the recording, for tests that write to it."""
    return Path(shutil.copy(RECORDING, folder / "r.nriscope.db"))


@asynccontextmanager
async def showing(
    path: Path = RECORDING, size: tuple[int, int] = (80, 24), **options: Any
) -> AsyncIterator[Shown]:
    """Run the app on a recording, without a terminal."""
    app = ScopeApp(path, **{"surveyed": False, **options})
    async with app.run_test(size=size) as pilot:
        shown = Shown(app, pilot)
        await shown.until(lambda: app.failure is not None or bool(app.query("EventList")))
        yield shown


async def settle(app: App[None], pilot: Pilot[None]) -> None:
    """Wait until no worker is running and all messages have been handled.

    A worker may be replaced by another one, and the last one may end between two checks.
    """
    await keyboard.wait_until_handled(pilot)
    while _is_at_work(app):
        with suppress(WorkerCancelled):
            await app.workers.wait_for_complete()
        await keyboard.wait_until_handled(pilot)


def _is_at_work(app: App[None]) -> bool:
    nodes = (app, *app.screen.walk_children(with_self=True))
    return any(not worker.is_finished for worker in app.workers) or any(
        node.message_queue_size for node in nodes
    )
