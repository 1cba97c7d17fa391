# SPDX-License-Identifier: Apache-2.0
"""The keys of the debugger's screen, for bindings, help, footer and documentation."""

from __future__ import annotations

from typing import NamedTuple

from textual.binding import Binding, BindingType

from nri_scope.tui.actions import shown
from nri_scope.tui.text.styled_line import Span, Style, StyledLine, line


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
    DebuggerKey("back_by", ("P",), "", "go a number of events back"),
    DebuggerKey("clear_breakpoints", ("B",), "", "remove all breakpoints"),
    DebuggerKey("differences", ("d",), "", "show what differed after the last restart or build"),
    DebuggerKey("pause", ("escape",), "", "stop at the next event; close a message or an input"),
    DebuggerKey("focus_next_pane", ("tab",), "", "go to the next pane, to scroll or select"),
    DebuggerKey("wrap", ("z",), "", "wrap long lines"),
)
"""The actions, the most useful first."""

_NAMES = {"question_mark": "?"}


def bindings() -> list[BindingType]:
    """Return the bindings of all keys."""
    return [Binding(",".join(one.keys), one.name, show=False) for one in KEYS]


def key_words(key: DebuggerKey) -> str:
    """Return the display form of an action's keys."""
    return " ".join(shown(_NAMES.get(one, one)) for one in key.keys)


def help_lines() -> list[StyledLine]:
    """Return the list of keys."""
    width = max(len(key_words(one)) for one in KEYS)
    return [
        *((Span(f"{key_words(one):<{width}}  ", Style.KEY), Span(one.help)) for one in KEYS),
        line(),
        line("In the list of events, ↑ and ↓ select another one, whose reply is shown."),
        line("There is no deadline, unless --timeout sets one."),
    ]
