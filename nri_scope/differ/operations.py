# SPDX-License-Identifier: Apache-2.0
"""Group the events of a recording into operations.

An operation is one event on its way through the chain, as seen by all connections that received it.
The validators' request belongs to the creation before it. The events by which a plugin joins its
runtime are one operation, too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from time import time_ns

from nri_scope.entries import Began, Ended, Item
from nri_scope.events import (
    HAPPENED,
    SET_UP,
    Event,
    Gap,
    Note,
    Printed,
    Problem,
    Session,
    SetUps,
    Status,
)
from nri_scope.filter import Filter
from nri_scope.nri.events import CREATE, VALIDATE
from nri_scope.nri.plain import Plain
from nri_scope.recording.reading.reader import Recording
from nri_scope.recording.reading.records import event_record
from nri_scope.text.quantities import duration

from .attribution.attributed_changes import PluginSpan
from .attribution.observed_round import ConnectionPart, Round, RoundChain, spans
from .attribution.owner import plugin
from .attribution.rounds import Rounds
from .recording_differ import WholeRecording


class Grouping:
    """The operation of each event, fed in order. Not thread-safe."""

    def __init__(self, recording: Recording) -> None:
        """Begin before the first event. Raises RecordingError."""
        self._rounds = Rounds(around=WholeRecording(recording))
        self._begun: Event | None = None
        """First event of the open operation."""
        self._is_creation = False
        """Whether the newest round is a creation, to which a validation would belong."""
        self._set_ups = SetUps()
        self.update(recording)

    def update(self, recording: Recording) -> None:
        """Read the sessions and gaps, which grow with the recording. Raises RecordingError."""
        self._rounds.replace_sessions(recording.sessions())
        self._rounds.gaps = tuple(gap for gap in recording.gaps() if not gap.is_left_out)

    def first_of(self, event: Event) -> int:
        """Return the number of the first event of the operation of the next event."""
        self._rounds.feed(event)
        if event.method in SET_UP and not self._rounds.goes_on(event):
            self._rounds.flush()
            first, self._is_creation = self._set_ups.first_of(event.id, event.session), False
            if first == event.id:
                self._begun = event
            return first
        open_round = self._rounds.open
        if open_round is None or open_round.parts[-1].event is not event:
            # The event is outside the chain.
            return event.id
        if len(open_round.parts) == 1:
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


def span_words(span: PluginSpan) -> str:
    """Return a time and its plugin: ``1.2ms 30-x``, or between connections ``1.2ms ↕ 01–29``."""
    owner = f"↕ {span.owner.place}" if span.after else str(span.owner)
    return f"{duration(max(0, span.ns))} {owner}"


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation."""

    events: tuple[Event, ...]
    """Its events, in the order in which they were recorded; at least one."""
    spans: tuple[PluginSpan, ...]
    """The times of its plugins, and, if there are several events, of passive connections."""

    @classmethod
    def of(cls, events: Iterable[Event], sessions: Mapping[int, Session]) -> Operation:
        """Return the operation of these events."""
        all_events = tuple(events)
        times: list[PluginSpan] = []
        for name in dict.fromkeys(event.event for event in all_events):
            parts = tuple(
                ConnectionPart(event, sessions[event.session])
                for event in all_events
                if event.event == name and event.session in sessions
            )
            if parts:
                chain_round = Round(parts)
                times += spans(chain_round, RoundChain(is_ordered=parts[0].is_ordered))
                times += (
                    PluginSpan(
                        plugin(part.plugin), "", "", part.event.took_ns, part.event.timeout_ns
                    )
                    for part in chain_round.parts
                    if part.is_passive and len(all_events) > 1
                )
        return cls(all_events, tuple(times))

    def replaced(self, events: Mapping[int, Event]) -> Operation:
        """Return the operation with other values of its events, by number, but the same times."""
        return replace(self, events=tuple(events.get(event.id, event) for event in self.events))

    @property
    def first(self) -> Event:
        """The first event."""
        return self.events[0]

    @property
    def took_ns(self) -> int:
        """Time in the chain: from the first request to the last reply."""
        if len(self.events) == 1:
            return self.first.took_ns
        return max(event.mono_ns + event.took_ns for event in self.events) - self.first.mono_ns

    @property
    def slowest(self) -> PluginSpan | None:
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
            "events": [event.id for event in self.events],
        }

    def summary(self) -> Event:
        """Return its first event with the result of the whole operation.

        The changes of all events, the time in the chain, no deadline if there are several events,
        and the first status other than ok.
        """
        if len(self.events) == 1:
            return self.first
        worst = next((event for event in self.events if event.status != Status.OK), self.first)
        problems = {event.problem for event in self.events}
        requests = dict.fromkeys(
            each
            for event in self.events
            for each in zip(event.changed, event.owners, event.outcomes, event.targets)  # noqa: B905
        )
        order = sorted(requests, key=lambda request: request[2] not in HAPPENED)
        if order:
            changed, owners, outcomes, targets = zip(*order, strict=True)
        else:
            # The outcomes of none of the events are known.
            changed = tuple(dict.fromkeys(path for event in self.events for path in event.changed))
            owners = tuple(dict.fromkeys(owner for event in self.events for owner in event.owners))
            outcomes = targets = ()
        return replace(
            self.first,
            took_ns=self.took_ns,
            timeout_ns=0,
            status=worst.status,
            status_code=worst.status_code,
            status_message=worst.status_message,
            mark=next((event.mark for event in self.events if event.mark), ""),
            problem=next((each for each in (Problem.FAILED, Problem.SLOW) if each in problems), ""),
            changed=changed,
            owners=owners,
            outcomes=outcomes,
            targets=targets,
        )


