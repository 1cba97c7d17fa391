# SPDX-License-Identifier: Apache-2.0
"""Group events into rounds: one event on its way through the chain, as seen by all connections.

Runtimes dispatch under one lock, in index order, so all events of one round precede the next round
(containerd/nri, pkg/adaptation); iSulad calls plugins in random order. Ambiguous events become two
rounds, which loses information but attributes nothing wrongly.

Time does not end a round: there may be any number of unobserved plugins, and each may use its whole
deadline.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from nri_scope.entries import Outcome
from nri_scope.events import NO_ID, PASSIVE_ROLES, RUNTIME_CLOSED, Event, Gap, Role, Session
from nri_scope.nri.events import CREATE, POST_CREATE, STARTS, UPDATE, VALIDATE
from nri_scope.nri.events import Event as NriEvent
from nri_scope.oci.runtime_rules import runtime_rules_of
from nri_scope.recording.creation_outcomes import UNKNOWN
from nri_scope.wire.ttrpc import Code

from .presence import ASIDE as _AT_ANY_TIME
from .presence import SET_UP, Presence, began_before, outlived

_BITS = {event.name: event.bit for event in NriEvent}
SEEMS = "the chain seems to have ended"
"""Used in place of `ENDED` for a connection whose own end may not be known yet."""
ENDED = "the chain ended"
ROUND_MAX = 256 << 20
"""Maximum size of one round's messages, in bytes. Sixteen probes with a runtime's largest message
use a quarter."""
CONNECTIONS_MAX = 1_000
"""Maximum number of connections in one round; more begin another one. Runtimes have 100 indices."""
MISSED_MAX = 100
"""Maximum number of reported connections that missed one event."""

ASIDE = SET_UP | _AT_ANY_TIME
"""Exchanges between the runtime and one connection, outside any chain. They can also happen during
a round."""
_CREATED = STARTS | {POST_CREATE}
CONTINUED = "the runtime disconnected it, and continued"
"""What iSulad does after an error of a plugin."""
GONE = (Code.DEADLINE_EXCEEDED, Code.UNAVAILABLE)
"""Status codes of a plugin that the runtime skips, unless its failure policy fails the request: it
missed its deadline, or is disconnected."""


@dataclass(frozen=True, slots=True)
class ConnectionPart:
    """One connection's part in a round."""

    event: Event
    session: Session
    request: bytes = b""
    """Request of the event; b"" if only times are needed."""
    reply: bytes = b""

    @property
    def index(self) -> str:
        """The plugin's index, two digits."""
        return self.session.plugin_index

    @property
    def plugin(self) -> str:
        """The plugin as ``NN-name``."""
        return self.session.plugin

    @property
    def is_passive(self) -> bool:
        """Whether this is nri-scope's own connection, which changes nothing."""
        return self.session.role in PASSIVE_ROLES

    @property
    def is_error(self) -> bool:
        """Whether the runtime fails the request because of this connection's status.

        It skips a plugin that was late or disconnected, unless its failure policy says otherwise.
        """
        code = self.event.status_code
        policy = self.session.failure_policy
        if code not in GONE or policy is None or not policy.fail_request:
            return code not in (0, *GONE)
        # A runtime that ended did not lose the plugin.
        return code == Code.DEADLINE_EXCEEDED or RUNTIME_CLOSED not in self.event.status_message

    @property
    def answered_ns(self) -> int:
        """Time of the reply, on the clock of `Event.mono_ns`."""
        return self.event.mono_ns + self.event.took_ns


def is_ordered(station: ConnectionPart) -> bool:
    """Return whether the connection's runtime calls plugins in the order of their indices."""
    return runtime_rules_of(station.session.runtime_name).has_ordered_chain


class Round(NamedTuple):
    """One event on its way through the chain, as seen by at least one connection."""

    stations: tuple[ConnectionPart, ...]
    """The connections that saw the event, in call order."""
    over_by: Event | None = None
    """The runtime's next request, which shows that this chain had ended; None if there was none."""

    @property
    def first(self) -> Event:
        """The event at the first connection."""
        return self.stations[0].event

    @property
    def name(self) -> str:
        """The event's name, such as "CreateContainer"."""
        return self.first.event

    @property
    def stopped_at(self) -> ConnectionPart | None:
        """The connection whose error ended the chain; None for no error."""
        last = self.stations[-1]
        return last if last.is_error and is_ordered(last) else None

    @property
    def failing(self) -> tuple[ConnectionPart, ...]:
        """The connections that returned an error. iSulad disconnects them and continues."""
        return tuple(one for one in self.stations if one.is_error)


