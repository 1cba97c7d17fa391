# SPDX-License-Identifier: Apache-2.0
"""Search for the fewest events: write, replay and test parts of a recording."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

from nri_scope.errors import RecordingError, UsageError
from nri_scope.filter import parse
from nri_scope.recording.reader import Recording
from nri_scope.share.extract import Selection, extract

_NEVER_REMOVED = ("RegisterPlugin", "Configure")

Unit = tuple[int, ...]
"""Event numbers."""


@dataclass(frozen=True, slots=True)
class EventKey:
    """Event of the session, reduced to the fields needed for grouping."""

    id: int
    pod_id: str
    container_id: str
    event: str

    @property
    def is_state(self) -> bool:
        """Whether it is Synchronize. If kept, it lists all objects, else only events' subjects."""
        return self.event == "Synchronize"


def events_of(recording: Recording, session: int) -> list[EventKey]:
    """Return the events of a session, except for those that are never removed."""
    return [
        EventKey(event.id, event.pod_id, event.container_id, event.event)
        for event in recording.events(where=parse(f"session:{session}"))
        if event.event not in _NEVER_REMOVED
    ]


Group = Callable[[EventKey], object]
"""Return the group of an event; None for a group of its own, "" if the stage keeps it."""
STAGES: Mapping[str, Group] = {
    "pods": lambda event: event.pod_id or None,
    "containers": lambda event: event.container_id,
    "kinds of events": lambda event: event.event,
    "events": lambda event: None,
}
"""Grouping functions by stage, in the order of the search. Most plugins ignore most kinds."""


def units(events: Iterable[EventKey], group_of: Group) -> list[Unit]:
    """Return the units that a stage tries to remove."""
    units: dict[object, list[int]] = {}
    for event in events:
        group = group_of(event)
        if group != "":
            # All parts of Synchronize are one unit, as a single part is not a valid state.
            key = ("state",) if event.is_state else (group or event.id)
            units.setdefault(key, []).append(event.id)
    return [tuple(numbers) for numbers in units.values()]


T = TypeVar("T")


def fewest(items: Sequence[T], has_property: Callable[[Sequence[T]], bool]) -> list[T]:
    """Return a subset of ``items``, in their order, from which no single item can be removed.

    This is ddmin of Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input"
    (2002): try parts, then the rest without each part, with ever smaller parts.

    ``has_property`` tests a subset, possibly empty; it must be true of all items together. It is
    called at most about ``len(items)`` squared times, and about twice the logarithm of that length
    if only one item matters. Its exceptions end the search.
    """
    left = list(items)
    if not left or has_property([]):
        return []
    parts = min(2, len(left))
    while len(left) > 1:
        chunks = _split(left, parts)
        smaller = _first(chunks, has_property)
        if smaller is not None:
            left, parts = smaller, 2
            continue
        # With two parts, the rest without one part is the other part.
        rests = [_without(chunks, index) for index in range(len(chunks))] if parts > 2 else []
        smaller = _first(rests, has_property)
        if smaller is not None:
            left, parts = smaller, max(parts - 1, 2)
        elif parts == len(left):
            break
        else:
            parts = min(2 * parts, len(left))
    return left


def _split(items: list[T], parts: int) -> list[list[T]]:
    """Split evenly; no part is empty unless there are more parts than items."""
    ends = [len(items) * number // parts for number in range(parts + 1)]
    return [items[start:end] for start, end in pairwise(ends)]


def _without(chunks: Sequence[list[T]], left_out: int) -> list[T]:
    return [item for index, chunk in enumerate(chunks) if index != left_out for item in chunk]


def _first(
    candidates: Sequence[list[T]], has_property: Callable[[Sequence[T]], bool]
) -> list[T] | None:
    return next((candidate for candidate in candidates if has_property(candidate)), None)


class Exhausted(Exception):
    """The search has to end, for the reason in the message."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a search."""

    replays: int
    stage: str
    """Kind of units being removed: pods, containers, events."""
    events: int
    """Number of events of the smallest failing part so far."""


class Search:
    """Search for the fewest events of one session with which a check still fails."""

    def __init__(
        self,
        source: Path,
        session: int,
        folder: Path,
        fails: Callable[[Path], bool],
    ) -> None:
        """Read the events. ``folder``: an empty folder for its files. ``fails``: replays a
        recording, and returns whether the check fails. Raises RecordingError.
        """
        self._session = session
        self._folder = folder
        self._fails = fails
        self._results: dict[bytes, bool] = {}
        self._written = 0
        with Recording.open(source) as recording:
            self.events = events_of(recording, session)
        # Parts are extracted from the smallest failing one, which is fastest to read.
        self._smallest = source
        self.best = frozenset(event.id for event in self.events)
        self._states = frozenset(event.id for event in self.events if event.is_state)

    def count(self, numbers: Iterable[int]) -> int:
        """Return the number of events, without Synchronize."""
        return sum(number not in self._states for number in numbers)

    def run(self, on_stage: Callable[[str], None], last: int = 0) -> None:
        """Make `best` as small as possible. ``last``: the event at which it fails; 0 for none.

        Exceptions of ``fails`` are not caught; `best` is valid at any time.
        """
        on_stage("events")
        if last:
            # Later events are usually irrelevant.
            self._try([(event.id,) for event in self.events if event.id <= last or event.is_state])
        self._try([(event.id,) for event in self.events if not event.is_state])
        for name, group_of in STAGES.items():
            on_stage(name)
            removable = units(self._left(), group_of)
            others = tuple(self.best.difference(*removable))
            fewest(removable, partial(self._with, others))

    def _with(self, others: Unit, some: Sequence[Unit]) -> bool:
        return self._try([*some, others])

    def _left(self) -> list[EventKey]:
        return [event for event in self.events if event.id in self.best]

    def _try(self, units: Sequence[Unit]) -> bool:
        """Make these events `best` if the check fails with them and they are fewer."""
        selected = self.best.intersection(number for unit in units for number in unit)
        if not selected:
            return False
        known = self._results.get(_digest(selected))
        if known is not None:
            return known
        self._written += 1
        path = self._folder / f"{self._written}.nriscope.db"
        try:
            fails = self._test(path, selected)
        except (UsageError, RecordingError):
            # The part cannot be replayed without the removed events.
            fails = False
        finally:
            if path != self._smallest:
                path.unlink(missing_ok=True)
        self._results[_digest(selected)] = fails
        return fails

    def _test(self, path: Path, selected: Iterable[int]) -> bool:
        with Recording.open(self._smallest) as recording:
            try:
                extract(recording, path, Selection(numbers=sorted(selected), bare=True))
            except RecordingError as error:
                if error.path != str(path):
                    raise
                # The temporary file cannot be written, so no other part can be tested.
                raise Exhausted(f"a temporary file: {error.problem}") from error
        with Recording.open(path) as recording:
            # Includes events added as context.
            written = {event.id for event in events_of(recording, self._session)}
        if not self._states.intersection(selected):
            # Synchronize is always written, but lists less than before.
            written -= self._states
        whole = frozenset(written)
        if len(whole) >= len(self.best) or self._results.get(_digest(whole)) is False:
            return False
        failed = self._fails(path)
        self._results[_digest(whole)] = failed
        if failed:
            before, self._smallest = self._smallest, path
            self.best = whole
            if before.parent == self._folder:
                before.unlink(missing_ok=True)
        return failed


def _digest(numbers: Iterable[int]) -> bytes:
    """Return a digest of a set. Hundreds of sets, with up to a million numbers each, are stored."""
    return blake2b(array("q", sorted(numbers)).tobytes(), digest_size=16).digest()