_Other = Gap | Ended | Note | Printed
Attributed = Callable[[Sequence[Event]], Mapping[int, Event]]
"""Function that returns events by number with the changes that only several events show."""
_HELD_MAX = 10_000
"""Maximum number of items that wait for the end of the operation before them."""


class OperationMerger:
    """Merger of items: each operation is yielded once no event of it can follow."""

    def __init__(
        self,
        recording: Recording,
        where: Filter | None,
        last: int | None,
        times: tuple[int | None, int | None],
        attributed: Attributed | None = None,
    ) -> None:
        """``where``: filter that one event of an operation must pass. ``last``: maximum number of
        operations of the first call. ``times``: limits in ns, the second one excluded, for other
        items, and for one event of an operation. ``attributed``: applied to the events of these
        ``last`` operations. Raises RecordingError.
        """
        self._attributed = attributed
        self._since_ns, self._until_ns = times
        self._recording = recording
        self._where = where
        self._last = last
        self._grouping = Grouping(recording)
        self._open: list[Event] = []
        """Events of the operation that may go on."""
        self._held: list[_Other | Operation] = []
        """Items after the first event of that operation."""
        self._began: set[int] = set()
        """Ids of the sessions of yielded operations."""

    def merge(self, items: Iterable[Item], *, ended: bool = False) -> Iterator[Item | Operation]:
        """Yield the items, with operations instead of events.

        A session begins before the first yielded operation with an event of it. ``ended``: no more
        items follow, so that the last operation is complete.
        """
        self._grouping.update(self._recording)
        merged: Iterable[_Other | Operation] = self._merged(items, ended=ended)
        if self._last is not None:
            merged, self._last = self._newest(merged, self._last), None
        for item in merged:
            if isinstance(item, Operation):
                yield from self._begin_sessions(item)
            if not isinstance(item, Ended) or item.session.id in self._began:
                yield item

    def _newest(
        self, items: Iterable[_Other | Operation], last: int
    ) -> Sequence[_Other | Operation]:
        """Return the last operations, and the items that are not older."""
        # All events are read, without messages: which events are one operation depends on those
        # before, such as the connections in the chain.
        recent: deque[_Other | Operation] = deque()
        count = 0
        for item in items:
            recent.append(item)
            count += isinstance(item, Operation)
            while count > last:
                count -= isinstance(recent.popleft(), Operation)
        first = next((item for item in recent if isinstance(item, Operation)), None)
        begin_ns = time_ns() if first is None else first.first.at_ns
        kept = [one for one in recent if isinstance(one, Operation) or _span_of(one)[1] >= begin_ns]
        if self._attributed is None:
            return kept
        operations = [item for item in kept if isinstance(item, Operation)]
        events = self._attributed(
            [*self._open, *(event for each in operations for event in each.events)]
        )
        self._open = [events.get(event.id, event) for event in self._open]
        return [item.replaced(events) if isinstance(item, Operation) else item for item in kept]

    def _begin_sessions(self, operation: Operation) -> Iterator[Began]:
        for event in operation.events:
            session = self._grouping.sessions.get(event.session)
            if session is not None and session.id not in self._began:
                self._began.add(session.id)
                yield Began(session)

    def _merged(self, items: Iterable[Item], *, ended: bool) -> Iterator[_Other | Operation]:
        for item in items:
            if isinstance(item, Began):
                continue
            if not isinstance(item, Event):
                if self._is_within(*_span_of(item)):
                    self._held.append(item)
            elif (first := self._grouping.first_of(item)) == item.id:
                if self._grouping.begins(item):
                    yield from self._finish()
                    self._open = [item]
                else:
                    self._held += self._operation([item])
            elif self._open and self._open[0].id == first:
                self._open.append(item)
            else:
                # Its operation was yielded, as nothing said that this event would follow.
                self._held += self._operation([item])
            if not self._open:
                yield from self._finish()
            elif len(self._held) > _HELD_MAX:
                yield from self._held
                self._held = []
        if ended or not self._grouping.goes_on:
            yield from self._finish()

    def _finish(self) -> Iterator[_Other | Operation]:
        if self._open:
            yield from self._operation(self._open)
        yield from self._held
        self._open, self._held = [], []

    def _operation(self, events: list[Event]) -> list[Operation]:
        if not any(map(self._is_wanted, events)):
            return []
        return [Operation.of(events, self._grouping.sessions)]

    def _is_wanted(self, event: Event) -> bool:
        return self._is_within(event.at_ns, event.at_ns) and (
            self._where is None or self._where.matches(event)
        )

    def _is_within(self, first_ns: int, last_ns: int) -> bool:
        return (self._since_ns is None or last_ns >= self._since_ns) and (
            self._until_ns is None or first_ns < self._until_ns
        )


def _span_of(item: _Other) -> tuple[int, int]:
    """Return the first and last time of an item, in ns."""
    match item:
        case Gap():
            return item.from_ns, item.to_ns
        case Ended(session):
            return session.ended_ns or 0, session.ended_ns or 0
        case Note() | Printed():
            return item.at_ns, item.at_ns