class Surroundings:
    """Facts of a recording beyond the events that are fed; here: none.

    A method returns None to let the fed events decide, which must then be all events.
    """

    has_outcomes = False
    """Whether `outcome` knows the events that follow."""

    def follows(self, event: Event) -> bool | None:
        """Return whether the event before this one in its session was recorded."""
        return None

    def had_its_place(self, session: Session, event: Event) -> bool | None:
        """Return whether a session was part of the chain; see `Presence.had_its_place`."""
        return None

    def had_joined(self, session: Session, event: Event) -> bool:
        """Return whether an existing session was synchronized before an event."""
        return True

    def outcome(self, event: Event) -> Outcome:
        """Return what later events show of the operation of a creation, update or start."""
        return UNKNOWN

    def is_absent(self, container_id: str, event: Event) -> bool | None:
        """Return whether no container whose id begins like this existed by then."""
        return None


NO_SURROUNDINGS = Surroundings()


@dataclass(slots=True)
class Rounds:
    """Grouping of events into rounds, in the order in which they were recorded."""

    sessions: dict[int, Session] = field(default_factory=dict)
    """Sessions by id. Callers may replace them by newer states at any time."""
    gaps: tuple[Gap, ...] = ()
    """Periods in which a recording lost events. Events that an extract omits do not count, as its
    rounds are complete."""
    around: Surroundings = NO_SURROUNDINGS
    _open: list[ConnectionPart] = field(default_factory=list)
    _bytes: int = 0
    _newest: dict[int, int] = field(default_factory=dict)
    """Sequence number of the newest event of each session."""
    _presence: Presence = field(default_factory=Presence)
    _connections_of: tuple[int, int] = (0, 0)
    """Identity and size of `sessions` at the last count."""
    _connection_count: int = 0

    @classmethod
    def of(cls, sessions: Iterable[Session]) -> Rounds:
        """Return `Rounds` for a recording with these sessions."""
        return cls({session.id: session for session in sessions})

    def feed(self, event: Event, request: bytes = b"", reply: bytes = b"") -> Round | None:
        """Process the next event; return the round that it completes.

        Events of unknown sessions are skipped. An event outside the chain is a complete round of
        its own, and does not end the open round.
        """
        session = self.sessions.get(event.session)
        if session is None or session.role == Role.V01:
            # NRI 0.1 has no chain of connections.
            return None
        self._presence.hear(event)
        if self._open and request == self._open[-1].request:
            # All connections between two changing plugins have the same request.
            request = self._open[-1].request
        station = ConnectionPart(event, session, request, reply)
        if event.method in ASIDE:
            self._newest[event.session] = event.seq
            return Round((station,))
        ended = None if self._open and self._belongs(station) else self._end(event)
        self._open.append(station)
        self._bytes += len(request) + len(reply)
        self._newest[event.session] = event.seq
        return ended

    def flush(self) -> Round | None:
        """Return the open round, as far as it was observed."""
        return self._end(None)

    @property
    def looked_at(self) -> int:
        """Number of elements that are searched per event, in addition to messages."""
        return 4 * self._presence.count + len(self.gaps) // 8

    @property
    def open(self) -> Round | None:
        """The open round, as far as it was observed; None if there is none."""
        return Round(tuple(self._open)) if self._open else None

    def goes_on(self, now: Event | None = None) -> bool:
        """Return whether events of the open round may follow after the event `now`.

        None: after all events so far, with sessions in their current state.
        """
        one = self.open
        return one is not None and self._may_go_on(one, now)

    def missed_by(self, one: Round) -> tuple[Session, ...]:
        """Return the last `MISSED_MAX` connections that missed the event, in call order.

        They existed during the whole round and had subscribed to the event, but did not see it.
        After an error the chain ends, so later connections miss the event.
        """
        if len(one.stations) >= self._connections():
            return ()
        missing = list(self._missing(one))
        missing.sort(key=lambda session: (session.plugin_index, session.id))
        # The last connections show whether the chain reached its end.
        return tuple(missing[-MISSED_MAX:])

    def has_no_times(self, one: Round) -> bool:
        """Return whether no plugin was observed: the only connection that exists is passive."""
        return len(one.stations) == 1 == self._connections() and one.stations[0].is_passive

    def awaits_validation(self, one: Round, now: Event | None = None) -> bool:
        """Return whether validators may still receive a creation; `now` as for `goes_on`."""
        return one.name == CREATE and any(
            self._may_be_asked(session, now) for session in self._subscribed(one, VALIDATE)
        )

    def _end(self, by: Event | None) -> Round | None:
        if not self._open:
            return None
        stations = tuple(self._open)
        if stations[0].event.container_id.startswith(NO_ID):
            stations = _identified(stations, by)
        ended = Round(stations, by)
        self._open.clear()
        self._bytes = 0
        return ended

    def _connections(self) -> int:
        """Return the number of all sessions that are plugin connections."""
        if self._connections_of != (id(self.sessions), len(self.sessions)):
            self._connections_of = id(self.sessions), len(self.sessions)
            self._connection_count = sum(one.is_connection for one in self.sessions.values())
        return self._connection_count

    def _missing(self, one: Round) -> Iterator[Session]:
        """Yield the sessions of `missed_by` in any order."""
        if one.first.method in ASIDE:
            return
        seen = {station.session.id for station in one.stations}
        for session in self._subscribed(one, one.name):
            if session.id not in seen:
                yield session

    def _may_go_on(self, one: Round, now: Event | None) -> bool:
        return self.awaits_validation(one, now) or any(
            self._may_be_asked(session, now) for session in self._missing(one)
        )

    def _may_be_asked(self, session: Session, now: Event | None) -> bool:
        if now is None:
            return session.ended_ns is None and not session.end_reason
        return self._presence.outlasts(session, now, self.gaps)

    def _subscribed(self, one: Round, event: str) -> Iterator[Session]:
        """Yield connections that existed during the whole round and had subscribed to `event`."""
        bit = _BITS.get(event, 0)
        runtime, last = one.stations[0].session.runtime_name, one.stations[-1].event
        for session in self._presence.during(self.sessions, one.first, last, self.gaps):
            if (
                session.is_connection
                and session.runtime_name == runtime
                and bit
                and (session.mask == 0 or session.mask & bit)
                and self.around.had_joined(session, one.first)
            ):
                yield session

    def ended_early(self, one: Round) -> str:
        """Describe a chain that did not reach its end; "" if no evidence shows that.

        A plugin's error or a conflict ends a chain, and later connections do not see it. The
        evidence is that the runtime sent another event first.
        """
        behind = self._behind(one)
        by = self._shown_by(one) if behind else None
        if by is None or self._went_on(one, by) or self._runtime(by) != self._runtime(one.first):
            return ""
        if not runtime_rules_of(self._runtime(by)).has_ordered_chain:
            return ""
        unreached = [
            session
            for session in behind
            if self._presence.outlasts(session, by, self.gaps)
            and self._had_its_place(session, one.first)
        ]
        relevant_sessions = {None, *(session.id for session in unreached)}
        if not unreached or any(
            gap.from_ns <= by.at_ns and one.first.at_ns <= gap.to_ns
            for gap in self.gaps
            if gap.session in relevant_sessions
        ):
            return ""
        last = one.stations[-1].plugin
        is_certain = any(one.ended_ns is not None or one.end_reason for one in unreached)
        words = ENDED if is_certain else SEEMS
        return f"{words} after {last}: {unreached[0].plugin} did not receive the event"

    def _had_its_place(self, session: Session, event: Event) -> bool:
        known = self.around.had_its_place(session, event)
        return self._presence.had_its_place(session, event) if known is None else known

    def left_open(self, one: Round) -> str:
        """Describe a chain that may not have reached its end; "" for other chains."""
        if not self._behind(one):
            return ""
        by = self._shown_by(one)
        if (by and self._went_on(one, by)) or self.ended_early(one):
            return ""
        return (
            f"nothing was observed after {one.stations[-1].plugin}, "
            "and it is not known whether the chain continued"
        )

    def _shown_by(self, one: Round) -> Event | None:
        """Return the event that shows the round's end; None if no further connection existed.

        The result is the same for a growing and a complete recording.
        """
        by = one.over_by
        return by if by is not None and self._may_go_on(one, by) else None

    def _went_on(self, one: Round, by: Event) -> bool:
        """Return whether the next event shows that the chain continued after its last station."""
        first = one.first
        if by.pod_id != first.pod_id or by.container_id != first.container_id:
            return False
        if by.event == first.event:
            # The event is part of the same round, which was split.
            return any(by.session == session.id for session in self._behind(one))
        return by.event == f"Post{one.name}" or (one.name == CREATE and by.event in _CREATED)

    def _behind(self, one: Round) -> list[Session]:
        """Return the connections after the last one that saw the event, all of which missed it.

        Without an order of calls, these may be all that missed it.
        """
        last = one.stations[-1]
        return [
            session
            for session in self.missed_by(one)
            if session.plugin_index > last.index or not is_ordered(last)
        ]

    def _runtime(self, event: Event) -> str:
        session = self.sessions.get(event.session)
        return "" if session is None else session.runtime_name

    def _belongs(self, new: ConnectionPart) -> bool:
        first, last = self._open[0], self._open[-1]
        event, before = new.event, first.event
        return (
            _is_same(event, before)
            and len(self._open) < CONNECTIONS_MAX
            # A session sees each round once; CRI-O, for example, repeats an event on a retry.
            and all(station.session.id != event.session for station in self._open)
            # Indices ascend within one chain. Validators are asked in parallel.
            and (last.index <= new.index or event.event == VALIDATE or not is_ordered(new))
            and self._bytes <= ROUND_MAX
            # A connection that joined later was not part of that chain.
            and began_before(new.session, event, before)
            and new.session.runtime_name == first.session.runtime_name
            and self._is_no_new_attempt(new)
            and (last.event.mono_ns <= event.mono_ns or event.event == VALIDATE)
            # One connection's first update and another's second are different rounds.
            and (event.event != UPDATE or self._is_same_update(before, new))
        )

    def _is_no_new_attempt(self, new: ConnectionPart) -> bool:
        """Return whether `new` cannot be the first event of the runtime's next attempt.

        A new attempt begins at the first connection that still exists. No container is created
        twice: a new attempt of a creation has another id.
        """
        if (new.event.event == CREATE and new.event.container_id) or not is_ordered(new):
            return True
        there = [one for one in self._open if self._was_there(one, new.event)]
        # A connection that was closed at its deadline ended in this same round.
        answered = [one for one in self._open if one.event.status_code not in GONE or one in there]
        return len(there) == len(answered) or any(one.index < new.index for one in there)

    def _is_same_update(self, first: Event, new: ConnectionPart) -> bool:
        """Return whether both events are the same update, even if events were lost.

        Loss could combine one connection's first update with another connection's second.
        """
        event = new.event
        follows = self.around.follows(event)
        if follows is None:
            follows = self._newest.get(event.session, event.seq - 1) == event.seq - 1
        lossy = {
            gap.session
            for gap in self.gaps
            if gap.from_ns <= event.at_ns and first.at_ns <= gap.to_ns
        }
        if not follows or None in lossy or event.session in lossy:
            return False
        # A second update would have been recorded at an earlier connection first.
        return not lossy or any(
            one.session.id not in lossy and one.index < new.index and self._was_there(one, event)
            for one in self._open
        )

    def _was_there(self, station: ConnectionPart, event: Event) -> bool:
        # Use the newest state of the session, which includes its end.
        session = self.sessions.get(station.session.id, station.session)
        return outlived(session, station.event, event)


def _is_same(one: Event, other: Event) -> bool:
    """Return whether both events have the same name and subject."""
    return (
        one.event == other.event
        and (one.container_id == other.container_id or _is_later_id(other, one))
        and one.pod_id == other.pod_id
    )


def _is_later_id(early: Event, late: Event) -> bool:
    """Return whether `late` may have the id of the container that `early` does not have yet.

    A recording that is read while it grows gets the ids of iSulad's containers later.
    """
    return (
        early.container_id.startswith(NO_ID)
        and not late.container_id.startswith(NO_ID)
        and bool(late.container_id)
        and (early.pod_id, early.container) == (late.pod_id, late.container)
    )


def _identified(
    stations: tuple[ConnectionPart, ...], by: Event | None
) -> tuple[ConnectionPart, ...]:
    """Return the parts of a round with the id that a later event shows, if any."""
    first = stations[0].event
    later = [one.event for one in stations]
    later += [by] if by is not None and by.event in _CREATED else []
    known = next((one.container_id for one in later if _is_later_id(first, one)), "")
    if not known:
        return stations
    return tuple(replace(one, event=replace(one.event, container_id=known)) for one in stations)
