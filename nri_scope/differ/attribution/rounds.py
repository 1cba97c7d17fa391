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

from nri_scope.entries import OperationOutcome
from nri_scope.events import ASIDE, NO_ID, Event, Gap, Role, Session
from nri_scope.nri.events import CREATE, POST_CREATE, STARTS, UPDATE, VALIDATE, EventKind
from nri_scope.oci.runtime_rules import runtime_rules_of
from nri_scope.recording.query.creation_outcomes import UNKNOWN

from .attributed_changes import Failure, FailureKind
from .observed_round import GONE, ConnectionPart, Round
from .presence import SessionTracker, began_before, outlived

_BY_NAME = {event.name: event for event in EventKind}
ROUND_MAX = 256 << 20
"""Maximum size of one round's messages, in bytes. Sixteen probes with a runtime's largest message
use a quarter."""
CONNECTIONS_MAX = 1_000
"""Maximum number of connections in one round; more begin another one. Runtimes have 100 indices."""
MISSED_MAX = 100
"""Maximum number of reported connections that missed one event."""

_CREATED = STARTS | {POST_CREATE}


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
        """Return whether a session was part of the chain; see `SessionTracker.had_its_place`."""
        return None

    def had_joined(self, session: Session, event: Event) -> bool:
        """Return whether an existing session was synchronized before an event."""
        return True

    def outcome(self, event: Event) -> OperationOutcome:
        """Return what later events show of the operation of a creation, update or start."""
        return UNKNOWN

    def is_absent(self, container_id: str, event: Event) -> bool | None:
        """Return whether no container whose id begins like this existed by then."""
        return None


NO_SURROUNDINGS = Surroundings()


