# SPDX-License-Identifier: Apache-2.0
"""Group the events of a recording into operations.

An operation is one event on its way through the chain, as seen by all connections that received it.
The validators' request belongs to the creation before it.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple

from nri_scope.events import HAPPENED, Event, Problem, Session, Status
from nri_scope.nri.events import CREATE, VALIDATE
from nri_scope.nri.plain import Plain
from nri_scope.recording.display import duration
from nri_scope.recording.event_pages import validations
from nri_scope.recording.log_rows import sessions_overlap
from nri_scope.recording.reader import Recording
from nri_scope.recording.records import event_record

from .attribution.attributed_changes import Span
from .attribution.chain import spans
from .attribution.owner import plugin
from .attribution.rounds import ASIDE, ConnectionPart, Round, Rounds
from .latency import chain_without_names
from .recording_differ import WholeRecording

_STEP = 1_000
"""Number of events of several connections in one step, which takes about 10 ms."""
_MAX_ID = (1 << 63) - 1
_LONG_STEP = 20_000
"""Number of events of a single connection in one step."""


class Grouped(NamedTuple):
    """The result of one step, for the events after those of the step before."""

    rest: array[int]
    """Numbers of the events that are not the first of their operation, ascending. Those of one
    operation are consecutive."""
    firsts: array[int]
    """For each of them, the number of the first event of its operation."""
    newest: int
    """Number of the last event that was grouped."""
    is_restart: bool = False
    """Whether the results of all earlier steps are void."""


class Grouping:
    """The operation of each event, fed in order. Not thread-safe."""

    def __init__(self, recording: Recording) -> None:
        """Begin before the first event. Raises RecordingError."""
        self._rounds = Rounds(around=WholeRecording(recording))
        self._begun: Event | None = None
        """First event of the open operation."""
        self._is_creation = False
        """Whether the newest round is a creation, to which a validation would belong."""
        self.update(recording)

    def update(self, recording: Recording) -> None:
        """Read the sessions and gaps, which grow with the recording. Raises RecordingError."""
        self._rounds.sessions = {session.id: session for session in recording.sessions()}
        self._rounds.gaps = tuple(gap for gap in recording.gaps() if not gap.is_left_out)

    def first_of(self, event: Event) -> int:
        """Return the number of the first event of the operation of the next event."""
        self._rounds.feed(event)
        one = self._rounds.open
        if one is None or one.stations[-1].event is not event:
            # It is outside the chain.
            return event.id
        if len(one.stations) == 1:
            begun = self._begun
            validates = event.event == VALIDATE and self._is_creation and begun is not None
            self._is_creation = event.event == CREATE
            if not (validates and begun and begun.container_id == event.container_id):
                self._begun = event
        return self._begun.id if self._begun is not None else event.id

    @property
    def sessions(self) -> Mapping[int, Session]:
        """The sessions by id."""
        return self._rounds.sessions

    def begins(self, event: Event) -> bool:
        """Return whether this newest event has begun the open operation."""
        return self._begun is event

    @property
    def goes_on(self) -> bool:
        """Whether events of the open operation may follow."""
        return self._rounds.goes_on()


class Grouper:
    """Reader that groups a recording's events, also while it grows. Not thread-safe."""

    def __init__(self) -> None:
        self.newest = 0
        """Number of the newest grouped event."""
        self._grouping: Grouping | None = None
        """None while no two connections have existed at the same time."""

    def steps(self, recording: Recording, until: int = _MAX_ID) -> Iterator[Grouped]:
        """Group all new events up to ``until``, in steps of milliseconds. Raises RecordingError."""
        is_restart = False
        if self._grouping is not None:
            self._grouping.update(recording)
        elif sessions_overlap(one for one in recording.sessions() if one.is_connection):
            is_restart = self.newest > 0
            self.newest = 0
            self._grouping = Grouping(recording)
        while (found := self._step(recording, until)).newest > self.newest:
            self.newest = found.newest
            yield found._replace(is_restart=is_restart)
            is_restart = False

    def _step(self, recording: Recording, until: int) -> Grouped:
        rest, firsts = array("q"), array("q")
        newest = self.newest
        if self._grouping is None:
            newest, pairs = validations(recording, newest, until, _LONG_STEP, sorted(ASIDE))
            for number, first in pairs:
                rest.append(number)
                firsts.append(first)
            return Grouped(rest, firsts, newest)
        for event in islice(recording.events(after_id=newest), _STEP):
            if event.id > until:
                break
            first, newest = self._grouping.first_of(event), event.id
            if first != newest:
                rest.append(newest)
                firsts.append(first)
        return Grouped(rest, firsts, newest)


