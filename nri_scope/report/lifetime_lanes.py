# SPDX-License-Identifier: Apache-2.0
"""Collect the lifetimes of pods and containers, and the number of events, for the timeline."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Container, Iterable
from dataclasses import dataclass, field

from nri_scope.differ.attribution.attributed_changes import NameOf
from nri_scope.events import Event, Gap, Session
from nri_scope.oci.runtime_rules import shows_start

from .limits import COLUMNS, LANES_KEPT, LANES_MAX, PLUGINS_MAX, TRACKED_MAX
from .report_data import Lane, Mark, Presence, Timeline

_BEGINS = ("CreateContainer", "RunPodSandbox")
_ENDS = ("RemoveContainer", "RemovePodSandbox")
_STOPS = ("StopContainer", "StopPodSandbox")
_WEIGHT = {Mark.CALM: 0, Mark.CHANGED: 2, Mark.SLOW: 3, Mark.FAILED: 3}


@dataclass(slots=True)
class _Lifetime:
    id: str
    pod: str
    is_pod: bool
    number: int
    """Id of its first event, by which lanes are sorted."""
    begin: int
    born: bool
    last: int
    end: int | None = None
    ran: int | None = None
    stopped: int | None = None
    weight: int = 0
    marks: dict[int, tuple[Mark, str]] = field(default_factory=dict)


class Lanes:
    """Collector of the lifetimes that may be drawn, for events in order."""

    def __init__(self, first_ns: int, last_ns: int) -> None:
        self.first_ns, self.last_ns = first_ns, max(last_ns, first_ns + 1)
        self._lifetimes: dict[str, _Lifetime] = {}
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
        place = (at_ns - self.first_ns) * (COLUMNS - 1) // span
        return min(max(place, 0), COLUMNS - 1)

    def see(self, event: Event) -> None:
        """Process an event."""
        place = self.column(event.at_ns)
        self._counts[place] += 1
        thing = event.container_id or event.pod_id
        if not thing or thing in self._gone:
            return
        lifetime = self._lifetimes.get(thing) or self._begin(thing, event, place)
        if lifetime is None:
            return
        lifetime.last = place
        starts = event.event == "RunPodSandbox" or shows_start(event.event, event.runtime)
        if starts and lifetime.ran is None:
            lifetime.ran = place
        elif event.event in _STOPS:
            lifetime.stopped = place
        elif event.event in _ENDS:
            lifetime.end = place
            if thing in self._calm:
                self._calm.move_to_end(thing, last=False)

    def mark(self, thing: str, at_ns: int, kind: Mark, words: str) -> None:
        """Mark a round's outcome on the lane of its pod or container."""
        place = self.column(at_ns)
        if kind in (Mark.SLOW, Mark.FAILED):
            self._bad[place] += 1
        lifetime = self._lifetimes.get(thing)
        if lifetime is None:
            return
        known = lifetime.marks.get(place)
        if known is None or _WEIGHT[known[0]] <= _WEIGHT[kind]:
            lifetime.marks[place] = kind, words
        if _WEIGHT[kind]:
            lifetime.weight += _WEIGHT[kind]
            # The pod is drawn with the container.
            for each in (lifetime.id, lifetime.pod):
                self._calm.pop(each, None)

    def timeline(
        self, sessions: Iterable[Session], gaps: Iterable[Gap], name_of: NameOf
    ) -> Timeline:
        """Return the timeline, with the busiest `LANES_MAX` lanes, the earliest first."""
        chosen = sorted(self._lifetimes.values(), key=lambda one: (-one.weight, one.number))
        chosen = self._with_their_pods(chosen)
        drawn = {one.id for one in chosen}
        return Timeline(
            self.first_ns,
            self.last_ns,
            COLUMNS,
            tuple(self._counts),
            tuple(self._bad),
            self._unobserved(gaps),
            self._presences(sessions),
            tuple(_lane(one, name_of, drawn) for one in chosen),
        )

    def _unobserved(self, gaps: Iterable[Gap]) -> tuple[tuple[int, int], ...]:
        """Return first and last columns of gaps, merged where they touch to limit their number."""
        furthest = [-1] * COLUMNS
        for gap in gaps:
            ends = self.column(gap.from_ns), self.column(gap.to_ns)
            furthest[min(ends)] = max(furthest[min(ends)], *ends)
        spans: list[tuple[int, int]] = []
        for begin, end in enumerate(furthest):
            if end < 0:
                continue
            if spans and begin <= spans[-1][1]:
                spans[-1] = spans[-1][0], max(spans[-1][1], end)
            else:
                spans.append((begin, end))
        return tuple(spans)

    def _begin(self, thing: str, event: Event, place: int) -> _Lifetime | None:
        """Add a lifetime; return None if it is dropped at the limit."""
        self.seen += 1
        if len(self._lifetimes) >= LANES_KEPT:
            out = self._calm.popitem(last=False)[0] if self._calm else thing
            self._lifetimes.pop(out, None)
            if len(self._gone) < TRACKED_MAX:
                self._gone.add(out)
            if out == thing:
                return None
        born = event.event in _BEGINS
        lifetime = _Lifetime(
            thing, event.pod_id, not event.container_id, event.id, place, born, place
        )
        self._lifetimes[thing] = lifetime
        self._calm[thing] = None
        return lifetime

    def _with_their_pods(self, chosen: list[_Lifetime]) -> list[_Lifetime]:
        """Return the first `LANES_MAX` of the chosen lifetimes, each container after its pod."""
        kept: dict[str, _Lifetime] = {}
        for one in chosen:
            group = (
                [one]
                if one.is_pod or one.pod not in self._lifetimes
                else [self._lifetimes[one.pod], one]
            )
            new = [each for each in group if each.id not in kept]
            if len(kept) + len(new) > LANES_MAX:
                continue
            kept.update((each.id, each) for each in new)
        numbers = {one.id: one.number for one in kept.values()}
        return sorted(
            kept.values(),
            key=lambda one: (numbers.get(one.pod, one.number), one.pod, not one.is_pod, one.number),
        )

    def _presences(self, sessions: Iterable[Session]) -> tuple[Presence, ...]:
        found: dict[str, list[tuple[int, int]]] = {}
        for one in sorted(sessions, key=lambda one: (one.plugin_index, one.id)):
            if not one.is_connection or (one.plugin not in found and len(found) >= PLUGINS_MAX):
                continue
            end = self.last_ns if one.ended_ns is None else one.ended_ns
            if end < self.first_ns or one.started_ns > self.last_ns:
                continue
            span = self.column(one.started_ns), self.column(end)
            known = found.setdefault(one.plugin, [])
            if known and span[0] <= known[-1][1]:
                known[-1] = known[-1][0], max(span[1], known[-1][1])
            else:
                known.append(span)
        return tuple(Presence(title, tuple(spans)) for title, spans in found.items())


def _lane(lifetime: _Lifetime, name_of: NameOf, drawn: Container[str]) -> Lane:
    runs = None
    if lifetime.ran is not None:
        until = lifetime.stopped if lifetime.stopped is not None else lifetime.end
        runs = lifetime.ran, max(lifetime.ran, COLUMNS - 1 if until is None else until)
    return Lane(
        name_of(lifetime.id),
        lifetime.is_pod,
        not lifetime.is_pod and lifetime.pod in drawn,
        lifetime.begin if lifetime.born else 0,
        COLUMNS - 1 if lifetime.end is None else max(lifetime.end, lifetime.last),
        runs if lifetime.born or runs is None else (0, runs[1]),
        tuple((place, kind, words) for place, (kind, words) in sorted(lifetime.marks.items())),
    )
