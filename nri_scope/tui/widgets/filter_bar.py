# SPDX-License-Identifier: Apache-2.0
"""The input line for filters and searches, with remarks on the input below it."""

from __future__ import annotations

import asyncio
import shlex
import unicodedata
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from typing import Any, ClassVar

from rich.highlighter import Highlighter
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.widgets import Input, Label

from nri_scope.text.escape import MAX_MARKS, columns, safe

from ..actions import Keymap, Scope, bindings
from ..text.filter_text import TypedHistory, Values, check, complete
from ..textual_gaps import ShownInput

HIDDEN = "·"
"""Replaces a character that cannot be shown, one for one, so that the cursor fits."""


def shown(text: str) -> str:
    """Return ``text`` in the same length, with characters unsafe for a terminal replaced."""
    marks = 0
    parts: list[str] = []
    for char in text:
        marks = marks + 1 if unicodedata.combining(char) else 0
        parts.append(char if safe(char) == char and marks <= MAX_MARKS else HIDDEN)
    return "".join(parts)


class TextLine(ShownInput):
    """An input whose value may come from a recording, through a filter, or from a paste."""

    def __init__(self, submit: Callable[[], None], **options: Any) -> None:
        """Create the input. ``submit``: the action of Enter, run before the next key. The other
        options are Textual's.
        """
        super().__init__(**options)
        self._submit = submit

    async def action_submit(self) -> None:
        """Submit by Enter."""
        self._submit()

    def shown_value(self) -> Text:
        """Return the value, with characters unsafe for a terminal replaced."""
        text = Text(shown(self.value), no_wrap=True, overflow="ignore", end="")
        return text if self.highlighter is None else self.highlighter(text)


_SHOWN_OPTIONS = 12
"""Maximum completions shown; Tab goes through all of them."""
_LEAST_ROOM = 34
"""Minimum columns of a completion; there is room for at least one."""
_MARGIN = 8
"""Columns not available for completions: an edge, and the number of further ones."""

_PATIENCE = 1.0
"""Seconds that a key waits for the text typed before it."""


class Purpose(Enum):
    """The purpose of the line; the value is the text before it."""

    FILTER = "filter"
    SEARCH = "search"
    COMMENT = "comment"
    PLUGIN = "replay to"


class _FromProblem(Highlighter):
    """Underlines a filter from the position of its error."""

    def __init__(self) -> None:
        self.position: int | None = None

    def highlight(self, text: Text) -> None:
        if self.position is not None:
            text.stylize("underline", min(self.position, max(0, len(text) - 1)))


