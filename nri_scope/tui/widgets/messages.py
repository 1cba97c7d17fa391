# SPDX-License-Identifier: Apache-2.0
"""Messages of widgets to the app. All of these bubble; the app decides what follows."""

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
    """The cursor is on another row; None where there is none. The detail pane follows."""

    row: Row | None


@dataclass
class RowOpened(Message):
    """Enter on a row: show its details, and go there."""

    row: Row


@dataclass
class Narrow(Message):
    """Every view shall show this container, or this pod, alone."""

    what: Container | Pod


@dataclass
class OpenEvent(Message):
    """Show this event in the list of events, with the cursor on it."""

    event_id: int


@dataclass
class SetFilter(Message):
    """Show what this filter lets through; the text may be wrong, and is checked."""

    text: str


@dataclass
class AddToFilter(Message):
    """A request to show only the events that this term finds, or to hide them (``out``)."""

    term: str
    out: bool


@dataclass
class GoToSameContainer(Message):
    """Go to the next or previous event of the selected one's container."""

    forwards: bool


@dataclass
class TabChosen(Message):
    """A tab was clicked."""

    name: str


@dataclass
class Said(Message):
    """Tell the user this one line, for a while; ``problem`` as a warning."""

    text: str
    problem: bool = False


@dataclass
class Failed(Message):
    """The recording could not be read; the app shows it in its place."""

    error: Exception


def begin_reading(node: DOMNode, work: Callable[[], Coroutine[Any, Any, None]], group: str) -> None:
    """Begin work as `begin` does, in the place of older work; `Failed` tells what keeps the
    recording from being read.
    """

    async def told() -> None:
        try:
            await work()
        except NriScopeError as error:
            node.post_message(Failed(error))

    begin(node, told, group, exclusive=True)


class LinesThere(Message):
    """A view has lines that keys may wait for, or it is known that there are none."""