@dataclass(slots=True)
class Rounds:
    """Grouping of events into rounds, in the order in which they were recorded."""

    sessions: dict[int, Session] = field(default_factory=dict, init=False)
    """Sessions by id, see `begin`."""
    gaps: tuple[Gap, ...] = ()
    """Periods in which a recording lost events. Events that an extract omits do not count, as its
    rounds are complete."""
    around: Surroundings = NO_SURROUNDINGS
    _open: list[ConnectionPart] = field(default_factory=list)
    _bytes: int = 0
    _newest: dict[int, int] = field(default_factory=dict)
    """Sequence number of the newest event of each session."""
    _presence: SessionTracker = field(default_factory=SessionTracker)
    _connections: int = 0
    """Number of all sessions that are plugin connections."""

    @classmethod
    def of(cls, sessions: Iterable[Session], around: Surroundings = NO_SURROUNDINGS) -> Rounds:
        """Return `Rounds` for a recording with these sessions."""
        rounds = cls(around=around)
        rounds.replace_sessions(sessions)
        return rounds

    def replace_sessions(self, sessions: Iterable[Session]) -> None:
        """Replace all sessions by `sessions`."""
        self.sessions = {session.id: session for session in sessions}
        self._connections = sum(each.is_connection for each in self.sessions.values())
        self._presence.replace_sessions(self.sessions.values())

    def begin(self, session: Session) -> None:
        """Add a new session, or replace a known session by its newest state."""
        if session.id not in self.sessions:
            self._connections += session.is_connection
            self._presence.begin(session)
        self.sessions[session.id] = session

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
        part = ConnectionPart(event, session, request, reply)
        if event.method in ASIDE:
            self._newest[event.session] = event.seq
            return Round((part,))
        ended = None if self._open and self._belongs(part) else self._end(event)
        self._open.append(part)
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
        round_ = self.open
        return round_ is not None and self._may_go_on(round_, now)

    def missed_by(self, round_: Round) -> tuple[Session, ...]:
        """Return the last `MISSED_MAX` connections that missed the event, in call order.

        They existed during the whole round and had subscribed to the event, but did not see it.
        After an error the chain ends, so later connections miss the event.
        """
        if len(round_.parts) >= self._connections:
            return ()
        missing = list(self._missing(round_))
        missing.sort(key=lambda session: (session.plugin_index, session.id))
        # The last connections show whether the chain reached its end.
        return tuple(missing[-MISSED_MAX:])

    def awaits_validation(self, round_: Round, now: Event | None = None) -> bool:
        """Return whether validators may still receive a creation; `now` as for `goes_on`."""
        return round_.name == CREATE and any(
            self._may_be_asked(session, now) for session in self._subscribed(round_, VALIDATE)
        )

    def _end(self, by: Event | None) -> Round | None:
        if not self._open:
            return None
        parts = tuple(self._open)
        if parts[0].event.container_id.startswith(NO_ID):
            parts = _identified(parts, by)
        ended = Round(parts, by)
        self._open.clear()
        self._bytes = 0
        return ended

    def _missing(self, round_: Round) -> Iterator[Session]:
        """Yield the sessions of `missed_by` in any order."""
        if round_.first.method in ASIDE:
            return
        seen = {part.session.id for part in round_.parts}
        for session in self._subscribed(round_, round_.name):
            if session.id not in seen:
                yield session

    def _may_go_on(self, round_: Round, now: Event | None) -> bool:
        return self.awaits_validation(round_, now) or any(
            self._may_be_asked(session, now) for session in self._missing(round_)
        )

    def _may_be_asked(self, session: Session, now: Event | None) -> bool:
        if now is None:
            return session.ended_ns is None and not session.end_reason
        return self._presence.outlasts(session, now, self.gaps)

    def _subscribed(self, round_: Round, event: str) -> Iterator[Session]:
        """Yield connections that existed during the whole round and had subscribed to `event`."""
        kind = _BY_NAME.get(event)
        runtime, last = round_.parts[0].session.runtime_name, round_.parts[-1].event
        for session in self._presence.during(self.sessions, round_.first, last, self.gaps):
            if (
                session.is_connection
                and session.runtime_name == runtime
                and kind is not None
                and session.subscribes_to(kind)
                and self.around.had_joined(session, round_.first)
            ):
                yield session

    def ended_early(self, round_: Round) -> Failure | None:
        """Return the failure of a chain that did not reach its end; None if nothing shows that.

        A plugin's error or a conflict ends a chain, and later connections do not see it. The
        evidence is that the runtime sent another event first.
        """
        first, behind = round_.first, self._behind(round_)
        by = self._shown_by(round_) if behind else None
        if by is None or self._went_on(round_, by) or self._runtime(by) != self._runtime(first):
            return None
        if not runtime_rules_of(self._runtime(by)).has_ordered_chain:
            return None
        unreached = [
            session
            for session in behind
            if self._presence.outlasts(session, by, self.gaps)
            and self._had_its_place(session, first)
        ]
        relevant_sessions = {None, *(session.id for session in unreached)}
        if not unreached or any(
            gap.from_ns <= by.at_ns and first.at_ns <= gap.to_ns
            for gap in self.gaps
            if gap.session in relevant_sessions
        ):
            return None
        last = round_.parts[-1].plugin
        is_certain = any(each.ended_ns is not None or each.end_reason for each in unreached)
        where = f"after {last}: {unreached[0].plugin} did not receive the event"
        certain = Failure(FailureKind.CHAIN_ENDED, f"the chain ended {where}")
        if is_certain:
            return certain
        text = f"the chain seems to have ended {where}"
        return Failure(FailureKind.CHAIN_SEEMS_ENDED, text, certain_text=certain.text)

    def _had_its_place(self, session: Session, event: Event) -> bool:
        known = self.around.had_its_place(session, event)
        return self._presence.had_its_place(session, event) if known is None else known

    def left_open(self, round_: Round) -> str:
        """Describe a chain that may not have reached its end; "" for other chains."""
        if not self._behind(round_):
            return ""
        by = self._shown_by(round_)
        if (by and self._went_on(round_, by)) or self.ended_early(round_):
            return ""
        return (
            f"nothing was observed after {round_.parts[-1].plugin}, "
            "and it is not known whether the chain continued"
        )

    def _shown_by(self, round_: Round) -> Event | None:
        """Return the event that shows the round's end; None if no further connection existed.

        The result is the same for a growing and a complete recording.
        """
        by = round_.over_by
        return by if by is not None and self._may_go_on(round_, by) else None

    def _went_on(self, round_: Round, by: Event) -> bool:
        """Return whether the next event shows that the chain continued after its last part."""
        first = round_.first
        if by.pod_id != first.pod_id or by.container_id != first.container_id:
            return False
        if by.event == first.event:
            # The event is part of the same round, which was split.
            return any(by.session == session.id for session in self._behind(round_))
        return by.event == f"Post{round_.name}" or (round_.name == CREATE and by.event in _CREATED)

    def _behind(self, round_: Round) -> list[Session]:
        """Return the connections after the last one that saw the event, all of which missed it.

        Without an order of calls, these may be all that missed it.
        """
        last = round_.parts[-1]
        return [
            session
            for session in self.missed_by(round_)
            if session.plugin_index > last.index or not last.is_ordered
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
            and all(part.session.id != event.session for part in self._open)
            # Indices ascend within one chain. Validators are asked in parallel.
            and (last.index <= new.index or event.event == VALIDATE or not new.is_ordered)
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
        if (new.event.event == CREATE and new.event.container_id) or not new.is_ordered:
            return True
        existing = [part for part in self._open if self._outlived(part, new.event)]
        ended = [part for part in self._open if part not in existing]
        # A connection that was closed at its deadline ended in this same round.
        is_same_round = all(part.event.status_code in GONE for part in ended)
        return is_same_round or any(part.index < new.index for part in existing)

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
            part.session.id not in lossy and part.index < new.index and self._outlived(part, event)
            for part in self._open
        )

    def _outlived(self, part: ConnectionPart, event: Event) -> bool:
        """Return whether the connection still existed at an event."""
        # Use the newest state of the session, which includes its end.
        session = self.sessions.get(part.session.id, part.session)
        return outlived(session, part.event, event)


def _is_same(event: Event, other: Event) -> bool:
    """Return whether both events have the same name and subject."""
    return (
        event.event == other.event
        and (event.container_id == other.container_id or _is_later_id(other, event))
        and event.pod_id == other.pod_id
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


def _identified(parts: tuple[ConnectionPart, ...], by: Event | None) -> tuple[ConnectionPart, ...]:
    """Return the parts of a round with the id that a later event shows, if any."""
    first = parts[0].event
    later = [part.event for part in parts]
    later += [by] if by is not None and by.event in _CREATED else []
    known = next((event.container_id for event in later if _is_later_id(first, event)), "")
    if not known:
        return parts
    return tuple(replace(each, event=replace(each.event, container_id=known)) for each in parts)
