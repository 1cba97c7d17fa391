# SPDX-License-Identifier: Apache-2.0
"""The differ over a recording: all of it, or what is about one container, pod or event."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from google.protobuf.message import DecodeError

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import UsageError
from nri_scope.recorder import lookup
from nri_scope.recorder.model import Container, Event, Pod, Role, Session
from nri_scope.recorder.reader import Recording

from .differ import Differ
from .history import History
from .model import RoundDiff, Step
from .rounds import CONTAINER_STATUS


def rounds(
    recording: Recording, thing: lookup.Found | None = None, *, differ: Differ | None = None
) -> Iterator[RoundDiff]:
    """What each round of a recording changed, in order.

    Of a container or pod: its own rounds, and those with side effects on it. Of an event: the
    round that it belongs to. Where the CRI told what became of the changes, they say so. Raises
    RecordingError.
    """
    sessions = recording.sessions()
    differ = differ or _differ(recording, sessions, thing)
    whole = _all(recording, thing, differ)
    if any(session.role == Role.CRI for session in sessions):
        # What the CRI tells comes after the changes that it is about.
        whole = _with_outcome(list(whole), differ)
    if thing is None:
        yield from whole
        return
    ids = {one.id for one in _containers(recording, thing)}
    for one in whole:
        if isinstance(thing, Event):
            if thing.id in one.events:
                yield one
        elif (
            one.container in ids
            or any(step.container in ids for step in one.steps)
            or (isinstance(thing, Pod) and one.pod == thing.id)
        ):
            yield one


def blame(recording: Recording, container: Container) -> History:
    """One container's history.

    Raises RecordingError, and UsageError where nothing of it is known.
    """
    differ = _differ(recording, recording.sessions(), container, only=(container.id,))
    for _ in _all(recording, container, differ):
        pass
    history = differ.histories.get(container.id)
    if history is None:
        raise UsageError(
            f"{recording.path} does not show what {lookup.container_name(container)} is made of",
            "no event or Synchronize in it tells more than its id",
        )
    return history


def histories(recording: Recording) -> dict[str, History]:
    """Every container's history, by its id. Raises RecordingError."""
    differ = _differ(recording, recording.sessions(), None)
    for _ in _all(recording, None, differ):
        pass
    return differ.histories


def _differ(
    recording: Recording,
    sessions: Iterable[Session],
    thing: lookup.Found | None,
    *,
    only: Iterable[str] | None = None,
) -> Differ:
    def follows(event: Event) -> bool:
        return lookup.follows(recording, event)

    return Differ(
        sessions,
        only=only,
        gaps=recording.gaps(),
        # Of one thing's events none follows another.
        follows=None if thing is None else follows,
    )


def _all(recording: Recording, thing: lookup.Found | None, differ: Differ) -> Iterator[RoundDiff]:
    among = None if thing is None else _events(recording, thing, differ)
    for event, request, reply in recording.exchanges(among=among):
        yield from differ.feed(event, request, reply)
    yield from differ.flush()


def _events(recording: Recording, thing: lookup.Found, differ: Differ) -> Sequence[int] | None:
    """The numbers of the events that matter for `thing`; None: all."""
    about: list[Pod | Container] = [*_containers(recording, thing)]
    if isinstance(thing, Pod):
        about.append(thing)
    elif isinstance(thing, Event) and not about:
        about += [pod for pod in recording.pods() if pod.id == thing.pod_id]
    wanted: set[int] = set()
    for one in about:
        own = lookup.events_about(recording, one)
        wanted.update(own)
        if isinstance(one, Container):
            effects = lookup.effects_on(recording, one)
            if effects is None:
                # An old recording: any reply may have updated it.
                return None
            wanted.update(effects)
            _existed(recording, one, differ, before=min([*own, *effects], default=0))
    # What a plugin asked out of turn, or a Synchronize, has to do with any container.
    return sorted(wanted) if about else None


def _existed(recording: Recording, one: Container, differ: Differ, *, before: int) -> None:
    """Let the differ know a container that Synchronize told of before anything else did."""
    told = lookup.existed(recording, one)
    if told is None or (before and told.event > before):
        return
    with suppress(DecodeError):
        differ.know(api.Container.FromString(told.content), lookup.container_name(one))


def _containers(recording: Recording, thing: lookup.Found) -> list[Container]:
    match thing:
        case Container():
            return [thing]
        case Pod():
            return lookup.containers_of(recording, thing)
    return [
        one for one in recording.containers() if thing.container_id and one.id == thing.container_id
    ]


def _with_outcome(whole: Iterable[RoundDiff], differ: Differ) -> Iterator[RoundDiff]:
    """The rounds with what became of their changes, in place of when that was asked."""
    judged = {
        _key(step): step
        for history in differ.histories.values()
        for step in history.steps
        if step.applied is not None
    }
    for one in whole:
        if one.name != CONTAINER_STATUS:
            steps = tuple(judged.get(_key(step), step) for step in one.steps)
            yield replace(one, steps=steps)


def _key(step: Step) -> tuple[str, str, int]:
    return step.container, step.change.path, step.event
