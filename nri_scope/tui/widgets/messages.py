# SPDX-License-Identifier: Apache-2.0
"""What widgets tell the app. All of them bubble; the app decides what follows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from nri_scope.recorder.model import Container, Pod
    from nri_scope.tui.store.rows import Row


class RowChosen(Message):
    """The cursor is on another row; None where there is none. The detail pane follows."""

    def __init__(self, row: Row | None) -> None:
        super().__init__()
        self.row = row


class RowOpened(Message):
    """Enter on a row: show its details, and go there."""

    def __init__(self, row: Row) -> None:
        super().__init__()
        self.row = row


class Narrow(Message):
    """Every view shall show this container, or this pod, alone."""

    def __init__(self, what: Container | Pod) -> None:
        super().__init__()
        self.what = what


class OpenEvent(Message):
    """Show this event in the list of events, with the cursor on it."""

    def __init__(self, event_id: int) -> None:
        super().__init__()
        self.event_id = event_id


class SetFilter(Message):
    """Show what this filter lets through; the text may be wrong, and is checked."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class Narrowed(Message):
    """What this filter finds, of what is shown now, shall be shown alone, or left out (``out``)."""

    def __init__(self, term: str, *, out: bool) -> None:
        super().__init__()
        self.term = term
        self.out = out


class Said(Message):
    """Tell the user this one line, for a while; ``problem`` as a warning."""

    def __init__(self, text: str, *, problem: bool = False) -> None:
        super().__init__()
        self.text = text
        self.problem = problem


class Failed(Message):
    """The recording could not be read; the app shows it in its place."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error


class LinesThere(Message):
    """A view has lines that keys may wait for, or it is known that there are none."""
