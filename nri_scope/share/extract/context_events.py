# SPDX-License-Identifier: Apache-2.0
"""Collect the context of chosen events, without which an extract would give wrong results.

For every pod and container of a chosen event, all earlier events are copied, too: a plugin's
changes show in later events, so if some of these were missing, the wrong plugin would be blamed.
Rounds are copied as a whole for the same reason: a connection without an event of a round would
look as if it had missed the round.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from nri_scope.events import CONTAINER_STATUS, Role
from nri_scope.recording.reader import Recording
from nri_scope.recording.rows import optional_numbers_of
from nri_scope.recording.sqlite_errors import sound

from .event_numbers import ascending, is_among, joined, listed
from .row_pages import pages
from .selected_events import Chosen
from .sources import IncludedRows
from .update_targets import Effects

_NAMESAKES = 8
"""Maximum number of rows with the same id that a recorder keeps apart."""
_ROUND = 100
"""Number of events to examine for the end of a round; exceeds any number of connections."""
_COLUMNS = "id, session, event, pod, container, at_ns"
_CREATE, _VALIDATE = "CreateContainer", "ValidateContainerAdjustment"
_BEGINS = ("RunPodSandbox", _CREATE)
"""Events that create pods and containers."""
_ONLY_TOLD = (
    "PostCreateContainer",
    "StartContainer",
    "PostStartContainer",
    "PostUpdateContainer",
)
"""Events that may come between a change of a container and the CRI's answer about it."""
_ASIDE = ("RegisterPlugin", "Configure", "UpdateContainers", "ContainerStatus", "Shutdown")
"""Calls between the runtime and one connection, which may occur within a chain."""

_Row = tuple[int | None, ...]
_Subject = tuple[bool, int]
"""Whether the subject is a container (or a pod), and its key."""


def with_context(
    source: Recording,
    chosen: Chosen,
    effects: Effects,
    on_progress: Callable[[float], None],
    *,
    bare: bool = False,
) -> IncludedRows:
    """Return the rows of the new recording; for ``bare`` see `Selection`. Raises RecordingError."""
    context = _Context(source, chosen, effects, bare)
    context.collect(on_progress)
    if not bare:
        context.add_witnesses()
    setup = (event for event, session in chosen.setup if session in context.sessions)
    context.events.extend(event for event in setup if not is_among(chosen.events, event))
    kept = joined(chosen.events, ascending(context.events))
    containers = {key for is_container, key in context.wanted if is_container}
    pods = {key for is_container, key in context.wanted if not is_container}
    return IncludedRows(
        until=chosen.until,
        chosen=chosen.events,
        kept=kept,
        sessions=context.sessions,
        pods=pods,
        containers=containers,
        whole_states=chosen.synchronized,
        damage=chosen.damage,
    )


