# SPDX-License-Identifier: Apache-2.0
"""A line to type into that shows nothing a terminal would obey, whatever gets into it."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import Any

from rich.text import Text

from nri_scope.recorder.escape import MAX_MARKS, safe
from nri_scope.tui.textual_gaps import ShownInput

HIDDEN = "·"
"""Stands for a character that cannot be shown; one for one, so that the cursor is where it is."""


def shown(text: str) -> str:
    """``text``, as long as it is, with what must not reach a terminal replaced."""
    marks = 0
    parts: list[str] = []
    for char in text:
        marks = marks + 1 if unicodedata.combining(char) else 0
        parts.append(char if safe(char) == char and marks <= MAX_MARKS else HIDDEN)
    return "".join(parts)


class TextLine(ShownInput):
    """Its value may be from a recording, by way of a filter, or pasted from anywhere."""

    def __init__(self, submit: Callable[[], None], **options: Any) -> None:
        """``submit``: what Enter does, before the next key is looked at. The rest is Textual's."""
        super().__init__(**options)
        self._submit = submit

    async def action_submit(self) -> None:
        """Enter."""
        self._submit()

    def shown_value(self) -> Text:
        """Return the value, with what must not reach a terminal replaced."""
        text = Text(shown(self.value), no_wrap=True, overflow="ignore", end="")
        return text if self.highlighter is None else self.highlighter(text)
