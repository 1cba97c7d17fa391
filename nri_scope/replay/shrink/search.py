# SPDX-License-Identifier: Apache-2.0
"""Search for the fewest events: write, replay and test parts of a recording."""

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
from .removable_units import STAGES, EventKey, Unit, events_of, units


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
            found = self._test(path, selected)
        except (UsageError, RecordingError):
            # The part cannot be replayed without the removed events.
            found = False
        finally:
            if path != self._smallest:
                path.unlink(missing_ok=True)
        self._results[_digest(selected)] = found
        return found

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
