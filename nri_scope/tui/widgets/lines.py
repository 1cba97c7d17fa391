# SPDX-License-Identifier: Apache-2.0
"""Any number of styled lines to scroll through, with a cursor where one is wanted.

Only what is on the screen is ever laid out, and of a line only its beginning: neither a million
lines nor one of many megabytes take time.
"""

from __future__ import annotations

from typing import ClassVar

from textual.binding import BindingType
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView

from nri_scope.tui.bindings import bindings
from nri_scope.tui.model.keys import Scope
from nri_scope.tui.model.line import Line, Part, Source, Style

MAX_CHARACTERS = 4_000
"""Of one line that are shown; behind them stands how many there are."""
MAX_WRAPPED = 20_000
"""Lines up to which they can be wrapped: the height of each has to be known."""
_MEASURED = 2_000
"""Lines whose width is looked at before they are on the screen."""
_KEPT = 1_024
"""Lines that stay laid out."""
_WAITING: Line = (Part("…", Style.DIM),)


class Lines(ScrollView, can_focus=True, inherit_bindings=False):
    """Lines to read.

    ``cursor``: one line is marked, and moves with the keys; without it they scroll.
    ``empty``: what stands in the place of no lines.

    No text is taken for markup, and all of it goes through `safe`.
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings(Scope.DETAIL)
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "lines--cursor",
        "lines--match",
        *(f"lines--{style}" for style in Style if style),
    }
    DEFAULT_CSS = """
    Lines {
        background: $background;
        color: $foreground;
        scrollbar-gutter: auto;
        scrollbar-size-horizontal: 1;
    }
    Lines > .lines--strong { text-style: bold; }
    Lines > .lines--dim { color: $text-muted; }
    Lines > .lines--key { color: $text-primary; }
    Lines > .lines--good { color: $text-success; }
    Lines > .lines--bad { color: $text-error; }
    Lines > .lines--warn { color: $text-warning; }
    Lines > .lines--note { color: $text-accent; }
    Lines > .lines--match { text-style: reverse; }
    Lines > .lines--cursor { background: $block-cursor-blurred-background; }
    Lines:focus > .lines--cursor {
        background: $block-cursor-background;
        color: $block-cursor-foreground;
    }
    """

    wrap: reactive[bool] = reactive(False)
    """Long lines go on in the next row; else they are scrolled to sideways."""
    highlight: reactive[str] = reactive("")
    """Text that is highlighted wherever it is shown, in upper or lower case."""
    cursor: reactive[int] = reactive(0)
    """The index of the line under the cursor; 0 where there is none."""

    class Moved(Message):
        """The cursor is on another line."""

        def __init__(self, lines: Lines, index: int) -> None:
            super().__init__()
            self.lines = lines
            self.index = index

        @property
        def control(self) -> Lines:
            """Which widget it is about."""
            return self.lines

    class Opened(Moved):
        """Enter, or a click on the line under the cursor."""

    def __init__(
        self,
        source: Source = (),
        *,
        cursor: bool = False,
        wrap: bool = False,
        empty: str = "",
        name: str | None = None,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(name=name, id=id, classes=classes)
        self.has_cursor = cursor
        self.empty = empty
        self._source = source
        self.set_reactive(Lines.wrap, wrap)

    @property
    def source(self) -> Source:
        """What is shown."""
        return self._source

    def show(self, source: Source, *, keep_position: bool = False) -> None:
        """Show other lines: from the beginning, or where the old ones were scrolled to."""
        raise NotImplementedError

    def changed(self, first: int = 0, count: int | None = None) -> None:
        """Lines of the source are others now, or there are more or fewer."""
        raise NotImplementedError

    def go_to(self, index: int) -> None:
        """Show a line, with the cursor on it where there is one."""
        raise NotImplementedError

    async def find(self, text: str, start: int, *, forwards: bool = True) -> int | None:
        """The next line from `start` on, in that direction, that shows `text`; None: no line does.

        In upper or lower case. Lines that are still to come are passed over.
        """
        raise NotImplementedError
