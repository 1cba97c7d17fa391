# SPDX-License-Identifier: Apache-2.0
"""The line that filters and searches are typed into, with what is to be said about them below."""

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
"""Stands for a character that cannot be shown; one for one, so that the cursor is where it is."""


def shown(text: str) -> str:
    """Return ``text``, as long as it is, with what must not reach a terminal replaced."""
    marks = 0
    parts: list[str] = []
    for char in text:
        marks = marks + 1 if unicodedata.combining(char) else 0
        parts.append(char if safe(char) == char and marks <= MAX_MARKS else HIDDEN)
    return "".join(parts)


class TextLine(ShownInput):
    """Its value may be from a recording, by way of a filter, or pasted from anywhere."""

    def __init__(self, submit: Callable[[], None], **options: Any) -> None:
        """Make the bar. ``submit``: what Enter does, before the next key is looked at. The rest is
        Textual's.
        """
        super().__init__(**options)
        self._submit = submit

    async def action_submit(self) -> None:
        """Submit by Enter."""
        self._submit()

    def shown_value(self) -> Text:
        """Return the value, with what must not reach a terminal replaced."""
        text = Text(shown(self.value), no_wrap=True, overflow="ignore", end="")
        return text if self.highlighter is None else self.highlighter(text)


_SHOWN_OPTIONS = 12
"""Completions that are shown; Tab goes through all of them."""
_LEAST_ROOM = 34
"""Columns of a completion; there is room for one at least."""
_MARGIN = 8
"""Columns that are not for completions: an edge, and how many more there are."""

_PATIENCE = 1.0
"""Seconds that a key waits for what was typed before it."""


class Purpose(Enum):
    """The purpose of the line; the text stands before it."""

    FILTER = "filter"
    SEARCH = "search"
    COMMENT = "comment"
    PLUGIN = "replay to"


class _FromProblem(Highlighter):
    """Underlines a filter from where it is wrong."""

    def __init__(self) -> None:
        self.position: int | None = None

    def highlight(self, text: Text) -> None:
        if self.position is not None:
            text.stylize("underline", min(self.position, max(0, len(text) - 1)))


class FilterBar(Vertical, inherit_bindings=False):
    """Hidden until it is asked for."""

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
        """Call ``accepted`` with what was typed and is to be used, a filter only where it is right;
        ``closed``, after that, that the line is away again.

        Not by messages: the next key may be waiting already, and is not for this line.
        """
        super().__init__()
        self.purpose = Purpose.FILTER
        self.values: Values = {}
        """For completion."""
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
        """Compose the line, and the one below it."""
        with Vertical(id="line"):
            yield Label("", id="purpose", markup=False)
            yield TextLine(self.action_accept, highlighter=self._problem, select_on_focus=False)
        yield Label("", id="said", markup=False)

    @property
    def is_open(self) -> bool:
        """Whether it can be seen."""
        return self.display

    def open(self, purpose: Purpose, text: str = "", *, note: str = "") -> None:
        """Show it, beginning with ``text``; ``note`` stands first below it."""
        self.purpose = purpose
        self._note = note
        self.query_one("#purpose", Label).update(purpose.value)
        self.display = True
        line = self.query_one(Input)
        line.value = text
        line.cursor_position = len(text)
        # At once: who types fast, or pastes, has more keys under way.
        self.screen.set_focus(line)
        self._look()

    def remember(self, text: str) -> None:
        """Keep a filter in the history that was not typed here."""
        self._histories[Purpose.FILTER].add(text)

    def close(self) -> None:
        """Hide it."""
        if self.is_open:
            self.display = False
            self._when_closed()

    async def ready(self) -> None:
        """Wait until all that was typed so far is in the line."""
        taken = asyncio.Event()
        if self.query_one(Input).call_later(taken.set):
            with suppress(TimeoutError):
                await asyncio.wait_for(taken.wait(), _PATIENCE)

    # -- while it is typed --------------------------------------------------------------------

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
        said = f"{key('accept')} use it · {key('cancel')} cancel"
        match self.purpose:
            case Purpose.FILTER:
                found = check(text)
                if found.filter is None:
                    problem, position = found.problem, found.position
                elif text.strip():
                    said = f"fine · {said} · {key('complete')} complete"
                else:
                    said = f"everything passes · {key('complete')} names the fields · {said}"
            case Purpose.SEARCH:
                said = (
                    f"text in names, ids, changes · {said} · "
                    f"then {key('search_next')} and {key('search_previous')}"
                )
            case Purpose.PLUGIN:
                problem = _problem_of_command(text)
                said = f"the command that starts a plugin · {self._note} · {said}"
            case Purpose.COMMENT:
                said = f"{self._note} · {said}"
        if self._options:
            said = self._options_in_words()
        self._problem.position = position
        wrong = bool(problem) and not self._options
        self.set_class(wrong, "-wrong")
        self.query_one("#said", Label).update(f"wrong: {safe(problem)}" if wrong else said)

    def _options_in_words(self) -> str:
        first = max(0, min(self._option, len(self._options) - _SHOWN_OPTIONS))
        while True:
            # The chosen one can be seen, and how many there are behind those that can be.
            words = self._words_from(first)
            behind = len(self._options) - first - len(words)
            if self._option < first + len(words):
                return "  ".join([*words, f"+{behind}"] if behind else words)
            first += 1

    def _words_from(self, first: int) -> list[str]:
        """Return as many completions as there is room for, from one on."""
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
        """Use what was typed, unless it is wrong: then it says what is wrong."""
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
        """Complete a filter's word; again: the next way to do so."""
        if self.purpose is not Purpose.FILTER:
            return
        line = self.query_one(Input)
        if not self._options:
            found = complete(line.value, line.cursor_position, self.values)
            if not found.options:
                self.query_one("#said", Label).update("nothing is known that this could be")
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
        """Show what was typed before."""
        self._from_history(older=True)

    def action_newer(self) -> None:
        """Show what was typed after it."""
        self._from_history(older=False)

    def _from_history(self, *, older: bool) -> None:
        line = self.query_one(Input)
        history = self._histories[self.purpose]
        line.value = history.older(line.value) if older else history.newer(line.value)
        line.cursor_position = len(line.value)

    def action_cancel(self) -> None:
        """Leave everything as it was."""
        self.close()


def _problem_of_command(text: str) -> str:
    try:
        shlex.split(text)
    except ValueError as error:
        return str(error).lower()
    return ""
