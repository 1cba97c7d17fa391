# SPDX-License-Identifier: Apache-2.0
"""A recording for the terminal user interface: read in threads, known by positions.

Nothing that reads the file runs on the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TypeVar

from nri_scope.recorder.filter import Filter
from nri_scope.recorder.model import Container, Pod, Session
from nri_scope.recorder.reader import Recording
from nri_scope.tui.model.rows import Row
from nri_scope.tui.model.view import View

T = TypeVar("T")
Progress = Callable[[View, float], None]
"""Told on the event loop of a view that grows, and of the part of the recording (0 to 1) that was
looked through."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What the title says of a recording."""

    path: Path
    kind: str
    """``live``, ``recording``, ``replay`` or ``tap``."""
    runtime: str
    """``containerd 2.1.9, NRI 0.12.0`` of the newest session, safe to show; "" without one."""
    sessions: int
    connected: int
    """Sessions that have not ended, as far as the recording tells."""
    events: int
    """Exact once the view of everything is complete."""
    first_ns: int
    """Wall clock of the first event; 0 without events."""
    last_ns: int
    gaps: int
    lost: int
    """Events that gaps say were lost."""
    lost_unknown: bool
    """Whether there are gaps of which nobody knows how many events were lost."""
    growing: bool
    """Somebody has it open for writing, or was killed while writing."""
    damage: str
    """In words, what keeps the recording from being read to its end; "" for nothing."""


@dataclass(frozen=True, slots=True)
class Growth:
    """What a `Store.refresh` found."""

    events: int = 0
    """New ones."""
    removed: bool = False
    """The oldest events were removed."""
    between: bool = False
    """Gaps or sessions came, or are not what they were."""

    def __bool__(self) -> bool:
        return bool(self.events) or self.removed or self.between


class Store:
    """An open recording. For one event loop, on which views and facts change.

    Coroutines raise NriScopeError where the file is at fault, and can be cancelled, which ends
    their work in the thread soon.
    """

    facts: Facts
    all: View
    """Everything, without a filter: what `view` gives for None."""
    sessions: Sequence[Session]
    """As known since the last `refresh`."""

    @classmethod
    async def open(cls, path: Path, *, live: bool = False) -> Self:
        """Open a recording. ``live``: this process records it."""
        raise NotImplementedError

    async def close(self) -> None:
        """End the threads and close the file. Work that is under way is cancelled."""
        raise NotImplementedError

    async def refresh(self) -> Growth:
        """Look what was written meanwhile; all views have it afterwards. Costs little when nothing
        was. Raises RecordingError also where the file was deleted, moved or replaced.
        """
        raise NotImplementedError

    async def rows(self, view: View, start: int, count: int) -> Sequence[Row]:
        """Rows by position, fewer where the view ends. Served before all other work, the newest
        request first; none where so many newer ones came that this one is outdated.
        """
        raise NotImplementedError

    async def view(
        self,
        where: Filter | None = None,
        on_progress: Progress | None = None,
        *,
        about: Pod | Container | None = None,
    ) -> View:
        """The rows that pass a filter, of one pod or container where ``about`` is given.

        Returns when all events have been looked at; ``on_progress`` has the growing view
        meanwhile, from the oldest match on, to be shown already. Gaps are in every view.
        """
        raise NotImplementedError

    async def position_of(self, view: View, event_id: int) -> int:
        """As `View.position_of`."""
        raise NotImplementedError

    async def find(self, view: View, text: str, start: int, forwards: bool = True) -> int | None:
        """The position of the next row from ``start`` on (included) with ``text`` in its names,
        ids, changes or words, in upper or lower case; None where there is none until the end.
        """
        raise NotImplementedError

    async def run(self, work: Callable[[Recording], T]) -> T:
        """Anything else that reads: details, blame, a tree. In a thread of its own, in order."""
        raise NotImplementedError