@dataclass(slots=True)
class _Context:
    source: Recording
    chosen: Chosen
    effects: Effects
    bare: bool
    events: array[int] = field(default_factory=lambda: array("q"))
    """Events of the context, in any order, with duplicates."""
    sessions: set[int] = field(default_factory=set)
    """Sessions of the chosen events and their context: all that saw the same event are evidence."""
    wanted: dict[_Subject, int] = field(default_factory=dict)
    """Subjects, each with the last event up to which all of its events are needed."""
    _times: array[int] = field(default_factory=lambda: array("q"))
    _done: dict[_Subject, int] = field(default_factory=dict)
    _todo: list[_Subject] = field(default_factory=list)
    _aside: list[int] = field(init=False)
    """Numbers of method and event names; also in the lists below."""
    _begins: list[int] = field(init=False)
    _only_told: list[int] = field(init=False)
    _told_by_cri: list[int] = field(init=False)
    _creation: tuple[int | None, int | None] = field(init=False)

    def __post_init__(self) -> None:
        self._aside = self._names_of(_ASIDE)
        self._begins = self._names_of(_BEGINS)
        self._creation = self._name(_CREATE), self._name(_VALIDATE)
        self._only_told = self._names_of(_ONLY_TOLD)
        self._told_by_cri = self._names_of((CONTAINER_STATUS,))
        self.sessions |= self.chosen.sessions

    def collect(self, on_progress: Callable[[float], None]) -> None:
        """Add subjects and events until no more are needed."""
        for is_container, subjects in ((True, self.chosen.containers), (False, self.chosen.pods)):
            for key, until in subjects.items():
                self._want((is_container, key), until)
        self._want_told()
        self._want_updated(self.chosen.events)
        finished = 0
        while self._todo:
            self._take(self._todo.pop())
            finished += 1
            if finished % 100 == 0:
                on_progress(finished / (finished + len(self._todo)))

    def add_witnesses(self) -> None:
        """Add sessions that existed but saw no such event: they show where a chain ended."""
        times = sorted({*self.chosen.times, *self._times})
        for number, session in self.chosen.known.items():
            at = bisect_left(times, session.started_ns)
            was_there = at < len(times) and (
                session.ended_ns is None or times[at] <= session.ended_ns
            )
            if was_there and session.role != Role.CRI:
                self.sessions.add(number)

    def _want(self, subject: _Subject, until: int) -> None:
        if self.wanted.get(subject, -1) < until:
            self.wanted[subject] = until
            self._todo.append(subject)

    def _want_told(self) -> None:
        """Add the subjects listed in chosen parts of Synchronize."""
        for event in self.chosen.synchronized:
            for _, pod, container in self._told(event):
                self._want_both(pod, container, event)

    def _told(self, event: int) -> Iterator[_Row]:
        query = (
            "SELECT position, pod, container FROM state WHERE event = ? "
            "AND session = (SELECT session FROM event WHERE id = ?) AND position > ? "
            "ORDER BY position LIMIT ?"
        )
        for page in pages(self.source, query, event, event, after=-1):
            yield from page

    def _want_both(self, pod: int | None, container: int | None, until: int) -> None:
        if container is not None:
            self._want((True, container), until)
        if pod is not None:
            self._want((False, pod), until)

    def _want_updated(self, events: array[int]) -> None:
        """Add the targets of these events: an update requires its container in the recording."""
        for container, event in self.effects.of(events):
            self._want((True, container), event)

    def _take(self, subject: _Subject) -> None:
        until, after = self.wanted[subject], self._done.get(subject, 0)
        if until <= after:
            return
        self._done[subject] = until
        is_container, key = subject
        if after == 0:
            self._want_namesakes(subject, until)
        if is_container and (pod := self._pod_of(key)) is not None:
            self._want((False, pod), until)
        found = list(self._about(subject, after, until))
        if self.bare:
            found = [row for row in found if row[2] in self._begins]
        else:
            # All connections that take part in a round that began.
            found += self._rest_of_round(subject, until)
            if is_container:
                found += self._updating(key, after, until)
                found += self._answer(key, until)
        new = array("q")
        for number, session, _, pod, container, at_ns in found:
            if number is None or session is None or number > self.chosen.until:
                continue
            if session not in self.chosen.known:
                continue
            # Rounds are incomplete then; without the session, none counts as having missed them.
            if self.bare and session not in self.chosen.sessions:
                continue
            self.sessions.add(session)
            if at_ns is not None:
                self._times.append(at_ns)
            if not is_among(self.chosen.events, number):
                new.append(number)
            self._want_both(pod, container, number)
        self.events.extend(new)
        self._want_updated(ascending(new))

    def _want_namesakes(self, subject: _Subject, until: int) -> None:
        # Readers of messages treat rows with the same id as one thing.
        is_container, key = subject
        table = "container" if is_container else "pod"
        rows = self.source.rows(
            f"SELECT key FROM {table} WHERE key <> ? AND id <> '' "
            f"AND id = (SELECT id FROM {table} WHERE key = ?) ORDER BY key LIMIT ?",
            (key, key, _NAMESAKES),
        )
        for other in self._numbers(rows):
            if other is not None and (is_container, other) not in self._done:
                self._want((is_container, other), until)

    def _pod_of(self, container: int) -> int | None:
        rows = self.source.rows("SELECT pod FROM container WHERE key = ?", (container,))
        return next(iter(self._numbers(rows)), None)

    def _about(self, subject: _Subject, after: int, until: int) -> Iterator[_Row]:
        query = (
            f"SELECT {_COLUMNS} FROM event WHERE {_condition(subject)} AND id <= ? AND id > ? "
            "ORDER BY id LIMIT ?"
        )
        for page in pages(self.source, query, subject[1], until, after=after, until=until):
            yield from page

    def _rest_of_round(self, subject: _Subject, until: int) -> Iterator[_Row]:
        """Yield later events of the same round, or of the creation to which the round belongs."""
        before = self._beside(subject, f"id <= {int(until)}", "DESC")
        if not before:
            return
        happens = before[0][2]
        seen = {row[1] for row in _run(before, happens)}
        for row in self._beside(subject, f"id > {int(until)}", "ASC"):
            if row[2] != happens:
                if (happens, row[2]) != self._creation:
                    return
                # Validators are called directly after the creation chain.
                happens, seen = row[2], set()
            if row[1] in seen:
                return
            seen.add(row[1])
            yield row

    def _beside(self, subject: _Subject, where: str, order: str) -> list[_Row]:
        rows = self.source.rows(
            f"SELECT {_COLUMNS} FROM event WHERE {_condition(subject)} AND {where} "
            f"AND id <= ? AND method NOT IN {listed(self._aside)} ORDER BY id {order} LIMIT ?",
            (subject[1], self.chosen.until, _ROUND),
        )
        with sound(self.source):
            return [optional_numbers_of(row) for row in rows]

    def _answer(self, container: int, until: int) -> Iterator[_Row]:
        """Yield the CRI's next answer about a container, if it cannot have changed in between.

        The CRI is queried when a container runs; its answer is evidence for the result of plugins'
        changes.
        """
        if not self._told_by_cri:
            return
        rows = self.source.rows(
            f"SELECT {_COLUMNS}, method FROM event WHERE container = ? AND id > ? AND id <= ? "
            "ORDER BY id LIMIT ?",
            (container, until, self.chosen.until, _ROUND),
        )
        with sound(self.source):
            found = [optional_numbers_of(row) for row in rows]
        for *row, method in found:
            if method in self._told_by_cri:
                number = row[0] or 0
                if not any(True for _ in self.effects.on(container, until, number)):
                    yield tuple(row)
                return
            if row[2] not in self._only_told:
                return

    def _updating(self, container: int, after: int, until: int) -> Iterator[_Row]:
        """Yield events about other containers that requested an update of this one."""
        for event in self.effects.on(container, after, until):
            rows = self.source.rows(f"SELECT {_COLUMNS} FROM event WHERE id = ?", (event,))
            with sound(self.source):
                yield from map(optional_numbers_of, rows)

    def _names_of(self, texts: Iterable[str]) -> list[int]:
        return [number for text in texts if (number := self._name(text)) is not None]

    def _name(self, text: str) -> int | None:
        return next(
            iter(self._numbers(self.source.rows("SELECT id FROM name WHERE text = ?", (text,)))),
            None,
        )

    def _numbers(self, rows: list[tuple[object, ...]]) -> list[int | None]:
        with sound(self.source):
            return [optional_numbers_of(row)[0] for row in rows]


def _condition(subject: _Subject) -> str:
    return "container = ?" if subject[0] else "pod = ? AND container IS NULL"


def _run(rows: list[_Row], happens: int | None) -> Iterator[_Row]:
    """Yield the newest rows while they show the same event at different connections."""
    seen: set[int | None] = set()
    for row in rows:
        if row[2] != happens or row[1] in seen:
            return
        seen.add(row[1])
        yield row
