# SPDX-License-Identifier: Apache-2.0
"""The places in the chain of plugins: connections, plugins between them, and other owners.

Calls and times of each connection are counted in one pass over all events, in steps.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from heapq import nlargest
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from nri_scope.differ.attribution.owner import CRI_REQUEST
from nri_scope.events import PASSIVE_ROLES, Container, Event, Pod, Role, Session
from nri_scope.filter import Filter
from nri_scope.recording.query.event_scan import Call, EventScan
from nri_scope.recording.query.log_rows import can_show_times
from nri_scope.recording.query.stats import SLOWEST, Times, Timing
from nri_scope.recording.reading.reader import Recording

if TYPE_CHECKING:
    # Imported late, because importing the differ takes long.
    from nri_scope.differ.attribution.observed_round import Round
    from nri_scope.differ.attribution.rounds import Rounds
    from nri_scope.differ.latency import Latency, TimeIn

    from ..widgets.board import Board


STEP = 4_000
"""Number of events per step of counting, which takes about 6 ms."""
_ROUND_STEP = 2_000
"""Number of events per step of assembling rounds, which takes about 30 ms."""


@dataclass(slots=True)
class SessionCounts:
    """Numbers of calls in one session, of those with a problem, and of changes."""

    calls: int = 0
    problems: int = 0
    """Number of calls with a status other than ok."""
    first_event: int = 0
    changes: Counter[str] = field(default_factory=Counter)
    """Number of events that show a change, by plugin; 0 if all are other requests."""
    times: Times = field(default_factory=Times)

    def add(self, call: Call) -> None:
        """Count a call."""
        number, _, took_ns, deadline_ns, ok, owners, changed_by, own = call
        self.calls += 1
        self.problems += not ok
        for owner in owners:
            if not owner.startswith(CRI_REQUEST):
                self.changes[owner] += owner in changed_by
        if own or not took_ns:
            # A call by the plugin, whose time is the runtime's; or one that was not measured.
            return
        if self.times.add(took_ns, deadline_ns):
            self.times.slowest.add(took_ns, number)


class TimeSample(NamedTuple):
    """All times of a place in the chain, in ns."""

    times: tuple[array[int], ...]
    slowest: list[tuple[int, int]]
    """The longest times and their events, the longest first."""


class PlaceCounts:
    """Counts of the events read so far. Steps run in a thread.

    Takes 4 to 8 bytes of memory per event.

    ``where``, ``about``: count only events that pass a filter, or concern a pod or container.
    With a filter, which may split rounds, times are only those of connections.
    """

    def __init__(self, where: Filter | None = None, about: Pod | Container | None = None) -> None:
        self.where = where
        self.about = about
        self.sessions: tuple[Session, ...] = ()
        self.counts: dict[int, SessionCounts] = {}
        """Counts by session number, for sessions with events."""
        self.scan = EventScan()
        self.in_rounds = 0
        """Number of the newest event included in rounds; 0 if no chain was observed."""
        self._latency: Latency | None = None
        self._rounds: Rounds | None = None

    def step(self, recording: Recording) -> bool:
        """Read more events; return False if none is left. Raises RecordingError."""
        return self.count_step(recording) or (
            # A filter may split rounds.
            self.where is None
            and can_show_times(self.sessions)
            and self._assemble_rounds(recording)
        )

    def count_step(self, recording: Recording) -> bool:
        """Like `step`, but without times of rounds, which is much faster."""
        self.sessions = tuple(recording.sessions())
        calls, more = self.scan.calls(recording, STEP, self.where, self.about)
        for call in calls:
            counts = self.counts.get(call.session)
            if counts is None:
                counts = self.counts[call.session] = SessionCounts(first_event=call.number)
            counts.add(call)
        return more

    def finish(self) -> None:
        """Include the newest round: no more events follow."""
        last = self._rounds.flush() if self._rounds is not None else None
        if last is not None and self._latency is not None:
            self._add_round(last, self._latency)

    @property
    def is_narrowed(self) -> bool:
        """Whether some events are not counted."""
        return self.where is not None or self.about is not None

    def times(self) -> tuple[TimeIn, ...]:
        """Return the times in plugins and between connections, like `differ.latency.latency`.

        The newest round is included when the next one has begun, or after `finish`.
        """
        return self._latency.result() if self._latency is not None else ()

    def sample(self, plugin: str, ends: tuple[str, str]) -> TimeSample:
        """Return the times of a plugin or connection, or between two connections (``ends``).

        A plugin's times are those in the chain, as in `times`, if its chain was observed.
        """
        after, before = ends
        key = (after, before, "") if after else ("", "", plugin)
        found = self._latency.times(*key) if self._latency is not None else None
        if found is not None:
            return TimeSample((found.took,), found.slowest.result())
        if after:
            return TimeSample((), [])
        sessions = [session.id for session in self.sessions if session.plugin == plugin]
        counts = [self.counts[number] for number in sessions if number in self.counts]
        slowest = (each for own in counts for each in own.times.slowest.result())
        return TimeSample(
            tuple(own.times.took for own in counts), nlargest(SLOWEST, slowest, key=itemgetter(0))
        )

    def _assemble_rounds(self, recording: Recording) -> bool:
        from nri_scope.differ.attribution.rounds import Rounds
        from nri_scope.differ.latency import Latency

        if self._rounds is None or self._latency is None:
            self._rounds, self._latency = Rounds(), Latency()
        self._rounds.replace_sessions(self.sessions)
        for count, event in enumerate(recording.events(after_id=self.in_rounds), 1):
            completed = self._rounds.feed(event)
            if completed is not None:
                self._add_round(completed, self._latency)
            self.in_rounds = event.id
            if count == _ROUND_STEP:
                return True
        return False

    def _add_round(self, round_: Round, latency: Latency) -> None:
        if self.about is None or _is_about(round_.first, self.about):
            latency.feed(round_)


def _is_about(event: Event, what: Pod | Container) -> bool:
    if isinstance(what, Container):
        if what.id:
            return event.container_id == what.id
        return event.container == what.name and (what.pod is None or _is_about(event, what.pod))
    if what.id:
        return event.pod_id == what.id
    return (event.namespace, event.pod) == (what.namespace, what.name)


@dataclass(slots=True)
class _SharedCounts:
    """The counts that the views of plugins and sessions share."""

    counts: list[PlaceCounts] = field(default_factory=list[PlaceCounts])
    """Those of all events and of the last restriction."""


def current_call_counts(board: Board) -> PlaceCounts:
    """Return the counts of the events that a board shows; new ones if the oldest events have been
    removed.
    """
    where, about = board.context.shown(), board.context.about
    shared = board.store.shared(_SharedCounts)
    known = [counts for counts in shared.counts if not counts.scan.outdated]
    for counts in known:
        if (counts.where, counts.about) == (where, about):
            return counts
    made = PlaceCounts(where, about)
    shared.counts = [*(old for old in known if old.is_narrowed != made.is_narrowed), made]
    return made


class ChainPlaceKind(StrEnum):
    """The kind of a line of the chain."""

    PLUGIN = "plugin"
    """A plugin whose traffic was observed."""
    PASSIVE = "passive"
    """A passive connection of nri-scope: times are its own reply times."""
    SCENARIO = "made"
    """A session made from a scenario: nothing was observed."""
    BETWEEN = "between"
    """The plugins between two observed connections, and the runtime."""
    OWNER = "owner"
    """A plugin known only as the owner of changes."""


@dataclass(frozen=True, slots=True)
class ChainPlace:
    """One place in the chain."""

    kind: ChainPlaceKind
    name: str
    """``NN-name``; between two connections, the possible indices."""
    calls: int | None
    """Number of calls; None if unknown."""
    timing: Timing | None
    problems: int | None
    changes: int | None
    """Number of events in which it changed something; None if unknown."""
    ends: tuple[str, str] = ("", "")
    """The connections before and after it, for `ChainPlaceKind.BETWEEN`."""
    owner: str = ""
    """The owner of its changes, as of `Owner`; "" for a passive connection, which has none."""
    session: int = 0
    """Its newest session; 0 if there is none."""
    first_event: int = 0
    """First event of its newest session; 0 if there is none."""
    slowest: int = 0
    """Event that took longest, for `ChainPlaceKind.BETWEEN`."""


def chain_places(counts: PlaceCounts) -> tuple[ChainPlace, ...]:
    """Return the places of the chain, in call order. Sorts all times, which may take long.

    For counts of some events, return only places with counted events.
    """
    by_plugin: dict[str, list[Session]] = {}
    for session in counts.sessions:
        if session.role != Role.CRI:
            by_plugin.setdefault(session.plugin, []).append(session)
    times = counts.times()
    times_in = {str(time.owner): time for time in times if not time.after}
    changes = _changes_by_owner(counts)
    keyed: list[tuple[tuple[str, int, str], ChainPlace]] = []
    for plugin, sessions in by_plugin.items():
        place = _connection(plugin, sessions, counts, times_in.get(plugin), changes)
        keyed.append(((plugin, 0, ""), place))
    for time in times:
        if time.after:
            keyed.append(((time.after, 1, time.before), _between(time, changes)))
    shown = {place.owner for _, place in keyed} | by_plugin.keys()
    for plugin, count in changes.items():
        if plugin not in shown:
            place = ChainPlace(ChainPlaceKind.OWNER, plugin, None, None, None, count, owner=plugin)
            keyed.append(((plugin, 0, ""), place))
    chain = (place for _, place in sorted(keyed, key=lambda entry: entry[0]))
    counted = (place for place in chain if place.calls or place.kind is ChainPlaceKind.OWNER)
    return tuple(counted if counts.is_narrowed else chain)


def _changes_by_owner(counts: PlaceCounts) -> Counter[str]:
    """Count changes by owner, as shown by the requests of other connections."""
    plugins = {session.id: session.plugin for session in counts.sessions}
    counted: Counter[str] = Counter()
    for session, own in list(counts.counts.items()):
        for owner, count in list(own.changes.items()):
            if owner != plugins.get(session):
                counted[owner] += count
    return counted


def _connection(
    plugin: str,
    sessions: Sequence[Session],
    counts: PlaceCounts,
    time_in: TimeIn | None,
    changes: Counter[str],
) -> ChainPlace:
    of_sessions = [counts.counts.get(session.id, SessionCounts()) for session in sessions]
    roles = {session.role for session in sessions}
    is_passive = roles <= PASSIVE_ROLES
    kind = ChainPlaceKind.PASSIVE if is_passive else ChainPlaceKind.PLUGIN
    if roles == {Role.SCENARIO}:
        kind = ChainPlaceKind.SCENARIO
    own = sum(counted.changes[plugin] for counted in of_sessions)
    newest = max(sessions, key=lambda session: session.id)
    return ChainPlace(
        kind,
        plugin,
        sum(counted.calls for counted in of_sessions),
        # A plugin's time is measured in the chain, as in `report`.
        time_in or Timing.of(*(counted.times for counted in of_sessions)),
        sum(counted.problems for counted in of_sessions),
        own or changes[plugin],
        owner="" if is_passive else plugin,
        session=newest.id,
        first_event=counts.counts.get(newest.id, SessionCounts()).first_event,
    )


def _between(time: TimeIn, changes: Counter[str]) -> ChainPlace:
    owner = str(time.owner)
    return ChainPlace(
        ChainPlaceKind.BETWEEN,
        time.owner.place or str(time.owner),
        time.count,
        time,
        None,
        changes.get(owner),
        ends=(time.after, time.before),
        owner=owner,
        slowest=time.slowest,
    )
