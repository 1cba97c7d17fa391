# SPDX-License-Identifier: Apache-2.0
"""Messages from widgets to the app, which handles them. All of them bubble."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from textual.dom import DOMNode
from textual.message import Message

from nri_scope.errors import NriScopeError

from ..textual_workarounds import begin

if TYPE_CHECKING:
    from ..store.rows import ListRow


@dataclass
class RowChosen(Message):
    """The cursor moved to another row, which the detail pane shows; None if the view is empty."""

    row: ListRow | None


@dataclass
class RowOpened(Message):
    """A request to show a row in the detail pane and to focus the pane."""

    row: ListRow


@dataclass
class OpenEvent(Message):
    """A request to go to an event in the list of events."""

    event_id: int


@dataclass
class OpenTime(Message):
    """A request to go to the first event at a time or later in the list of events."""

    at_ns: int


@dataclass
class SetFilter(Message):
    """A request to apply a filter; ``text`` may be invalid."""

    text: str


@dataclass
class AddToFilter(Message):
    """A request to show only events that match ``term``, or, with ``out``, to hide them."""

    term: str
    out: bool


class ToggleOperations(Message):
    """Switch between rows for operations and rows for events."""


@dataclass
class KeyClicked(Message):
    """The key of an action was clicked in the footer."""

    action: str


@dataclass
class TabChosen(Message):
    """A tab was clicked."""

    name: str


@dataclass
class StatusText(Message):
    """A message for the status line; ``problem``: a warning."""

    text: str
    problem: bool = False


@dataclass
class Failed(Message):
    """The recording could not be read; the app shows the error in the status line."""

    error: Exception


def begin_reading(node: DOMNode, work: Callable[[], Coroutine[Any, Any, None]], group: str) -> None:
    """Start ``work`` as `begin` does, replacing earlier work of the group.

    Errors in reading the recording are posted as `Failed`.
    """

    async def run() -> None:
        try:
            await work()
        except NriScopeError as error:
            node.post_message(Failed(error))

    begin(node, run, group, exclusive=True)


class LinesAvailable(Message):
    """A view has read the lines that held keys wait for, or found that it has none."""
