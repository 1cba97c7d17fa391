# SPDX-License-Identifier: Apache-2.0
"""Time that plugins take over all events: in observed plugins, and between connections."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field

from nri_scope.events import PASSIVE_ROLES, Role, Session
from nri_scope.nri.events import Event as NriEvent
from nri_scope.nri.plain import Plain
from nri_scope.recording.reader import Recording
from nri_scope.recording.records import deadline_ms
from nri_scope.recording.stats import ResponseTimes, Slowest

from .attribution.chain import Chain
from .attribution.owner import Owner
from .attribution.rounds import ConnectionPart, Round, Rounds, is_ordered
from .attribution.spans import spans

_NAMES = frozenset(event.name for event in NriEvent)
_NO_NAMES, _UNORDERED = Chain(), Chain(is_ordered=False)
"""Spans with index ranges, or without: only messages contain the names of other plugins."""


def chain_without_names(station: ConnectionPart) -> Chain:
    """Return the chain of a connection's runtime, for spans with ranges of indices."""
    return _NO_NAMES if is_ordered(station) else _UNORDERED


@dataclass(frozen=True, slots=True)
class Timing:
    """Statistics of event times in a plugin, or between two connections."""

    count: int
    took: ResponseTimes
    """Percentiles; between two connections they include some tens of µs of the runtime itself."""
    deadline_ns: int
    """Shortest deadline of one plugin for one event; 0 if the runtime sent none."""
    over_half: int
    """Number of events that took more than half of their deadline, including ``over``."""
    over: int
    """Number of events that took longer than one plugin's deadline."""


@dataclass(frozen=True, slots=True)
class TimeIn(Timing):
    """Statistics of one plugin, or of the plugins between two connections."""

    owner: Owner
    """An observed plugin, or the plugins between two observed connections."""
    after: str
    """The connection (``NN-name``) before the plugins; "" if ``owner`` is an observed plugin."""
    before: str
    """The connection after the plugins; "" if there is none."""
    slowest: int
    """Id of the event that took longest: the one after this time, if there is one."""

    @property
    def deadline_ms(self) -> int | None:
        """The deadline to the nearest millisecond: runtimes send slightly less than configured."""
        return deadline_ms(self.deadline_ns)

    def record(self) -> dict[str, Plain]:
        """Return the statistics as plain values for JSON."""
        took = self.took
        return {
            "owner": str(self.owner),
            "index": self.owner.index,
            "after": self.after,
            "before": self.before,
            "count": self.count,
            "took_us": {"p50": took.p50 // 1000, "p99": took.p99 // 1000, "max": took.max // 1000},
            "deadline_ms": self.deadline_ms,
            "over_half": self.over_half,
            "over_deadline": self.over,
        }


@dataclass(slots=True)
class Times:
    """Collector of event times. Uses 8 bytes for each."""

    took: array[int] = field(default_factory=lambda: array("q"))
    slowest: Slowest = field(default_factory=Slowest)
    """Filled by the caller."""
    _deadline_ns: int = 0
    over_half: int = 0
    _over: int = 0

    def add(self, ns: int, deadline_ns: int) -> bool:
        """Add a duration and its deadline (0: none), in ns; return if it is one of the longest."""
        self.took.append(ns)
        if deadline_ns > 0:
            if deadline_ns < self._deadline_ns or not self._deadline_ns:
                self._deadline_ns = deadline_ns
            self.over_half += 2 * ns > deadline_ns
            self._over += ns > deadline_ns
        return ns > self.slowest.least_ns

    def figures(self) -> tuple[int, ResponseTimes, int, int, int]:
        """Return the fields of a `Timing`. Needs at least one time."""
        took = ResponseTimes.of(self.took)
        assert took is not None
        return len(self.took), took, self._deadline_ns, self.over_half, self._over


class Latency:
    """Collector of the times of rounds. Uses 8 bytes for each span."""

    def __init__(self) -> None:
        # Keys: the connections at both ends ("" for none), and the plugin if it was observed.
        self._times: dict[tuple[str, str, str], tuple[Owner, Times]] = {}

    def feed(self, one: Round) -> None:
        """Add the spans of a round, if its event is sent through the chain."""
        if one.name not in _NAMES:
            return
        # In a replay nri-scope is the runtime, so no plugin is between two observed plugins.
        replayed = one.stations[0].session.role == Role.REPLAY
        for span in spans(one, chain_without_names(one.stations[0])):
            if span.after and replayed:
                continue
            observed = "" if span.after else str(span.owner)
            key = (span.after, span.before, observed)
            _, times = self._times.setdefault(key, (span.owner, Times()))
            if times.add(span.ns, span.deadline_ns):
                there = span.before or observed
                seen = (one.event.id for one in one.stations if one.plugin == there)
                times.slowest.add(span.ns, next(seen, one.stations[-1].event.id))

    def times(self, after: str, before: str, observed: str) -> Times | None:
        """Return the times between two connections, or in an observed plugin; None if unknown."""
        _, times = self._times.get((after, before, observed), (None, None))
        return times

    def result(self) -> tuple[TimeIn, ...]:
        """Return the statistics in call order."""
        return tuple(
            TimeIn(
                *times.figures(),
                *(owner, key[0], key[1]),
                next((event for _, event in times.slowest.result()), 0),
            )
            for key, (owner, times) in sorted(self._times.items(), key=_call_order)
        )


def _call_order(item: tuple[tuple[str, str, str], tuple[Owner, Times]]) -> tuple[str, str]:
    """Return a key that sorts an observed plugin before the span between it and the next one."""
    (after, before, observed), _ = item
    return after or observed, before


def latency(recording: Recording) -> tuple[TimeIn, ...]:
    """Return the statistics of a recording; () without an observed plugin or overlapping sessions.

    Raises RecordingError.
    """
    sessions = recording.sessions()
    if not _has_chain(sessions):
        return ()
    rounds, found = Rounds.of(sessions), Latency()
    for event in recording.events():
        complete = rounds.feed(event)
        if complete is not None:
            found.feed(complete)
    last = rounds.flush()
    if last is not None:
        found.feed(last)
    return found.result()


def _has_chain(sessions: Iterable[Session]) -> bool:
    """Return whether the sessions can show a plugin's time; one passive session cannot."""
    newest_end: float = 0
    for session in sorted(sessions, key=lambda session: session.started_ns):
        if not session.is_connection:
            continue
        if session.role not in PASSIVE_ROLES or session.started_ns < newest_end:
            return True
        ended = float("inf") if session.ended_ns is None else session.ended_ns
        newest_end = max(newest_end, ended)
    return False
