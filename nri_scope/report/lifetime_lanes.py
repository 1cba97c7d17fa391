# SPDX-License-Identifier: Apache-2.0
"""Collect the lifetimes of pods and containers, and the number of events, for the timeline."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Container, Iterable
from dataclasses import dataclass, field

from nri_scope.differ.attribution.attributed_changes import NameOf
from nri_scope.events import Event, Gap, Session
from nri_scope.nri.events import EventStage
from nri_scope.recording.query.lifetimes import Lifetime
from nri_scope.recording.reading.sessions import joined

from .limits import COLUMNS, LANES_KEPT, LANES_MAX, PLUGINS_MAX, TRACKED_MAX
from .report_data import ConnectedTime, Lane, LaneMark, Timeline

_WEIGHT = {LaneMark.CALM: 0, LaneMark.CHANGED: 2, LaneMark.SLOW: 3, LaneMark.FAILED: 3}


@dataclass(slots=True)
class _Candidate:
    """A lifetime that may be drawn."""

    lifetime: Lifetime
    weight: int = 0
    marks: dict[int, tuple[LaneMark, str]] = field(default_factory=dict)

    @property
    def pod(self) -> str:
        return self.lifetime.first.pod_id

    @property
    def number(self) -> int:
        """Id of its first event, by which lanes are sorted."""
        return self.lifetime.first.id


class LaneCollector:
    """Collector of the lifetimes that may be drawn, for events in order."""

    def __init__(self, first_ns: int, last_ns: int) -> None:
        self.first_ns, self.last_ns = first_ns, max(last_ns, first_ns + 1)
        self._candidates: dict[str, _Candidate] = {}
        self._calm: OrderedDict[str, None] = OrderedDict()
        """Lifetimes without changes or problems, in the order in which they are dropped."""
        self._gone: set[str] = set()
        """Ids of dropped lifetimes, whose later events are ignored."""
        self._counts = [0] * COLUMNS
        self._bad = [0] * COLUMNS
        self.seen = 0
        """Number of pods and containers."""

    def column(self, at_ns: int) -> int:
        """Return the column of a time; the nearest one for times outside the period."""
        span = self.last_ns - self.first_ns
        column = (at_ns - self.first_ns) * (COLUMNS - 1) // span
        return min(max(column, 0), COLUMNS - 1)

    def see(self, event: Event) -> None:
        """Process an event."""
        self._counts[self.column(event.at_ns)] += 1
        subject = event.container_id or event.pod_id
        if not subject or subject in self._gone:
            return
        candidate = self._candidates.get(subject) or self._begin(subject, event)
        if candidate is None:
            return
        candidate.lifetime.see(event)
        if candidate.lifetime.stage is EventStage.REMOVED and subject in self._calm:
            self._calm.move_to_end(subject, last=False)

    def mark(self, subject: str, at_ns: int, kind: LaneMark, label: str) -> None:
        """Mark a round's outcome on the lane of its pod or container."""
        column = self.column(at_ns)
        if kind in (LaneMark.SLOW, LaneMark.FAILED):
            self._bad[column] += 1
        candidate = self._candidates.get(subject)
        if candidate is None:
            return
        earlier = candidate.marks.get(column)
        if earlier is None or _WEIGHT[earlier[0]] <= _WEIGHT[kind]:
            candidate.marks[column] = kind, label
        if _WEIGHT[kind]:
            candidate.weight += _WEIGHT[kind]
            # The pod is drawn with the container.
            for identifier in (subject, candidate.pod):
                self._calm.pop(identifier, None)

    def timeline(
        self, sessions: Iterable[Session], gaps: Iterable[Gap], name_of: NameOf
    ) -> Timeline:
        """Return the timeline, with the busiest `LANES_MAX` lanes, the earliest first."""
        chosen = sorted(self._candidates.values(), key=lambda lane: (-lane.weight, lane.number))
        chosen = self._with_their_pods(chosen)
        drawn = {candidate.lifetime.id for candidate in chosen}
        return Timeline(
            self.first_ns,
            self.last_ns,
            COLUMNS,
            tuple(self._counts),
            tuple(self._bad),
            tuple(joined(self._columns(gap.from_ns, gap.to_ns) for gap in gaps)),
            self._presences(sessions),
            tuple(self._lane(candidate, name_of, drawn) for candidate in chosen),
        )

    def _lane(self, candidate: _Candidate, name_of: NameOf, drawn: Container[str]) -> Lane:
        lifetime = candidate.lifetime
        reached = {stage: self.column(at_ns) for stage, at_ns in lifetime.reached.items()}
        begin = self.column(lifetime.first.at_ns) if lifetime.has_start else 0
        end = COLUMNS - 1
        if EventStage.REMOVED in reached:
            end = max(reached[EventStage.REMOVED], self.column(lifetime.last_ns))
        runs = None
        if EventStage.STARTED in reached:
            ran = reached[EventStage.STARTED]
            until = reached.get(EventStage.STOPPED, reached.get(EventStage.REMOVED, COLUMNS - 1))
            runs = ran if lifetime.has_start else 0, max(ran, until)
        return Lane(
            name_of(lifetime.id),
            lifetime.is_pod,
            not lifetime.is_pod and candidate.pod in drawn,
            begin,
            end,
            runs,
            tuple((column, kind, text) for column, (kind, text) in sorted(candidate.marks.items())),
        )

    def _columns(self, from_ns: int, to_ns: int) -> tuple[int, int]:
        ends = self.column(from_ns), self.column(to_ns)
        return min(ends), max(ends)

    def _begin(self, subject: str, event: Event) -> _Candidate | None:
        """Add a lifetime; return None if it is dropped at the limit."""
        self.seen += 1
        if len(self._candidates) >= LANES_KEPT:
            out = self._calm.popitem(last=False)[0] if self._calm else subject
            self._candidates.pop(out, None)
            if len(self._gone) < TRACKED_MAX:
                self._gone.add(out)
            if out == subject:
                return None
        self._calm[subject] = None
        candidate = self._candidates[subject] = _Candidate(Lifetime(event, not event.container_id))
        return candidate

    def _with_their_pods(self, chosen: list[_Candidate]) -> list[_Candidate]:
        """Return the first `LANES_MAX` of the chosen lifetimes, each container after its pod."""
        drawn: dict[str, _Candidate] = {}
        for candidate in chosen:
            pod = self._candidates.get(candidate.pod, candidate)
            group = {member.lifetime.id: member for member in (pod, candidate)}
            if len(drawn | group) <= LANES_MAX:
                drawn |= group
        numbers = {key: candidate.number for key, candidate in drawn.items()}
        return sorted(
            drawn.values(),
            key=lambda candidate: (
                *(numbers.get(candidate.pod, candidate.number), candidate.pod),
                *(not candidate.lifetime.is_pod, candidate.number),
            ),
        )

    def _presences(self, sessions: Iterable[Session]) -> tuple[ConnectedTime, ...]:
        times: dict[str, set[tuple[int, int]]] = {}
        for session in sorted(sessions, key=lambda session: (session.plugin_index, session.id)):
            is_new = session.plugin not in times
            if not session.is_connection or (is_new and len(times) >= PLUGINS_MAX):
                continue
            end = self.last_ns if session.ended_ns is None else session.ended_ns
            if end < self.first_ns or session.started_ns > self.last_ns:
                continue
            times.setdefault(session.plugin, set()).add(self._columns(session.started_ns, end))
        # Columns are joined where they touch, which limits their number.
        return tuple(ConnectedTime(title, tuple(joined(spans))) for title, spans in times.items())
