# SPDX-License-Identifier: Apache-2.0
"""The input line for filters, searches, comments, commands and new files, and for questions."""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

from rich.highlighter import Highlighter
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.widget import Widget
from textual.widgets import Input, Label

from nri_scope.errors import UsageError
from nri_scope.filter import TimeSpan
from nri_scope.filter.moments import event_or_moment
from nri_scope.text.escape import MAX_MARKS, columns, safe

from ..actions import Scope, bindings
from ..actions import key_of as key
from ..text.filter_text import TypedHistory, Values, check, complete
from ..textual_workarounds import ShownInput

HIDDEN = "·"
"""Replaces each unsafe character one for one, so that cursor positions stay valid."""


def shown(text: str) -> str:
    """Replace characters unsafe for a terminal by `HIDDEN`, keeping the length."""
    marks = 0
    parts: list[str] = []
    for char in text:
        marks = marks + 1 if unicodedata.combining(char) else 0
        parts.append(char if safe(char) == char and marks <= MAX_MARKS else HIDDEN)
    return "".join(parts)


class TextLine(ShownInput):
    """An input whose value may come from a recording, through a filter, or from a paste."""

    def __init__(self, submit: Callable[[], None], **options: Any) -> None:
        """Create the input. ``submit`` is called on Enter, before the next key is handled.

        Other options are passed to Textual.
        """
        super().__init__(**options)
        self._submit = submit

    async def action_submit(self) -> None:
        """Handle Enter."""
        self._submit()

    def shown_value(self) -> Text:
        """Return the value with unsafe characters replaced."""
        text = Text(shown(self.value), no_wrap=True, overflow="ignore", end="")
        return text if self.highlighter is None else self.highlighter(text)


_SHOWN_OPTIONS = 12
"""Maximum completions shown; Tab cycles through all."""
_COMPLETION_COLUMNS = 34
"""Maximum columns of a completion, so that at least one fits."""
_MARGIN = 8
"""Columns reserved for the edges and the number of hidden completions."""

_MAX_WAIT_S = 1.0
"""Maximum seconds for which a key waits for previously typed text."""


async def text_processed(field: Widget) -> None:
    """Wait until a field has processed all text typed so far."""
    processed = asyncio.Event()
    if field.call_later(processed.set):
        with suppress(TimeoutError):
            await asyncio.wait_for(processed.wait(), _MAX_WAIT_S)


class Purpose(Enum):
    """The purpose of the input; the value is its label."""

    FILTER = "filter"
    SEARCH = "search"
    GO_TO = "go to"
    COMMENT = "comment"
    QUESTION = "which"
    """A question answered by one key, without text; see `FilterBar.ask`."""
    FORM = "form"
    """Several fields, with labels of their own; see `FilterBar.fill`."""


@dataclass(frozen=True, slots=True)
class AnswerChoice:
    """An answer to a question."""

    words: str
    chosen: Callable[[], object]


@dataclass(slots=True)
class FormField:
    """A field of a form."""

    label: str
    text: str
    choices: tuple[str, ...] = ()
    """The valid texts; () for any text."""

    @property
    def problem(self) -> str:
        """Why the text is invalid; "" if it is valid."""
        if self.choices and self.text not in self.choices:
            return f"{self.label} is one of: {', '.join(self.choices)}"
        return ""

    @property
    def words(self) -> str:
        """The field as part of the remark."""
        return f"{self.label}: {shown(self.text)}" if self.text.strip() else f"no {self.label}"


class _ErrorHighlighter(Highlighter):
    """Underlines the filter from the position of its error to the end."""

    def __init__(self) -> None:
        self.position: int | None = None

    def highlight(self, text: Text) -> None:
        if self.position is not None:
            text.stylize("underline", min(self.position, max(0, len(text) - 1)))


