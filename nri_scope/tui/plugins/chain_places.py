# SPDX-License-Identifier: Apache-2.0
"""The places in the chain of plugins: connections, plugins between them, and other owners."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from nri_scope.events import PASSIVE_ROLES, Role, Session
from nri_scope.recording.stats import ResponseTimes

from .call_counts import CallCounts, SessionCounts

if TYPE_CHECKING:
    from nri_scope.differ.latency import TimeIn


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
    took: ResponseTimes | None
    deadline_ns: int
    """Shortest deadline; 0 if there was none."""
    over_half: int
    problems: int | None
    changes: int | None
    """Number of events in which it changed something; None if unknown."""
    ends: tuple[str, str] = ("", "")
    """The connections before and after it, for `BETWEEN`."""
    owner: str = ""
    """The owner of its changes, as of `Owner`; "" for a passive connection, which has none."""
    session: int = 0
    """Its newest session; 0 if there is none."""
    first_event: int = 0
    """First event of its newest session; 0 if there is none."""
    slowest: int = 0
    """Event that took longest, for `BETWEEN`."""


def places(tally: CallCounts) -> tuple[ChainPlace, ...]:
    """Return the chain, in call order. Sorts all times, which may take long.

    For a restricted tally, return only places with counted events.
    """
    by_plugin: dict[str, list[Session]] = {}
    for session in tally.sessions:
        if session.role != Role.CRI:
            by_plugin.setdefault(session.plugin, []).append(session)
    times = tally.times()
    times_in = {str(time.owner): time for time in times if not time.after}
    changes = _changes_by_owner(tally)
    found: list[tuple[tuple[str, int, str], ChainPlace]] = []
    for plugin, sessions in by_plugin.items():
        place = _connection(plugin, sessions, tally, times_in.get(plugin), changes)
        found.append(((plugin, 0, ""), place))
    for time in times:
        if time.after:
            found.append(((time.after, 1, time.before), _between(time, changes)))
    shown = {place.owner for _, place in found} | by_plugin.keys()
    for plugin, count in changes.items():
        if plugin not in shown:
            place = ChainPlace(
                ChainPlaceKind.OWNER, plugin, None, None, 0, 0, None, count, owner=plugin
            )
            found.append(((plugin, 0, ""), place))
    chain = (place for _, place in sorted(found, key=lambda entry: entry[0]))
    return tuple(place for place in chain if not tally.is_narrowed or place.calls or place.changes)


def _changes_by_owner(tally: CallCounts) -> Counter[str]:
    """Count changes by owner, as shown by the requests of other connections."""
    plugins = {session.id: session.plugin for session in tally.sessions}
    found: Counter[str] = Counter()
    for session, counts in list(tally.counts.items()):
        for owner, count in list(counts.changes.items()):
            if owner != plugins.get(session):
                found[owner] += count
    return found


def _connection(
    plugin: str,
    sessions: Sequence[Session],
    tally: CallCounts,
    time_in: TimeIn | None,
    changes: Counter[str],
) -> ChainPlace:
    counts = [tally.counts.get(session.id, SessionCounts()) for session in sessions]
    roles = {session.role for session in sessions}
    is_passive = roles <= PASSIVE_ROLES
    kind = ChainPlaceKind.PASSIVE if is_passive else ChainPlaceKind.PLUGIN
    if roles == {Role.SCENARIO}:
        kind = ChainPlaceKind.SCENARIO
    deadlines = [one.deadline_ns for one in counts if one.deadline_ns]
    own = sum(one.changes[plugin] for one in counts)
    newest = max(sessions, key=lambda session: session.id)
    return ChainPlace(
        kind,
        plugin,
        sum(one.calls for one in counts),
        # A plugin's time is measured in the chain, as in `stats`.
        time_in.took if time_in is not None else ResponseTimes.of(*(one.times for one in counts)),
        time_in.deadline_ns if time_in is not None else min(deadlines, default=0),
        time_in.over_half if time_in is not None else sum(one.over_half for one in counts),
        sum(one.problems for one in counts),
        own or changes[plugin],
        owner="" if is_passive else plugin,
        session=newest.id,
        first_event=tally.counts.get(newest.id, SessionCounts()).first_event,
    )


def _between(time: TimeIn, changes: Counter[str]) -> ChainPlace:
    owner = str(time.owner)
    return ChainPlace(
        ChainPlaceKind.BETWEEN,
        time.owner.place or str(time.owner),
        time.count,
        time.took,
        time.deadline_ns,
        time.over_half,
        None,
        changes.get(owner),
        ends=(time.after, time.before),
        owner=owner,
        slowest=time.slowest,
    )
