# SPDX-License-Identifier: Apache-2.0
"""Messages of widgets to the app. All of them bubble; the app handles them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from textual.dom import DOMNode
from textual.message import Message

from nri_scope.errors import NriScopeError

from ..textual_gaps import begin

if TYPE_CHECKING:
    from nri_scope.events import Container, Pod

    from ..store.rows import Row


@dataclass
class RowChosen(Message):
    """The cursor is on another row; None if there is none. The detail pane follows."""

    row: Row | None


@dataclass
class RowOpened(Message):
    """Enter on a row: show its details, and go there."""

    row: Row


@dataclass
class Narrow(Message):
    """A request to restrict every view to this container, or this pod."""

    what: Container | Pod


@dataclass
class OpenEvent(Message):
    """Show this event in the list of events, with the cursor on it."""

    event_id: int


@dataclass
class SetFilter(Message):
    """A request to apply this filter; the text may be invalid, and is checked."""

    text: str


@dataclass
class AddToFilter(Message):
    """A request to show only the events that this term finds, or to hide them (``out``)."""

    term: str
    out: bool


@dataclass
class GoToSameContainer(Message):
    """A request to go to the next or previous event of the selected event's container."""

    forwards: bool


@dataclass
class TabChosen(Message):
    """A tab was clicked."""

    name: str


@dataclass
class StatusText(Message):
    """A line to show to the user for a while; ``problem``: as a warning."""

    text: str
    problem: bool = False


@dataclass
class Failed(Message):
    """The recording could not be read; the app shows the error in its place."""

    error: Exception


def begin_reading(node: DOMNode, work: Callable[[], Coroutine[Any, Any, None]], group: str) -> None:
    """Begin work as `begin` does, replacing older work; errors in reading the
    recording are sent as `Failed`.
    """

    async def told() -> None:
        try:
            await work()
        except NriScopeError as error:
            node.post_message(Failed(error))

    begin(node, told, group, exclusive=True)


class LinesThere(Message):
    """A view has lines for which keys may wait, or certainly none."""
