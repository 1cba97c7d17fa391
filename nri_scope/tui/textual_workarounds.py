# SPDX-License-Identifier: Apache-2.0
"""Access to private parts of Textual, and workers that can be cancelled before they start.

Each private part has a test that fails if a version of Textual drops it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

from rich.console import COLOR_SYSTEMS, Console, RenderableType
from rich.text import Text
from textual import events, on
from textual._compositor import ChopsUpdate, CompositorUpdate, LayoutUpdate
from textual.app import App
from textual.dom import DOMNode
from textual.driver import Driver
from textual.filter import LineFilter, Monochrome, NoColor
from textual.geometry import Region, Size
from textual.screen import Screen
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import Input
from textual.worker import Worker

from .sent_screen import SentScreen
from .terminal import TerminalDriver


class TerminalApp(App[None], inherit_bindings=False):
    """App that sends a terminal only the cells that differ from its screen."""

    _without_color = NoColor()

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Return Textual's filters, or, if colour is disabled, one that removes all colours.

        Textual would convert them to shades of grey, which are still colours to a terminal.
        """
        filters = super().get_line_filters()
        if not self.no_color:
            return filters
        kept = [each for each in filters if not isinstance(each, Monochrome | NoColor)]
        return [*kept, self._without_color]

    def _display(self, screen: Screen[Any], renderable: RenderableType | None) -> None:
        if isinstance(self._driver, TerminalDriver) and isinstance(
            renderable, ChopsUpdate | LayoutUpdate
        ):
            renderable = cast("RenderableType", _CellUpdate(renderable, self._driver.sent))
        super()._display(screen, renderable)

    @contextmanager
    def suspend(self) -> Iterator[None]:
        """Lend the terminal to another program; unlike Textual's, take it back after an error."""
        failure: Exception | None = None
        with super().suspend():
            try:
                yield
            except Exception as error:  # noqa: BLE001 - raised below
                failure = error
        if failure is not None:
            raise failure

    @on(events.Resize)
    @on(Driver.SignalResume)
    def redraw(self) -> None:
        """Send the whole screen, because the terminal may show something else."""
        if isinstance(self._driver, TerminalDriver) and self.screen_stack:
            self._driver.sent.forget()
            self.screen.refresh()


class _CellUpdate(CompositorUpdate):
    """An update of the cells that differ. They are compared when it is sent, if it is at all."""

    def __init__(self, update: ChopsUpdate | LayoutUpdate, sent: SentScreen) -> None:
        self._update = update
        self._sent = sent

    def render_segments(self, console: Console) -> str:
        """Return the control sequences and the text."""
        colors = COLOR_SYSTEMS[console.color_system or "truecolor"]
        return self._sent.update(_pieces(self._update), colors)


def _pieces(update: ChopsUpdate | LayoutUpdate) -> Iterator[tuple[int, int, Strip]]:
    """Yield row, column and content of all parts of an update."""
    if isinstance(update, LayoutUpdate):
        for y, strips in enumerate(update.strips, update.region.y):
            yield y, update.region.x, Strip.join(list(strips))
        return
    for y, left, right in update.spans:
        for end, (x, strip) in zip(update.chop_ends[y], update.chops[y].items(), strict=False):
            if strip is not None and x <= right and end > left:
                whole = left <= x < right and end <= right
                yield y, x, strip if whole else strip.crop(0, min(end, right) - x)


async def do_bound(app: App[Any], key: str) -> bool:
    """Run the action bound to a key, for the focused widget or its ancestors; return whether there
    was one.

    `App.simulate_key` returns before the action runs. `App.active_bindings` searches all bindings
    for each key, and has no fallback if an action is skipped.
    """
    return await app._check_bindings(key)


def can_suspend(app: App[Any]) -> bool:
    """Return whether the terminal can be given to another program, as in `App.suspend`."""
    return app._driver is not None and app._driver.can_suspend


class SizedView(ScrollView, inherit_bindings=False):
    """A scroll view that is notified of every change of its size.

    Textual sends no `Resize` if a region is requested between a change of styles and the next
    layout.
    """

    _drawn_size = Size(0, 0)

    @abstractmethod
    def resized(self) -> None:
        """Adapt the content to the new size."""

    def on_resize(self) -> None:
        """Handle Textual's notification."""
        self._drawn_size = self.scrollable_content_region.size
        self.resized()

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw rows of the screen, after a check of the size."""
        # The size without scroll bars, which appear and disappear.
        if (size := self.scrollable_content_region.size) != self._drawn_size:
            self._drawn_size = size
            self.call_later(self.resized)
        return super().render_lines(crop)


class ShownInput(Input):
    """An `Input` that can display a text other than its value."""

    @abstractmethod
    def shown_value(self) -> Text:
        """Return the displayed text, of the same length as the value."""

    @property
    def _value(self) -> Text:
        return self.shown_value()


def begin(
    node: DOMNode,
    work: Callable[[], Coroutine[Any, Any, None]],
    group: str,
    *,
    exclusive: bool = False,
    exit_on_error: bool = True,
) -> Worker[None]:
    """Start a worker, which is cancelled with ``node``; ``exclusive``: cancel others of the group.

    The coroutine is created when the worker runs. A coroutine created here would warn that it was
    never awaited if the worker is cancelled before it starts.
    """
    worker: Worker[None] = node.run_worker(
        work, group=group, exclusive=exclusive, exit_on_error=exit_on_error
    )
    return worker
