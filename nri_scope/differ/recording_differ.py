# SPDX-License-Identifier: Apache-2.0
"""Run the differ over a recording, or over the events about one container, pod or event."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from sys import maxsize

from google.protobuf.message import DecodeError

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.entries import Outcome
from nri_scope.errors import UsageError
from nri_scope.events import Container, Event, Session
from nri_scope.nri.lifecycle import CREATE, UPDATE
from nri_scope.recording import lookup
from nri_scope.recording.creation_outcomes import Creations
from nri_scope.recording.reader import Recording
from nri_scope.recording.subject_queries import absence_test, under_each_name

from .attribution.attributed_changes import RoundDiff
from .attribution.differ import Differ
from .attribution.history import History
from .attribution.presence import INTRODUCTION, SET_UP
from .attribution.round_selection import Choice
from .attribution.rounds import ASIDE

_NEAR = 500
"""Number of consecutive events that usually include one of each connection."""


def rounds(
    recording: Recording, subject: lookup.Found | None = None, *, differ: Differ | None = None
) -> Iterator[RoundDiff]:
    """Yield the changes of each round of a recording, in order.

    For a container or pod: its own rounds, and side effects of other rounds on it. For an event:
    its round. Requests have the outcome that the whole recording shows. Raises RecordingError.
    """
    differ = differ or differ_of(recording)
    found = rounds_of(recording, differ)
    if subject is None:
        yield from found
        return
    choice = Choice(recording, subject)
    for whole in found:
        part = choice.part_of(whole)
        if part is not None:
            yield part


def rounds_of(
    recording: Recording,
    differ: Differ,
    among: Sequence[int] | None = None,
    check: Callable[[], None] = lambda: None,
) -> Iterator[RoundDiff]:
    """Feed events of a recording to a differ, and return their rounds.

    Requests have the outcome that all fed events show. ``among``: ids of the events to feed; None
    for all. ``check`` is called for each event, and may raise. Raises RecordingError.
    """
    # Outcomes are recorded after the requests, and the steps of a round get them later.
    return iter(list(_fed(differ, recording, among, check)))


def differ_of(
    recording: Recording,
    *,
    keep: bool = True,
    only_findings: bool = False,
    outcome: Callable[[Event], Outcome] | None = None,
) -> Differ:
    """Return a differ for all events of a recording; options as for `Differ`.

    Raises RecordingError.
    """
    return Differ(
        recording.sessions(),
        keep=keep,
        gaps=recording.gaps(),
        follows=lookup.predecessor_test(recording),
        outcome=outcome or Creations(recording).outcome,
        unheard=absence_test(recording),
        only_findings=only_findings,
    )


def differ_of_some(recording: Recording, containers: Iterable[Container]) -> Differ:
    """Return a differ for the events that are relevant to `containers`. Raises RecordingError."""
    return Differ(
        recording.sessions(),
        only=[one.id for one in containers],
        gaps=recording.gaps(),
        # Events of a few containers are not consecutive.
        follows=lambda event: lookup.has_recorded_predecessor(recording, event),
        had_its_place=lambda session, event: _had_its_place(recording, session, event),
        had_joined=_had_joined(recording),
        outcome=Creations(recording).outcome,
        unheard=absence_test(recording),
    )


def _had_its_place(recording: Recording, session: Session, event: Event) -> bool:
    """Return the result of `Presence.had_its_place`, computed from the whole recording."""
    return lookup.has_event_before(
        recording, session.id, event.id, sorted(ASIDE), others=True
    ) or not lookup.has_event_before(recording, session.id, event.id, sorted(SET_UP))


def _had_joined(recording: Recording) -> Callable[[Session, Event], bool]:
    """Return a function for `Rounds.had_joined`, computed from the whole recording."""
    introduction = sorted(INTRODUCTION)
    since: dict[int, int] = {}

    @cache
    def firsts() -> dict[int, int]:
        """Return the first event that the runtime may send to each session, by session id."""
        joined = lookup.first_events(recording, introduction, others=True)
        later = lookup.first_events(recording, sorted(SET_UP), others=True)
        begun = lookup.first_events(recording, sorted(SET_UP))
        # Without a recorded beginning, the session may have existed before.
        return {
            session: joined.get(session, maxsize) if first < later.get(session, maxsize) else 0
            for session, first in begun.items()
        }

    def had_joined(session: Session, event: Event) -> bool:
        if session.id not in since or since[session.id] > event.id:
            # Most sessions have an event nearby; a search without bounds would read the whole file.
            if not lookup.has_event_before(
                recording, session.id, event.id, introduction, others=True, within=_NEAR
            ):
                return firsts().get(session.id, 0) < event.id
            since[session.id] = event.id
        return True

    return had_joined


def blame(recording: Recording, container: Container) -> History:
    """Return one container's history.

    Raises RecordingError, and UsageError if the recording does not show the container's spec.
    """
    differ = differ_of_some(recording, [container])
    numbers = events_of_some(recording, [container], differ)
    for _ in _fed(differ, recording, numbers):
        pass
    history = differ.histories.get(container.id)
    if history is None:
        name = lookup.container_name(container) or f"container {container.id}"
        raise UsageError(
            f"{recording.path} does not contain the spec of {name}",
            "no event describes it: messages contain only its id",
        )
    return history


def histories(recording: Recording) -> dict[str, History]:
    """Return every container's history, by its id. Raises RecordingError."""
    differ = differ_of(recording)
    with _rarely_collected():
        for _ in _fed(differ, recording):
            pass
    return differ.histories


@contextmanager
def _rarely_collected() -> Iterator[None]:
    """Collect garbage rarely: objects made here stay in use, and each scan of them is slow."""
    before = gc.get_threshold()
    gc.set_threshold(500_000, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _fed(
    differ: Differ,
    recording: Recording,
    among: Sequence[int] | None = None,
    check: Callable[[], None] = lambda: None,
) -> Iterator[RoundDiff]:
    allowance = recording.allowance()
    for event, request, reply in recording.exchanges(among=among, allowance=allowance):
        check()
        yield from differ.feed(event, request, reply)
        allowance.spend(differ.take_work())
    yield from differ.flush()


def events_of_some(
    recording: Recording, containers: Iterable[Container], differ: Differ
) -> Sequence[int]:
    """Return the ids of the events that affect the histories of `containers`.

    Containers that Synchronize lists are added to the differ first.
    """
    found: set[int] = set()
    for container in under_each_name(recording, [one.key for one in containers]):
        numbers = lookup.events_for(recording, container)
        # The next request, about any subject, shows that a creation's or update's chain had ended.
        later = lookup.next_after(recording, container, (CREATE, UPDATE), sorted(ASIDE))
        own = {*numbers, *later}
        listed = lookup.listed_at_start(recording, container)
        if listed is not None and listed.event <= min(own, default=listed.event):
            with suppress(DecodeError):
                known = api.Container.FromString(listed.content)
                differ.know(known, lookup.container_name(container))
        found |= own
    return sorted(found)
