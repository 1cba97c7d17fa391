# SPDX-License-Identifier: Apache-2.0
"""Time that plugins take over all events: in observed plugins, and between connections."""

from __future__ import annotations

from dataclasses import dataclass

from nri_scope.events import Role
from nri_scope.nri.events import EventKind
from nri_scope.nri.plain import Plain
from nri_scope.recording.query.log_rows import can_show_times
from nri_scope.recording.query.stats import Times, Timing
from nri_scope.recording.reading.reader import Recording
from nri_scope.recording.reading.records import deadline_ms

from .attribution.observed_round import Round, RoundChain, spans
from .attribution.owner import Owner
from .attribution.rounds import Rounds

_NAMES = frozenset(event.name for event in EventKind)


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


class Latency:
    """Collector of the times of rounds. Uses 8 bytes for each span."""

    def __init__(self) -> None:
        # Keys: the connections at both ends ("" for none), and the plugin if it was observed.
        self._times: dict[tuple[str, str, str], tuple[Owner, Times]] = {}

    def feed(self, round_: Round) -> None:
        """Add the spans of a round, if its event is sent through the chain."""
        if round_.name not in _NAMES:
            return
        # In a replay nri-scope is the runtime, so no plugin is between two observed plugins.
        replayed = round_.parts[0].session.role == Role.REPLAY
        # Without names of plugins, which only messages contain.
        for span in spans(round_, RoundChain(is_ordered=round_.parts[0].is_ordered)):
            if span.after and replayed:
                continue
            observed = "" if span.after else str(span.owner)
            key = (span.after, span.before, observed)
            _, times = self._times.setdefault(key, (span.owner, Times()))
            if times.add(span.ns, span.deadline_ns):
                name = span.before or observed
                seen = (part.event.id for part in round_.parts if part.plugin == name)
                times.slowest.add(span.ns, next(seen, round_.parts[-1].event.id))

    def times(self, after: str, before: str, observed: str) -> Times | None:
        """Return the times between two connections, or in an observed plugin; None if unknown."""
        _, times = self._times.get((after, before, observed), (None, None))
        return times

    def result(self) -> tuple[TimeIn, ...]:
        """Return the statistics in call order."""
        timings = (
            TimeIn.of(
                times,
                owner=owner,
                after=after,
                before=before,
                slowest=next((event for _, event in times.slowest.result()), 0),
            )
            for (after, before, _), (owner, times) in sorted(self._times.items(), key=_call_order)
        )
        return tuple(timing for timing in timings if timing is not None)


def _call_order(item: tuple[tuple[str, str, str], tuple[Owner, Times]]) -> tuple[str, str]:
    """Return a key that sorts an observed plugin before the span between it and the next one."""
    (after, before, observed), _ = item
    return after or observed, before


def latency(recording: Recording) -> tuple[TimeIn, ...]:
    """Return the statistics of a recording; () without an observed plugin or overlapping sessions.

    Raises RecordingError.
    """
    sessions = recording.sessions()
    if not can_show_times(sessions):
        return ()
    rounds, collector = Rounds.of(sessions), Latency()
    for event in recording.events():
        complete = rounds.feed(event)
        if complete is not None:
            collector.feed(complete)
    last = rounds.flush()
    if last is not None:
        collector.feed(last)
    return collector.result()