def span_words(span: Span) -> str:
    """Return a time and its plugin: ``1.2ms 30-x``, or between connections ``1.2ms ↕ 01–29``."""
    owner = f"↕ {span.owner.place}" if span.after else str(span.owner)
    return f"{duration(max(0, span.ns))} {owner}"


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation."""

    events: tuple[Event, ...]
    """Its events, in the order in which they were recorded; at least one."""
    spans: tuple[Span, ...]
    """The times of its plugins, and, if there are several events, of passive connections."""

    @classmethod
    def of(cls, events: Iterable[Event], sessions: Mapping[int, Session]) -> Operation:
        """Return the operation of these events."""
        found = tuple(events)
        times: list[Span] = []
        for name in dict.fromkeys(event.event for event in found):
            parts = tuple(
                ConnectionPart(event, sessions[event.session])
                for event in found
                if event.event == name and event.session in sessions
            )
            if parts:
                one = Round(parts)
                times += spans(one, chain_without_names(parts[0]))
                times += (
                    Span(plugin(part.plugin), "", "", part.event.took_ns, part.event.timeout_ns)
                    for part in one.stations
                    if part.is_passive and len(found) > 1
                )
        return cls(found, tuple(times))

    def replaced(self, events: Mapping[int, Event]) -> Operation:
        """Return the operation with other values of its events, by number, but the same times."""
        return replace(self, events=tuple(events.get(one.id, one) for one in self.events))

    @property
    def first(self) -> Event:
        """The first event."""
        return self.events[0]

    @property
    def took_ns(self) -> int:
        """Time in the chain: from the first request to the last reply."""
        if len(self.events) == 1:
            return self.first.took_ns
        return max(one.mono_ns + one.took_ns for one in self.events) - self.first.mono_ns

    @property
    def slowest(self) -> Span | None:
        """The longest time of a plugin, a passive connection of nri-scope, or the plugins between
        two connections; None if no time was observed.
        """
        return max(self.spans, key=lambda span: span.ns, default=None)

    @property
    def slowest_words(self) -> str:
        """The slowest time and whose it was, see `span_words`; "" for none."""
        return "" if self.slowest is None else span_words(self.slowest)

    def record(self) -> dict[str, Plain]:
        """Return the operation as plain values for JSON."""
        event, span = self.summary(), self.slowest
        shown = event_record(event)
        for name in ("session", "plugin", "size", "deadline_ms"):
            del shown[name]
        slowest: Plain = None
        if span is not None:
            slowest = {
                "owner": str(span.owner),
                "after": span.after,
                "before": span.before,
                "took_us": span.ns // 1000,
            }
        return {
            **shown,
            "problem": event.problem,
            "changed": [*event.changed],
            "owners": [*event.owners],
            "outcomes": [*event.outcomes],
            "targets": [*event.targets],
            "slowest": slowest,
            "events": [one.id for one in self.events],
        }

    def summary(self) -> Event:
        """Return its first event with the result of the whole operation.

        The changes of all events, the time in the chain, no deadline if there are several events,
        and the first status other than ok.
        """
        if len(self.events) == 1:
            return self.first
        worst = next((one for one in self.events if one.status != Status.OK), self.first)
        problems = {one.problem for one in self.events}
        requests = dict.fromkeys(
            each
            for one in self.events
            for each in zip(one.changed, one.owners, one.outcomes, one.targets)  # noqa: B905
        )
        order = sorted(requests, key=lambda one: one[2] not in HAPPENED)
        changed, owners, outcomes, targets = tuple(zip(*order, strict=True)) or (
            # The outcomes of none of the events are known.
            tuple(dict.fromkeys(path for one in self.events for path in one.changed)),
            tuple(dict.fromkeys(owner for one in self.events for owner in one.owners)),
            (),
            (),
        )
        return replace(
            self.first,
            took_ns=self.took_ns,
            timeout_ns=0,
            status=worst.status,
            status_code=worst.status_code,
            status_message=worst.status_message,
            mark=next((one.mark for one in self.events if one.mark), ""),
            problem=next((one for one in (Problem.FAILED, Problem.SLOW) if one in problems), ""),
            changed=changed,
            owners=owners,
            outcomes=outcomes,
            targets=targets,
        )
