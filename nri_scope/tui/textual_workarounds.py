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
from rich.segment import Segment
from rich.style import Style as RichStyle
from rich.text import Text
from textual import events, on
from textual._compositor import ChopsUpdate, CompositorUpdate, LayoutUpdate
from textual.app import App
from textual.dom import DOMNode
from textual.driver import Driver
from textual.filter import LineFilter, Monochrome, NoColor
from textual.geometry import Region, Size
from textual.keys import _character_to_key
from textual.screen import Screen
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollBar, ScrollBarRender
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input
from textual.worker import Worker

from .terminal import SentScreen, TerminalDriver


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


def pressed(key: str) -> events.Key:
    """Return the event of a key, which is named as in bindings."""
    is_character = len(key) == 1
    return events.Key(
        _character_to_key(key) if is_character else key, key if is_character else None
    )


def can_suspend(app: App[Any]) -> bool:
    """Return whether the terminal can be given to another program, as in `App.suspend`."""
    return app._driver is not None and app._driver.can_suspend


class _VerticalBar(ScrollBar):
    """A scroll bar that draws all its cells together.

    Textual draws each cell like a line of text: half of the time that the whole list takes.
    """

    _drawn: tuple[object, list[Strip]] = (None, [])

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw rows of the screen."""
        bar, under = self.render(), self.visual_style.rich_style
        if not isinstance(bar, ScrollBarRender) or not isinstance(bar.style, RichStyle):
            return super().render_lines(crop)
        values = (bar.virtual_size, bar.window_size, bar.position)
        state = (self.size, values, bar.style, under, *self.get_line_filters())
        if state != self._drawn[0]:
            self._drawn = state, self._strips(bar, bar.style, under)
        strips = self._drawn[1][crop.y : crop.bottom]
        whole = crop.column_span == (0, self.size.width)
        return strips if whole else [strip.crop(*crop.column_span) for strip in strips]

    def _strips(self, bar: ScrollBarRender, style: RichStyle, under: RichStyle) -> list[Strip]:
        assert style.color is not None
        assert style.bgcolor is not None
        segments = bar.render_bar(
            size=self.size.height,
            virtual_size=bar.virtual_size,
            window_size=bar.window_size,
            position=bar.position,
            thickness=self.size.width,
            back_color=style.bgcolor,
            bar_color=style.color,
        ).segments
        strips: dict[Segment, Strip] = {}
        for segment in set(segments):
            strip = Strip(Segment.apply_style([segment], under), self.size.width)
            for each in self.get_line_filters():
                strip = strip.apply_filter(each, self.background_colors[1])
            strips[segment] = strip
        return [strips[segment] for segment in segments]


class SizedView(ScrollView, inherit_bindings=False):
    """A scroll view that is notified of every change of its size.

    Textual sends no ``Resize`` if a region is requested between a change of styles and the next
    layout.
    """

    _drawn_size = Size(0, 0)
    _style_of_draw: RichStyle | None = None

    @property
    def rich_style(self) -> RichStyle:
        """The style without components, computed once per draw: Textual's walks all ancestors."""
        return self._style_of_draw or super().rich_style

    @property
    def vertical_scrollbar(self) -> ScrollBar:
        """The vertical scroll bar, created if necessary."""
        if self._vertical_scrollbar is None:
            self._vertical_scrollbar = bar = _VerticalBar(
                vertical=True, name="vertical", thickness=self.scrollbar_size_vertical
            )
            bar.display = False
            self.app._start_widget(self, bar)
        return self._vertical_scrollbar

    def resize_content(self, size: Size) -> None:
        """Change the virtual size; lay out the screen only if a scroll bar appears or disappears.

        A layout takes longer than drawing, and the content changes often while events arrive. Only
        a layout also draws the content.
        """
        before, room = self.virtual_size, self.scrollable_content_region.size
        had_bars = before.width > room.width, before.height > room.height
        if not room or had_bars != (size.width > room.width, size.height > room.height):
            self.virtual_size = size
        elif size != before:
            self.set_reactive(Widget.virtual_size, size)  # pyright: ignore[reportArgumentType]
            if self.show_vertical_scrollbar:
                self.vertical_scrollbar.window_virtual_size = size.height
            if self.show_horizontal_scrollbar:
                self.horizontal_scrollbar.window_virtual_size = size.width

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
        self._style_of_draw = super().rich_style
        try:
            return super().render_lines(crop)
        finally:
            self._style_of_draw = None


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
