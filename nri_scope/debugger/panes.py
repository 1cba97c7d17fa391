# SPDX-License-Identifier: Apache-2.0
"""Widgets of the debugger's screen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Horizontal
from textual.reactive import reactive
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Input, Label, TextArea

from nri_scope.text.escape import columns, safe
from nri_scope.tui.actions import shown
from nri_scope.tui.text.styled_line import Span, Style, StyledLine, line
from nri_scope.tui.widgets.filter_bar import TextLine
from nri_scope.tui.widgets.lines import LinesView


class DebuggerKey(NamedTuple):
    """An action of the screen, implemented as ``action_NAME``, and its keys."""

    name: str
    keys: tuple[str, ...]
    label: str
    """One or two words for the footer; "" to leave it out there."""
    help: str


KEYS = (
    DebuggerKey("step", ("n", "space"), "step", "send the next event"),
    DebuggerKey("go_on", ("c",), "continue", "send events up to a breakpoint or the end"),
    DebuggerKey("edit", ("e",), "edit", "edit the request and send it"),
    DebuggerKey("answer", ("w",), "answer", "write the reply, without asking the plugin"),
    DebuggerKey("go_back", ("p", "backspace"), "back", "go one event back, with a new process"),
    DebuggerKey("break_on", ("b",), "break", "stop before events that match a filter"),
    DebuggerKey("help", ("question_mark", "f1"), "help", "show these keys"),
    DebuggerKey("quit", ("q", "ctrl+c"), "quit", "end the plugin and quit"),
    DebuggerKey("again", ("a",), "again", "send the last event again"),
    DebuggerKey("skip", ("s",), "skip", "let the event take effect without sending it"),
    DebuggerKey("run_to", ("r",), "run to", "send events up to a number"),
    DebuggerKey("restart", ("R",), "restart", "start the plugin anew, and stop before this event"),
    DebuggerKey("clear_breakpoints", ("B",), "", "remove all breakpoints"),
    DebuggerKey("differences", ("d",), "", "show what differed after the last restart"),
    DebuggerKey("pause", ("escape",), "", "stop at the next event; close a message or an input"),
    DebuggerKey("focus_next_pane", ("tab",), "", "go to the next pane, to scroll or select"),
    DebuggerKey("wrap", ("W",), "", "wrap long lines"),
)
"""The actions, the most useful first."""

_NAMES = {"question_mark": "?"}


def bindings() -> list[BindingType]:
    """Return the bindings of all keys."""
    return [Binding(",".join(key.keys), key.name, show=False) for key in KEYS]


def key_words(key: DebuggerKey) -> str:
    """Return the display form of an action's keys."""
    return " ".join(shown(_NAMES.get(name, name)) for name in key.keys)


def help_lines() -> list[StyledLine]:
    """Return the list of keys."""
    width = max(len(key_words(key)) for key in KEYS)
    return [
        *((Span(f"{key_words(key):<{width}}  ", Style.KEY), Span(key.help)) for key in KEYS),
        line(),
        line("In the list of events, ↑ and ↓ select another one, whose reply is shown."),
        line("There is no deadline, unless --timeout sets one."),
    ]


_MOVES = (
    ("up,k", "up"),
    ("down,j", "down"),
    ("pageup", "page_up"),
    ("pagedown", "page_down"),
    ("home", "home"),
    ("end", "end"),
    ("left", "left"),
    ("right", "right"),
)

SIDE_BY_SIDE_FROM = 110
"""Minimum columns for the list beside the content; below, it is above."""
_LINES_AFTER = 3
"""Number of lines after the pending event that are shown, too."""


