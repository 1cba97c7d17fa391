# SPDX-License-Identifier: Apache-2.0
"""The main screen, and modal screens of text such as the help."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen, Screen
from textual.widget import Widget
from textual.widgets import Static

from ..actions import ACTIONS, Scope, actions_of, groups, keys_of
from ..text.styled_line import Span, Style, StyledLine, line
from .lines import LinesView

MIN_COLUMNS, MIN_LINES = 40, 10
"""Minimum size of the screen; on a smaller one, no useful row fits."""
_SMALL = "-small"
CSS = f"""
App:ansi, MainScreen:ansi {{ background: $background; color: $foreground; }}
ModalScreen, CommandPalette {{ background: transparent; }}
MainScreen > #small {{ display: none; }}
App.{_SMALL} Screen > *, App.{_SMALL} CommandPalette > * {{ display: none !important; }}
App.{_SMALL} MainScreen > #small {{ display: block !important; }}
"""
"""Style sheet of the app. The screen below a modal one is not dimmed, as the terminal would receive
all of it again. On a screen that is too small, hides everything, including modal screens,
except the size message."""


class MainScreen(Screen[None], inherit_bindings=False):
    """The main screen, without Textual's own keys for screens."""

    def __init__(self) -> None:
        super().__init__(id="main")
        self._focus_before: dict[Screen[Any], Widget] = {}
        words = f"too small: needs at least {MIN_COLUMNS}×{MIN_LINES}"
        self._words = Static(words, id="small", markup=False)

    async def on_mount(self) -> None:
        """Mount the size message, unless the app is already ending."""
        if self.is_attached:
            await self.mount(self._words)

    def on_resize(self, event: events.Resize) -> None:
        """Show only the size message on a screen that is too small; else restore the content."""
        small = event.size.width < MIN_COLUMNS or event.size.height < MIN_LINES
        if small == self.app.has_class(_SMALL):
            return
        screens = self.app.screen_stack
        if small:
            self._focus_before = {
                each: each.focused for each in screens if each.focused is not None
            }
        self.app.set_class(small, _SMALL)
        if not small:
            self.call_after_refresh(self._restore_focus)

    def _restore_focus(self) -> None:
        for screen in self.app.screen_stack:
            focused = self._focus_before.get(screen)
            if focused is not None and focused.is_attached:
                screen.set_focus(focused)
            elif screen.focused is None and screen.focus_chain:
                # This screen was opened while all were hidden.
                screen.set_focus(screen.focus_chain[0])


_NOTES = (
    "*: a marked event, or a pod or container with one.",
    "Took: of an event, response time of the plugin, or of nri-scope itself in a passive "
    "recording; of an operation, time from its first request to its last reply.",
    "Of: deadline set by the runtime.",
    "existed: was there before its first recorded event, in an unknown state.",
)
"""Signs and column titles, explained below the keys."""


def help_lines(scopes: tuple[Scope, ...], available: frozenset[str]) -> list[StyledLine]:
    """Return the help on the keys of ``scopes``, for the actions named in ``available``."""
    width = max(len(keys_of(action.name)) for action in ACTIONS)
    lines: list[StyledLine] = []
    for scope in scopes:
        shown = [action for action in actions_of(scope) if action.name in available]
        # Most keys are those of the app.
        parts = groups(shown) if scope is Scope.APP else {scope.value: shown}
        for title, actions in parts.items():
            lines += [line(title, Style.STRONG)]
            lines += [
                (
                    Span(f"  {keys_of(action.name):<{width}}  ", Style.KEY),
                    Span(action.help),
                )
                for action in actions
            ]
            lines.append(line())
    return [*lines, *(line(text, Style.DIM) for text in _NOTES)]


class ReadingScreen(ModalScreen[None], inherit_bindings=False):
    """Modal screen of lines with a title. Any key that opens or closes such a screen closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,f1,enter,ctrl+c", "dismiss", show=False)
    ]
    HINT: ClassVar[str] = "Esc closes"
    DEFAULT_CSS = """
    ReadingScreen { align: center middle; }
    ReadingScreen > LinesView { width: 90%; max-width: 84; height: 90%; border: round $primary;
                            padding: 0 1; }
    """

    def __init__(
        self, title: str, lines: Sequence[StyledLine] | LinesView, *, wrap: bool = False
    ) -> None:
        """Create the screen. ``wrap``: wrap long lines."""
        super().__init__()
        self.view = lines if isinstance(lines, LinesView) else LinesView(lines, wrap=wrap)
        self.view.border_title, self.view.border_subtitle = title, self.HINT

    def compose(self) -> ComposeResult:
        """Compose the lines."""
        yield self.view


class KeyHelp(ReadingScreen):
    """The help on keys."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("slash", "search", show=False)]
    HINT = "/ finds an action, Esc closes"

    async def action_search(self) -> None:
        """Search all actions, with their keys."""
        await self.dismiss()
        await self.app.run_action("command_palette")
