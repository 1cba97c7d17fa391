# SPDX-License-Identifier: Apache-2.0
"""Something to read, over everything else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from nri_scope.tui.model.line import Line
from nri_scope.tui.widgets.lines import Lines


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

    def __init__(self, title: str, lines: Sequence[Line], *, wrap: bool = False) -> None:
        """``wrap``: lines may be longer than there is room."""
        super().__init__()
        self._title = title
        self._lines = lines
        self._wrap = wrap

    def compose(self) -> ComposeResult:
        """The lines."""
        lines = Lines(self._lines, wrap=self._wrap)
        lines.border_title = self._title
        lines.border_subtitle = "Esc closes"
        yield lines