class Pane(LinesView, inherit_bindings=False):
    """Lines with the keys that move in them, and no other ones."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(keys, action, show=False) for keys, action in _MOVES
    ]

    def go_to_with_next(self, index: int) -> None:
        """Go to a line, and show some lines after it, too."""
        self._reveal(min(index + _LINES_AFTER, len(self.source) - 1))
        self.go_to(index)


class Panes(Container):
    """The list of events, the content of one, and the plugins' output."""

    DEFAULT_CSS = """
    Panes { height: 1fr; layout: vertical; }
    Panes > .events { height: 2fr; }
    Panes > .content { height: 3fr; border-top: solid $primary; }
    Panes > .output { height: 1fr; min-height: 4; border-top: solid $primary; }
    Panes.-wide { layout: grid; grid-size: 2 2; grid-columns: 1fr 1fr; grid-rows: 3fr 1fr; }
    Panes.-wide > .events { height: 100%; row-span: 2; border-right: solid $primary; }
    Panes.-wide > .content { height: 100%; border-top: none; }
    Panes.-wide > .output { height: 100%; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.events = Pane(cursor=True, classes="events")
        self.content = Pane(classes="content", empty="starting …")
        self._output = Pane(classes="output", empty="no output of the plugin yet")
        self._output.border_title = "output"

    def compose(self) -> ComposeResult:
        """Compose the panes."""
        yield from (self.events, self.content, self._output)

    def lay_out(self, width: int) -> None:
        """Choose the layout for a screen of this width."""
        self.set_class(width >= SIDE_BY_SIDE_FROM, "-wide")

    def show_output(self, lines: Sequence[StyledLine]) -> None:
        """Show the output, and its end unless the user looks at another part."""
        output = self._output
        at_end = output.top + output.size.height >= len(output.source)
        output.show(lines, keep_position=True)
        if at_end or not output.has_focus:
            output.go_to(len(lines) - 1)

    def focus_next(self) -> None:
        """Focus the next pane."""
        panes: list[Widget | None] = [self.events, self.content, self._output]
        index = panes.index(self.screen.focused) if self.screen.focused in panes else -1
        self.screen.set_focus(panes[(index + 1) % len(panes)])

    def toggle_wrap(self) -> None:
        """Wrap long lines of contents and output, or not."""
        for pane in (self.content, self._output):
            pane.wrap = not pane.wrap


class TitleLine(Widget):
    """The first line of the screen: words at the left and at the right."""

    DEFAULT_CSS = """
    TitleLine { height: 1; background: $primary 30%; color: $foreground; text-style: bold;
                padding: 0 1; }
    TitleLine:ansi { background: ansi_blue; color: ansi_bright_white; }
    TitleLine:nocolor { text-style: reverse; }
    """

    words: reactive[tuple[str, str]] = reactive(("", ""))

    def render(self) -> Text:
        """Draw the words; those at the right only if they fit."""
        width = self.size.width
        left, right = safe(self.words[0], width), safe(self.words[1])
        spare = width - columns(left) - columns(right)
        text = f"{left}{' ' * spare}{right}" if spare >= 2 else left
        return Text(text, no_wrap=True, end="")


class DebuggerKeys(Widget):
    """The footer: as many keys as fit."""

    DEFAULT_CSS = """
    DebuggerKeys { height: 1; background: $background; color: $text-muted; padding: 0 1; }
    """

    def render(self) -> Text:
        """Draw the keys."""
        text = Text(no_wrap=True, end="")
        for action in KEYS:
            key = key_words(action).split(" ")[0]
            if action.label and columns(f"{text.plain}{key} {action.label}") <= self.size.width:
                text.append(key, style="bold")
                text.append(f" {action.label}  ")
        return text


class InputLine(Horizontal):
    """An input line, hidden until it is opened."""

    DEFAULT_CSS = """
    InputLine { height: 1; display: none; background: $panel; }
    InputLine.-open { display: block; }
    InputLine Label { width: auto; padding: 0 1; text-style: bold; color: $text-primary; }
    InputLine Input { width: 1fr; height: 1; border: none; padding: 0; background: $panel; }
    InputLine Input:focus { border: none; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._label = Label("", markup=False)
        self._input = TextLine(self._submit, select_on_focus=False)
        self._accept: Callable[[str], object] = str
        self._focused_before: Widget | None = None

    def compose(self) -> ComposeResult:
        """Compose the label and the input."""
        yield self._label
        yield self._input

    @property
    def is_open(self) -> bool:
        """Whether it is visible."""
        return self.has_class("-open")

    def ask(self, label: str, accept: Callable[[str], object], text: str = "") -> None:
        """Show the line; ``accept`` gets the entered text."""
        self._label.update(label)
        self._input.value = text
        self._input.cursor_position = len(text)
        self._accept = accept
        self._focused_before = self.screen.focused
        self.add_class("-open")
        # Not `focus`, which the next key might precede.
        self.screen.set_focus(self._input)

    def close(self) -> None:
        """Hide the line."""
        self.remove_class("-open")
        self.screen.set_focus(self._focused_before)

    def _submit(self) -> None:
        text = self._input.value.strip()
        self.close()
        if text:
            self._accept(text)


class TextScreen(ModalScreen[str | None], inherit_bindings=False):
    """An editor on the screen, for users without ``$EDITOR``."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s,f2", "accept", show=False, priority=True),
        Binding("escape,ctrl+c", "cancel", show=False, priority=True),
    ]
    DEFAULT_CSS = """
    TextScreen { align: center middle; }
    TextScreen > TextArea { width: 96%; height: 92%; border: round $primary;
                            background: $background; color: $foreground; }
    """

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self._area = TextArea(text, tab_behavior="indent", soft_wrap=False)
        self._area.border_title = title.replace("[", "(")
        self._area.border_subtitle = "^S or F2 sends · Esc closes"

    def compose(self) -> ComposeResult:
        """Compose the text area."""
        yield self._area

    def action_accept(self) -> None:
        """Close the screen with the text."""
        self.dismiss(self._area.text)

    def action_cancel(self) -> None:
        """Close the screen without a text."""
        self.dismiss(None)


def inserts(field: Input | TextArea, key: events.Key) -> bool:
    """Return whether a key inserts text in a field, rather than being bound to an action."""
    return key.is_printable or (isinstance(field, TextArea) and key.key in {"enter", "tab"})