class FilterBar(Vertical, inherit_bindings=False):
    """The input line and the remark below it, hidden until opened."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(Scope.FILTER)
    DEFAULT_CSS = """
    FilterBar { height: auto; background: $panel; }
    FilterBar #line { height: 1; layout: horizontal; }
    FilterBar #purpose { width: auto; padding: 0 1; text-style: bold; color: $text-primary; }
    FilterBar Input { width: 1fr; height: 1; border: none; padding: 0; background: $panel; }
    FilterBar Input:focus { border: none; }
    FilterBar #remark { height: auto; max-height: 3; padding: 0 1; color: $text-muted; width: 1fr; }
    FilterBar.-wrong #remark { color: $text-error; }
    FilterBar.-wrong Input { color: $text-error; }
    """

    def __init__(
        self,
        accepted: Callable[[Purpose, str], None],
        closed: Callable[[], None],
    ) -> None:
        """Create the bar. ``accepted`` is called with the accepted text, which is valid if it is a
        filter or a command; ``closed`` is called after the bar was hidden.

        They are callbacks instead of messages, because the next key may already be queued and
        belongs to another widget.
        """
        super().__init__()
        self.purpose = Purpose.FILTER
        self.values: Values = {}
        """Known values by field, for completion."""
        self.span: Callable[[], TimeSpan | None] = lambda: None
        """Times of the recording, on which those of a filter depend."""
        self.commands: Mapping[str, Callable[[], object]] = {}
        """What else than a place can be typed to go to, such as the name of a view."""
        self._when_accepted = accepted
        self._when_closed = closed
        self._histories = {purpose: TypedHistory() for purpose in Purpose}
        self._problem = _ErrorHighlighter()
        self._options: tuple[str, ...] = ()
        self._option = -1
        self._option_at = (0, 0)
        self._completing = False
        self._note = ""
        self._choices: Mapping[str, AnswerChoice] = {}
        self._fields: Sequence[FormField] = ()
        self._field = 0
        """Index of the field in the line."""
        self._filled: Callable[[Sequence[str]], object] = lambda _: None
        self.display = False

    def compose(self) -> ComposeResult:
        """Compose the input and the remark below it."""
        with Vertical(id="line"):
            yield Label("", id="purpose", markup=False)
            yield TextLine(self.action_accept, highlighter=self._problem, select_on_focus=False)
        yield Label("", id="remark", markup=False)

    @property
    def is_open(self) -> bool:
        """Whether the bar is visible."""
        return self.display

    def open(self, purpose: Purpose, text: str = "", *, note: str = "") -> None:
        """Show the bar with the initial ``text``; ``note`` becomes part of the remark."""
        self.purpose = purpose
        self._note = note
        self.query_one("#purpose", Label).update(purpose.value)
        self.display = True
        line = self.query_one(Input)
        line.value = text
        line.cursor_position = len(text)
        # Immediately: after fast typing or a paste, more keys are already queued.
        self.screen.set_focus(line)
        self._update_remark()

    def ask(self, words: str, choices: Mapping[str, AnswerChoice]) -> None:
        """Ask a question that one key answers; Enter chooses the first of ``choices``."""
        self._choices = choices
        self.open(Purpose.QUESTION, note=words)

    def fill(
        self, words: str, fields: Sequence[FormField], filled: Callable[[Sequence[str]], object]
    ) -> None:
        """Show a form; ``filled`` is called with the texts of all fields.

        ``words`` say what Enter does.
        """
        self._fields, self._field, self._filled = fields, 0, filled
        self.open(Purpose.FORM, fields[0].text, note=words)
        self.query_one("#purpose", Label).update(fields[0].label)

    def answer(self, key: str) -> bool:
        """Answer a question by a printable key; return False if no question is shown."""
        if not self.is_open or self.purpose is not Purpose.QUESTION:
            return False
        choice = self._choices.get(key)
        if choice is not None:
            # First: the choice may open the bar again.
            self.close()
            choice.chosen()
        return True

    def command(self, text: str) -> Callable[[], object] | None:
        """Return the command that a text, or its beginning, names; None if it is no command."""
        name = text.strip().lower()
        commands = [run for each, run in self.commands.items() if each.startswith(name)]
        return commands[0] if name and len(commands) == 1 else None

    def remember(self, text: str) -> None:
        """Add a filter from elsewhere to the history."""
        self._histories[Purpose.FILTER].add(text)

    def close(self) -> None:
        """Hide the bar."""
        if self.is_open:
            self.display = False
            self._when_closed()

    async def ready(self) -> None:
        """Wait until the input has processed all text typed so far."""
        await text_processed(self.query_one(Input))

    # -- while typing -------------------------------------------------------------------------

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        if not self._completing:
            self._options, self._option = (), -1
        self._completing = False
        self._update_remark()

    def _update_remark(self) -> None:
        text = self.query_one(Input).value
        problem, position = "", None
        remark = f"{key('accept')} accept · {key('cancel')} cancel"
        match self.purpose:
            case Purpose.FILTER:
                found = check(text, self.span())
                if found.filter is None:
                    problem, position = found.problem, found.position
                elif text.strip():
                    remark = f"valid · {remark} · {key('complete')} complete"
                else:
                    shows = f"only {self._note}" if self._note else "everything"
                    remark = (
                        f"no filter: shows {shows} · {key('complete')} lists the fields · {remark}"
                    )
            case Purpose.SEARCH:
                remark = (
                    f"searches names, ids and changes · {remark} · "
                    f"then {key('search_next')} next, {key('search_previous')} previous"
                )
            case Purpose.GO_TO:
                problem = self._place_error(text)
                remark = f"a number, a time or a view: 17, 14:05, -10m, plugins · {remark}"
            case Purpose.COMMENT:
                remark = f"{self._note} · {remark}"
            case Purpose.QUESTION:
                answers = [f"{answer}: {choice.words}" for answer, choice in self._choices.items()]
                answers[0] += f" (or {key('accept')})"
                remark = " · ".join([self._note, *answers, f"{key('cancel')} cancel"])
            case Purpose.FORM:
                problem, remark = self._form_remark(text)
        if self._options:
            remark = self._completions_text()
        self._problem.position = position
        is_wrong = bool(problem) and not self._options
        self.set_class(is_wrong, "-wrong")
        self.query_one("#remark", Label).update(f"error: {safe(problem)}" if is_wrong else remark)

    def _place_error(self, text: str) -> str:
        if self.command(text) is not None:
            return ""
        try:
            event_or_moment(text or "0", self.span())
        except UsageError as error:
            return str(error)
        return ""

    def _form_remark(self, text: str) -> tuple[str, str]:
        """Store the text of the current field; return its problem, and the remark."""
        field = self._fields[self._field]
        field.text = text
        others = [other.words for other in self._fields if other is not field]
        following = self._fields[(self._field + 1) % len(self._fields)].label
        arrows = f"{key('older')}{key('newer')}"
        choose = [f"{arrows} {' or '.join(field.choices)}"] if field.choices else []
        keys = [f"{key('accept')} {self._note}", f"{key('complete')} {following}"]
        return field.problem, " · ".join([*choose, *others, *keys, f"{key('cancel')} cancel"])

    def _completions_text(self) -> str:
        first = max(0, min(self._option, len(self._options) - _SHOWN_OPTIONS))
        while True:
            # Both the chosen completion and the number of hidden ones after the visible must fit.
            words = self._visible_completions(first)
            hidden = len(self._options) - first - len(words)
            if self._option < first + len(words):
                return "  ".join([*words, f"+{hidden}"] if hidden else words)
            first += 1

    def _visible_completions(self, first: int) -> list[str]:
        """Return as many completions as fit, starting with the one at index ``first``."""
        words: list[str] = []
        room = self.size.width - _MARGIN
        for at, option in enumerate(self._options[first : first + _SHOWN_OPTIONS], first):
            word = safe(option, _COMPLETION_COLUMNS)
            word = f"[{word}]" if at == self._option else word
            if words and columns("  ".join([*words, word])) > room:
                break
            words.append(word)
        return words

    # -- actions ------------------------------------------------------------------------------

    def action_accept(self) -> None:
        """Accept the text, or show its error."""
        text = self.query_one(Input).value
        self._options, self._option = (), -1
        if self.purpose is Purpose.FILTER and check(text, self.span()).filter is None:
            self._update_remark()
            return
        if self.purpose is Purpose.GO_TO and self._place_error(text):
            return
        if self.purpose is Purpose.QUESTION:
            self.answer(next(iter(self._choices)))
            return
        if self.purpose is Purpose.FORM:
            self._accept_form(text)
            return
        if self.purpose is not Purpose.COMMENT:
            self._histories[self.purpose].add(text)
        self._when_accepted(self.purpose, text)
        self.close()

    def _accept_form(self, text: str) -> None:
        self._fields[self._field].text = text
        wrong = [at for at, field in enumerate(self._fields) if field.problem]
        if wrong:
            self._show_field(wrong[0])
            return
        self.close()
        self._filled([field.text for field in self._fields])

    def _show_field(self, index: int) -> None:
        line = self.query_one(Input)
        self._fields[self._field].text = line.value
        self._field = index
        field = self._fields[index]
        self.query_one("#purpose", Label).update(field.label)
        line.value = field.text
        line.cursor_position = len(field.text)
        self._update_remark()

    def action_complete(self) -> None:
        """Complete the word at the cursor; repeated, replace it by the next completion.

        In a form: go to the next field.
        """
        if self.purpose is Purpose.FORM:
            self._show_field((self._field + 1) % len(self._fields))
        if self.purpose is not Purpose.FILTER:
            return
        line = self.query_one(Input)
        if not self._options:
            found = complete(line.value, line.cursor_position, self.values)
            if not found.options:
                self.query_one("#remark", Label).update("no completion found")
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
            self._update_remark()
        self._option_at = (start, start + len(option))
        line.cursor_position = start + len(option)
        if only:
            self._options, self._option = (), -1

    def action_older(self) -> None:
        """Insert the previous text of the history."""
        self._from_history(older=True)

    def action_newer(self) -> None:
        """Insert the next text of the history."""
        self._from_history(older=False)

    def _from_history(self, *, older: bool) -> None:
        line = self.query_one(Input)
        if self.purpose is Purpose.FORM:
            self._choose(-1 if older else 1)
            return
        history = self._histories[self.purpose]
        line.value = history.older(line.value) if older else history.newer(line.value)
        line.cursor_position = len(line.value)

    def _choose(self, step: int) -> None:
        """Insert another valid text of a field."""
        line, choices = self.query_one(Input), self._fields[self._field].choices
        if choices:
            at = choices.index(line.value) + step if line.value in choices else 0
            line.value = choices[at % len(choices)]
            line.cursor_position = len(line.value)

    def action_cancel(self) -> None:
        """Close the bar without accepting the text."""
        self.close()
