# SPDX-License-Identifier: Apache-2.0
"""A screen of lines over everything else, such as the help."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from nri_scope.tui.keymap import Keymap, Scope
from nri_scope.tui.text.styled_line import Span, Style, StyledLine, line
from nri_scope.tui.widgets.lines import Lines

_TEXTS = (
    "A * stands before a marked event. Took is the time of our own answer,",
    "Of the deadline that the runtime set.",
)


def help_lines(
    keymap: Keymap, scopes: tuple[Scope, ...], available: frozenset[str]
) -> list[StyledLine]:
    """All keys of ``scopes``; ``available``: the names of actions that there are."""
    width = max((len(keymap.shown(action.name)) for action in keymap), default=0)
    lines: list[StyledLine] = []
    for scope in scopes:
        lines += [line(scope.value, Style.STRONG)]
        lines += [
            (
                Span(f"  {keymap.shown(action.name):<{width}}  ", Style.KEY),
                Span(action.help),
            )
            for action in keymap.of(scope)
            if action.keys and action.name in available
        ]
        lines.append(line())
    return [*lines, *(line(text, Style.DIM) for text in _TEXTS)]


class ReadingScreen(ModalScreen[None], inherit_bindings=False):
    """Lines with a title. Any of the keys that open or close such a thing closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,f1,enter,ctrl+c", "dismiss", show=False)
    ]
    DEFAULT_CSS = """
    ReadingScreen { align: center middle; }
    ReadingScreen > Lines { width: 90%; max-width: 84; height: 90%; border: round $primary;
                            padding: 0 1; }
    """

    def __init__(self, title: str, lines: Sequence[StyledLine], *, wrap: bool = False) -> None:
        """``wrap``: lines may be longer than there is room."""
        super().__init__()
        self._title = title
        self._lines = lines
        self._wrap = wrap

    def compose(self) -> ComposeResult:
        """Compose the lines."""
        lines = Lines(self._lines, wrap=self._wrap)
        lines.border_title = self._title
        lines.border_subtitle = "Esc closes"
        yield lines
