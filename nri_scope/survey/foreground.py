# SPDX-License-Identifier: Apache-2.0
"""Survey a recording for a filter on changes or problems, while a command waits."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from nri_scope.errors import RecordingCut
from nri_scope.events import Event
from nri_scope.filter import Filter
from nri_scope.nri.events import EventKind
from nri_scope.recording.file.temporary_files import temporary_folder
from nri_scope.recording.query import lookup
from nri_scope.recording.query.log_rows import sessions_overlap
from nri_scope.recording.reading.reader import Recording
from nri_scope.recording.reading.work_budget import OnShare, ignore_share

_CHANGES = frozenset({"changed", "owner"})
ATTRIBUTED = _CHANGES | {"problem", "outcome"}
"""Fields of the filter language whose values a survey determines."""
_UPDATE = EventKind.UpdateContainer.name
PARTIAL_MAX_EVENTS = 10_000
"""Maximum number of events for which not the whole recording is read."""


@contextmanager
def surveyed(
    recording: Recording,
    where: Filter | None,
    on_share: OnShare | None = None,
    *,
    needed: bool = False,
    beside: Path | None = None,
) -> Iterator[None]:
    """Attach a survey's results to a recording during the block, if ``where`` needs them.

    ``needed``: in any case. ``on_share`` receives the share of the events read, 0 to 1. Temporary
    files are in the folder ``beside``, if it is given. Raises RecordingError, and UsageError if
    none can be written.
    """
    if not needed and not _depends(recording, where):
        yield
        return
    # Imported here, as most filters do not need it.
    from .survey import survey

    with temporary_folder(beside) as folder:
        show = on_share or ignore_share
        result = survey(recording.path, folder / "survey.db", lambda share, until: show(share))
        if result.cut:
            warnings.warn(RecordingCut(f"{recording.path}: {result.cut}"), stacklevel=3)
        recording.attach(folder / "survey.db")
        yield


def resolved(
    recording: Recording, where: Filter | None, on_share: OnShare | None = None
) -> Filter | None:
    """Return ``where``, or a filter for the events that it matches, if a survey is needed.

    For commands that copy events, which must be as they were recorded. Raises as `surveyed` does.
    """
    if where is None or not _depends(recording, where):
        return where
    with Recording.open(recording.path) as other, surveyed(other, where, on_share):
        numbers = frozenset(event.id for event in other.events(where=where))
    return _Numbered(where.text, where.root, numbers)


def attributed(recording: Recording, events: Sequence[Event]) -> dict[int, Event]:
    """Return events by number, with the changes and problems that only several events show.

    This takes milliseconds for each event, but does not read the whole recording. Raises as
    `surveyed` does.
    """
    numbers = sorted(event.id for event in events)
    with Recording.open(recording.path) as other, analysed(other, numbers):
        return {event.id: event for event in other.events(among=numbers)}


@contextmanager
def analysed(
    recording: Recording, numbers: Sequence[int] | None, beside: Path | None = None
) -> Iterator[None]:
    """Attach a survey's results for events, by ascending numbers, to a recording during the block.

    None: all events. ``beside`` and errors are as for `surveyed`.
    """
    if numbers is None or len(numbers) > PARTIAL_MAX_EVENTS:
        with surveyed(recording, None, needed=True, beside=beside):
            yield
        return
    from .survey import survey_some

    with temporary_folder(beside) as folder:
        if events := [*recording.events(among=numbers)]:
            survey_some(recording, events, folder / "survey.db")
            recording.attach(folder / "survey.db")
        yield


def _depends(recording: Recording, where: Filter | None) -> bool:
    """Return whether a filter may match an event because of other events."""
    if where is None:
        return False
    if where.fields & {"problem", "outcome"}:
        return True
    if not _CHANGES & where.fields:
        return False
    chain = [session for session in recording.sessions() if session.is_connection]
    # Only later events show what a CRI request changed.
    return sessions_overlap(chain) or lookup.containers_with(recording, _UPDATE, 0) != frozenset()


@dataclass(frozen=True, slots=True)
class _Numbered(Filter):
    """Filter for a set of events."""

    numbers: frozenset[int] = frozenset()

    def matches(self, event: Event) -> bool:
        return event.id in self.numbers

    def to_sql(self) -> tuple[str, list[str | int]]:
        return "id IN (SELECT value FROM json_each(?))", [json.dumps([*self.numbers])]
