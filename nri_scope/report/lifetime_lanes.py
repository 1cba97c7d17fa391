# SPDX-License-Identifier: Apache-2.0
"""The lives of pods and containers over time, and the number of events, for the drawing."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Container, Iterable
from dataclasses import dataclass, field

from nri_scope.differ.attribution.attributed_changes import NameOf
from nri_scope.events import Event, Gap, Role, Session

from .limits import COLUMNS, LANES_KEPT, LANES_MAX, PLUGINS_MAX, TRACKED_MAX
from .report_data import Lane, Mark, Presence, Timeline

_BEGINS = ("CreateContainer", "RunPodSandbox")
_ENDS = ("RemoveContainer", "RemovePodSandbox")
_STARTS = ("StartContainer", "PostStartContainer", "RunPodSandbox")
_STOPS = ("StopContainer", "StopPodSandbox")
_WEIGHT = {Mark.CALM: 0, Mark.CHANGED: 2, Mark.SLOW: 3, Mark.FAILED: 3}


@dataclass(slots=True)
class _Life:
    id: str
    pod: str
    is_pod: bool
    number: int
    """Id of its first event: lanes are in this order."""
    begin: int
    born: bool
    last: int
    end: int | None = None
    ran: int | None = None
    stopped: int | None = None
    weight: int = 0
    marks: dict[int, tuple[Mark, str]] = field(default_factory=dict)


class Lanes:
    """Takes events as they come; keeps the lives that are, or may be, drawn."""

    def __init__(self, first_ns: int, last_ns: int) -> None:
        self.first_ns, self.last_ns = first_ns, max(last_ns, first_ns + 1)
        self._lives: dict[str, _Life] = {}
        self._calm: OrderedDict[str, None] = OrderedDict()
        """Lives that need not be drawn, in the order in which they are dropped for others."""
        self._gone: set[str] = set()
        """Dropped lives: their later events would show only a part of a life."""
        self._counts = [0] * COLUMNS
        self._bad = [0] * COLUMNS
        self.seen = 0
        """Number of pods and containers."""

    def column(self, at_ns: int) -> int:
        """Return the column of a moment, or the nearest one for moments outside."""
        span = self.last_ns - self.first_ns
        place = (at_ns - self.first_ns) * (COLUMNS - 1) // span
        return min(max(place, 0), COLUMNS - 1)

    def see(self, event: Event) -> None:
        """Take an event that is drawn."""
        place = self.column(event.at_ns)
        self._counts[place] += 1
        thing = event.container_id or event.pod_id
        if not thing or thing in self._gone:
            return
        life = self._lives.get(thing) or self._begin(thing, event, place)
        if life is None:
            return
        life.last = place
        if event.event in _STARTS and life.ran is None:
            life.ran = place
        elif event.event in _STOPS:
            life.stopped = place
        elif event.event in _ENDS:
            life.end = place
            if thing in self._calm:
                self._calm.move_to_end(thing, last=False)

    def mark(self, thing: str, at_ns: int, kind: Mark, words: str) -> None:
        """Mark a round's outcome on the lane of its pod or container."""
        place = self.column(at_ns)
        if kind in (Mark.SLOW, Mark.FAILED):
            self._bad[place] += 1
        life = self._lives.get(thing)
        if life is None:
            return
        known = life.marks.get(place)
        if known is None or _WEIGHT[known[0]] <= _WEIGHT[kind]:
            life.marks[place] = kind, words
        if _WEIGHT[kind]:
            life.weight += _WEIGHT[kind]
            # Its pod is drawn with it.
            for each in (life.id, life.pod):
                self._calm.pop(each, None)

    def timeline(
        self, sessions: Iterable[Session], gaps: Iterable[Gap], name_of: NameOf
    ) -> Timeline:
        """Return the drawing's content: of too many lanes the busiest ones, the earliest first."""
        chosen = sorted(self._lives.values(), key=lambda one: (-one.weight, one.number))
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
        """Return columns from and to, merged where they touch, so that their number is limited."""
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

    def _begin(self, thing: str, event: Event, place: int) -> _Life | None:
        """Start a life; return None if there is no room."""
        self.seen += 1
        if len(self._lives) >= LANES_KEPT:
            out = self._calm.popitem(last=False)[0] if self._calm else thing
            self._lives.pop(out, None)
            if len(self._gone) < TRACKED_MAX:
                self._gone.add(out)
            if out == thing:
                return None
        born = event.event in _BEGINS
        life = _Life(thing, event.pod_id, not event.container_id, event.id, place, born, place)
        self._lives[thing] = life
        self._calm[thing] = None
        return life

    def _with_their_pods(self, chosen: list[_Life]) -> list[_Life]:
        """Return the first lives, each container after its pod."""
        kept: dict[str, _Life] = {}
        for one in chosen:
            group = (
                [one] if one.is_pod or one.pod not in self._lives else [self._lives[one.pod], one]
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
            if one.role == Role.CRI or (one.plugin not in found and len(found) >= PLUGINS_MAX):
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


def _lane(life: _Life, name_of: NameOf, drawn: Container[str]) -> Lane:
    runs = None
    if life.ran is not None:
        until = life.stopped if life.stopped is not None else life.end
        runs = life.ran, max(life.ran, COLUMNS - 1 if until is None else until)
    return Lane(
        name_of(life.id),
        life.is_pod,
        not life.is_pod and life.pod in drawn,
        life.begin if life.born else 0,
        COLUMNS - 1 if life.end is None else max(life.end, life.last),
        not life.born,
        life.end is not None,
        runs if life.born or runs is None else (0, runs[1]),
        tuple((place, kind, words) for place, (kind, words) in sorted(life.marks.items())),
    )
