# SPDX-License-Identifier: Apache-2.0
"""Two events' containers side by side, over everything else."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from nri_scope.errors import NriScopeError
from nri_scope.recorder.model import Event
from nri_scope.tui.actions import DEFAULT, bindings
from nri_scope.tui.detail.comparison import Comparison, compare
from nri_scope.tui.keymap import Keymap, Scope
from nri_scope.tui.store.reader_thread import Stop
from nri_scope.tui.store.store import Store
from nri_scope.tui.text.styled_line import Style, line
from nri_scope.tui.textual_gaps import begin
from nri_scope.tui.widgets.lines import Lines
from nri_scope.tui.widgets.reading_screen import ReadingScreen, help_lines


class _Differences(Lines, inherit_bindings=False):
    BINDINGS: ClassVar[list[BindingType]] = bindings(Scope.COMPARE)

    comparison: Comparison | None = None

    def on_resize(self) -> None:
        """Values move from beside each other to below each other, or back."""
        super().on_resize()
        self.call_after_refresh(self.lay_out)

    def lay_out(self) -> None:
        """For the width that there is now."""
        if self.comparison is not None:
            width = max(20, self.scrollable_content_region.width)
            self.show(self.comparison.lines(width), keep_position=True)


class CompareScreen(ModalScreen[None], inherit_bindings=False):
    """What differs between two events' containers. Escape closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,backspace,d,ctrl+c", "dismiss", show=False),
        Binding(",".join(DEFAULT["help"].keys), "help", show=False, id="help"),
    ]
    DEFAULT_CSS = """
    CompareScreen { align: center middle; }
    CompareScreen > Lines {
        width: 100%; height: 100%; border: round $primary; padding: 0 1;
    }
    """

    def __init__(self, store: Store, a: Event, b: Event, keymap: Keymap = DEFAULT) -> None:
        """Compare ``a``, which the changes begin with, to ``b``."""
        super().__init__()
        self._keymap = keymap
        self._store = store
        self._events = a, b
        self._stop = Stop()
        self._lines = _Differences([line("…", Style.DIM)], wrap=True)

    def compose(self) -> ComposeResult:
        """Compose the lines."""
        self._lines.border_title = "compare"
        keys = self._keymap.first("help")
        self._lines.border_subtitle = f"Esc closes · {keys} keys" if keys else "Esc closes"
        yield self._lines

    def on_mount(self) -> None:
        """Read."""
        begin(self, self._read, "compare", exclusive=True)

    def on_unmount(self) -> None:
        """End reading: the result is not waited for any more."""
        self._stop.set()

    def action_help(self) -> None:
        """Show the keys of the comparison."""
        names = frozenset(action.name for action in self._keymap.of(Scope.COMPARE))
        lines = help_lines(self._keymap, (Scope.COMPARE,), names)
        self.app.push_screen(ReadingScreen("keys of the comparison", lines))

    async def _read(self) -> None:
        a, b = self._events
        try:
            found = await self._store.run(lambda recording: compare(recording, a, b, self._stop))
        except NriScopeError as error:
            self._lines.show([line(str(error), Style.BAD)])
            return
        self._lines.comparison = found
        self._lines.lay_out()
