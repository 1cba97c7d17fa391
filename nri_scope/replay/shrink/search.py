# SPDX-License-Identifier: Apache-2.0
"""The search for the fewest events: parts of a recording, written, replayed and judged."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from pathlib import Path

from nri_scope.errors import RecordingError, UsageError
from nri_scope.recording.reader import Recording
from nri_scope.share.extract import Selection, extract

from .ddmin import fewest
from .removable_units import STAGES, Numbered, Unit, events_of, units


class Exhausted(Exception):
    """The search has to end, for the given reason."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a search."""

    replays: int
    stage: str
    """The kind of units being left out: pods, containers, events."""
    events: int
    """Number of events of the smallest failing part so far."""


class Search:
    """Finds the fewest events of one session that show a property."""

    def __init__(
        self,
        source: Path,
        session: int,
        folder: Path,
        shows: Callable[[Path], bool],
    ) -> None:
        """Set up the search. ``folder`` is empty and reserved for it. ``shows`` replays a
        recording, and judges it.

        Raises RecordingError.
        """
        self._session = session
        self._folder = folder
        self._shows = shows
        self._known: dict[bytes, bool] = {}
        self._written = 0
        with Recording.open(source) as recording:
            self.events = events_of(recording, session)
        # Parts are extracted from the smallest failing one, so that omitted events are read only
        # once.
        self._smallest = source
        self.best = frozenset(event.id for event in self.events)
        self._states = frozenset(event.id for event in self.events if event.is_state)

    def count(self, numbers: Iterable[int]) -> int:
        """Return how many of these numbers are those of played events."""
        return sum(number not in self._states for number in numbers)

    def run(self, on_stage: Callable[[str], None], last: int = 0) -> None:
        """Make `best` as small as possible. ``last`` is the event at which it fails, 0 for none.

        Exceptions of ``shows`` are passed on; `best` is valid at any time.
        """
        on_stage("events")
        if last:
            # Later events are usually irrelevant.
            self._try([(event.id,) for event in self.events if event.id <= last or event.is_state])
        self._try([(event.id,) for event in self.events if not event.is_state])
        for name, group_of in STAGES.items():
            on_stage(name)
            there = units(self._left(), group_of)
            others = tuple(self.best.difference(*there))
            fewest(there, partial(self._with, others))

    def _with(self, others: Unit, some: Sequence[Unit]) -> bool:
        return self._try([*some, others])

    def _left(self) -> list[Numbered]:
        return [event for event in self.events if event.id in self.best]

    def _try(self, units: Sequence[Unit]) -> bool:
        """Make these events `best` if they show the failure and are the fewest so far."""
        wanted = self.best.intersection(number for unit in units for number in unit)
        if not wanted:
            return False
        known = self._known.get(_digest(wanted))
        if known is not None:
            return known
        self._written += 1
        path = self._folder / f"{self._written}.nriscope.db"
        try:
            found = self._judge(path, wanted)
        except (UsageError, RecordingError):
            # The part cannot be replayed without the omitted events, and so shows nothing.
            found = False
        finally:
            if path != self._smallest:
                path.unlink(missing_ok=True)
        self._known[_digest(wanted)] = found
        return found

    def _judge(self, path: Path, wanted: Iterable[int]) -> bool:
        with Recording.open(self._smallest) as recording:
            try:
                extract(recording, path, Selection(numbers=sorted(wanted), bare=True))
            except RecordingError as error:
                if error.path != str(path):
                    raise
                # This is not due to the part: no other one could be tried either.
                raise Exhausted(f"a temporary file: {error.problem}") from error
        with Recording.open(path) as recording:
            # Includes the context that these events need.
            there = {event.id for event in events_of(recording, self._session)}
        if not self._states.intersection(wanted):
            # Synchronize lists less than before, and is included in any case.
            there -= self._states
        whole = frozenset(there)
        if len(whole) >= len(self.best) or self._known.get(_digest(whole)) is False:
            return False
        shown = self._shows(path)
        self._known[_digest(whole)] = shown
        if shown:
            before, self._smallest = self._smallest, path
            self.best = whole
            if before.parent == self._folder:
                before.unlink(missing_ok=True)
        return shown


def _digest(numbers: Iterable[int]) -> bytes:
    """Return a short digest of a set that may have a million numbers, as hundreds are kept."""
    return blake2b(array("q", sorted(numbers)).tobytes(), digest_size=16).digest()