class FilterBar(Vertical, inherit_bindings=False):
    """The input line, hidden until it is opened."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(Scope.FILTER)
    DEFAULT_CSS = """
    FilterBar { height: auto; background: $panel; }
    FilterBar #line { height: 1; layout: horizontal; }
    FilterBar #purpose { width: auto; padding: 0 1; text-style: bold; color: $text-primary; }
    FilterBar Input { width: 1fr; height: 1; border: none; padding: 0; background: $panel; }
    FilterBar Input:focus { border: none; }
    FilterBar #said { height: auto; max-height: 3; padding: 0 1; color: $text-muted; width: 1fr; }
    FilterBar.-wrong #said { color: $text-error; }
    FilterBar.-wrong Input { color: $text-error; }
    """

    def __init__(
        self,
        keymap: Keymap,
        accepted: Callable[[Purpose, str], None],
        closed: Callable[[], None],
    ) -> None:
        """Create the line. ``accepted`` is called with the accepted text, only if it is valid in
        case of a filter; ``closed`` is called when the line is hidden after that.

        These are not messages: the next key may be waiting already, and is not for this line.
        """
        super().__init__()
        self.purpose = Purpose.FILTER
        self.values: Values = {}
        """Values for completion."""
        self._keymap = keymap
        self._when_accepted = accepted
        self._when_closed = closed
        self._histories = {purpose: TypedHistory() for purpose in Purpose}
        self._problem = _FromProblem()
        self._options: tuple[str, ...] = ()
        self._option = -1
        self._option_at = (0, 0)
        self._completing = False
        self._note = ""
        self.display = False

    def compose(self) -> ComposeResult:
        """Compose the input, and the line below it."""
        with Vertical(id="line"):
            yield Label("", id="purpose", markup=False)
            yield TextLine(self.action_accept, highlighter=self._problem, select_on_focus=False)
        yield Label("", id="said", markup=False)

    @property
    def is_open(self) -> bool:
        """Whether it is visible."""
        return self.display

    def open(self, purpose: Purpose, text: str = "", *, note: str = "") -> None:
        """Show it with the initial ``text``; ``note`` is the first text below it."""
        self.purpose = purpose
        self._note = note
        self.query_one("#purpose", Label).update(purpose.value)
        self.display = True
        line = self.query_one(Input)
        line.value = text
        line.cursor_position = len(text)
        # At once: after fast typing or a paste, more keys are on their way.
        self.screen.set_focus(line)
        self._look()

    def remember(self, text: str) -> None:
        """Add a filter to the history that was not typed here."""
        self._histories[Purpose.FILTER].add(text)

    def close(self) -> None:
        """Hide it."""
        if self.is_open:
            self.display = False
            self._when_closed()

    async def ready(self) -> None:
        """Wait until all text typed so far is in the line."""
        taken = asyncio.Event()
        if self.query_one(Input).call_later(taken.set):
            with suppress(TimeoutError):
                await asyncio.wait_for(taken.wait(), _PATIENCE)

    # -- while typing -------------------------------------------------------------------------

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        if not self._completing:
            self._options, self._option = (), -1
        self._completing = False
        self._look()

    def _look(self) -> None:
        text = self.query_one(Input).value
        key = self._keymap.first
        problem, position = "", None
        said = f"{key('accept')} accept · {key('cancel')} cancel"
        match self.purpose:
            case Purpose.FILTER:
                found = check(text)
                if found.filter is None:
                    problem, position = found.problem, found.position
                elif text.strip():
                    said = f"valid · {said} · {key('complete')} complete"
                else:
                    said = (
                        f"no filter: shows everything · {key('complete')} lists the fields · {said}"
                    )
            case Purpose.SEARCH:
                said = (
                    f"searches names, ids and changes · {said} · "
                    f"then {key('search_next')} next, {key('search_previous')} previous"
                )
            case Purpose.PLUGIN:
                problem = _problem_of_command(text)
                said = f"command line of a plugin · {self._note} · {said}"
            case Purpose.COMMENT:
                said = f"{self._note} · {said}"
        if self._options:
            said = self._options_in_words()
        self._problem.position = position
        wrong = bool(problem) and not self._options
        self.set_class(wrong, "-wrong")
        self.query_one("#said", Label).update(f"error: {safe(problem)}" if wrong else said)

    def _options_in_words(self) -> str:
        first = max(0, min(self._option, len(self._options) - _SHOWN_OPTIONS))
        while True:
            # The chosen one is visible, and so is the number of those after the visible ones.
            words = self._words_from(first)
            behind = len(self._options) - first - len(words)
            if self._option < first + len(words):
                return "  ".join([*words, f"+{behind}"] if behind else words)
            first += 1

    def _words_from(self, first: int) -> list[str]:
        """Return as many completions as fit, from one on."""
        words: list[str] = []
        room = self.size.width - _MARGIN
        for at, option in enumerate(self._options[first : first + _SHOWN_OPTIONS], first):
            word = safe(option, _LEAST_ROOM)
            word = f"[{word}]" if at == self._option else word
            if words and columns("  ".join([*words, word])) > room:
                break
            words.append(word)
        return words

    # -- actions ------------------------------------------------------------------------------

    def action_accept(self) -> None:
        """Use the text, or report its error."""
        text = self.query_one(Input).value
        self._options, self._option = (), -1
        if self.purpose is Purpose.FILTER and check(text).filter is None:
            self._look()
            return
        if self.purpose is Purpose.PLUGIN and _problem_of_command(text):
            return
        if self.purpose is not Purpose.COMMENT:
            self._histories[self.purpose].add(text)
        self._when_accepted(self.purpose, text)
        self.close()

    def action_complete(self) -> None:
        """Complete a filter's word; on repetition with the next completion."""
        if self.purpose is not Purpose.FILTER:
            return
        line = self.query_one(Input)
        if not self._options:
            found = complete(line.value, line.cursor_position, self.values)
            if not found.options:
                self.query_one("#said", Label).update("no completion found")
                return
            self._options = found.options
            self._option_at = (found.start, found.end)
        self._option = (self._option + 1) % len(self._options)
        option = self._options[self._option]
        start, end = self._option_at
        only = len(self._options) == 1
        self._completing = not only
        before = line.value
        line.value = f"{before[:start]}{option}{before[end:]}"
        if line.value == before:
            self._completing = False
            self._look()
        self._option_at = (start, start + len(option))
        line.cursor_position = start + len(option)
        if only:
            self._options, self._option = (), -1

    def action_older(self) -> None:
        """Show the previous text."""
        self._from_history(older=True)

    def action_newer(self) -> None:
        """Show the next text."""
        self._from_history(older=False)

    def _from_history(self, *, older: bool) -> None:
        line = self.query_one(Input)
        history = self._histories[self.purpose]
        line.value = history.older(line.value) if older else history.newer(line.value)
        line.cursor_position = len(line.value)

    def action_cancel(self) -> None:
        """Close the line without changes."""
        self.close()


def _problem_of_command(text: str) -> str:
    try:
        shlex.split(text)
    except ValueError as error:
        return str(error).lower()
    return ""
