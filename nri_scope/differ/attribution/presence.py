# SPDX-License-Identifier: Apache-2.0
"""Determine which connections existed at a given moment.

A session records the wall clock's offset at its start. If the clock is set later, its times cannot
be compared with those of the next session. So the order of events and the monotonic clock decide,
as far as possible.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from nri_scope.events import ANY_TIME, INTRODUCTION, SET_UP, Event, Gap, Session
from nri_scope.nri.events import SYNCHRONIZE

_NEVER_NS = float("inf")


def offset(event: Event) -> int:
    """Return the difference between the two clocks of the event's session, in nanoseconds."""
    return event.at_ns - event.mono_ns


def began_before(session: Session, own: Event, other: Event) -> bool:
    """Return whether a session began before the event `other`; `own` is one of its events."""
    return session.started_ns - offset(own) <= other.mono_ns


def outlived(session: Session, own: Event, other: Event) -> bool:
    """Return whether a session ended after the event `other`, or has no known end."""
    return session.ended_ns is None or session.ended_ns - offset(own) >= other.mono_ns


@dataclass(slots=True)
class _Heard:
    """Facts about a session, from its events."""

    newest: Event
    set_up: bool
    """Whether the set-up, and so the beginning of the session, was observed."""
    joined: int = 0
    """First event that the runtime may have sent to the session; 0 for none yet."""
    asked: int = 0
    """First event of a chain that the session received; 0 for none yet."""
    over: int = 0
    """First event of the round that first found the session ended; 0 if it has not ended."""


@dataclass(slots=True)
class SessionTracker:
    """Tracker of existing sessions, by their events."""

    _heard: dict[int, _Heard] = field(default_factory=dict)
    """Facts about sessions that may still exist."""
    _over: set[int] = field(default_factory=set)
    _starts: list[tuple[int, int]] = field(default_factory=list)
    """Start times and ids of sessions without events so far, ascending."""

    def replace_sessions(self, sessions: Iterable[Session]) -> None:
        """Replace the sessions without events so far."""
        self._starts = sorted((session.started_ns, session.id) for session in sessions)

    def begin(self, session: Session) -> None:
        """Add a session."""
        insort(self._starts, (session.started_ns, session.id))

    def hear(self, event: Event) -> None:
        """Process the newest event of its session."""
        heard = self._heard.get(event.session)
        if heard is None:
            heard = self._heard[event.session] = _Heard(event, event.method in SET_UP)
            self._over.discard(event.session)
        heard.newest, heard.over = event, 0
        if event.method == SYNCHRONIZE and not heard.asked:
            heard.joined = event.id
        elif event.method not in INTRODUCTION:
            heard.joined = heard.joined or event.id
            if event.method not in ANY_TIME:
                heard.asked = heard.asked or event.id

    @property
    def count(self) -> int:
        """The number of sessions that may exist."""
        return len(self._heard) + len(self._starts)

    def during(
        self, sessions: Mapping[int, Session], first: Event, last: Event, gaps: Iterable[Gap]
    ) -> Iterator[Session]:
        """Yield the sessions that existed from before `first` until after `last`.

        Both are among the newest events.
        """
        over: list[int] = []
        for number, heard in self._heard.items():
            session = sessions.get(number)
            if session is None:
                continue
            # Either clock counts: after a restart of the machine the monotonic one begins again.
            if _end_of(session, gaps) <= last.at_ns or not outlived(session, heard.newest, last):
                # The next round may be the validators' request of the same creation.
                if 0 < heard.over < first.id:
                    over.append(number)
                heard.over = heard.over or first.id
            elif 0 < heard.joined < first.id or (
                # Not all events need to be fed, so a session may exist without events here.
                not heard.set_up
                and session.started_ns < first.at_ns
                and began_before(session, heard.newest, first)
            ):
                yield session
        for number in over:
            del self._heard[number]
            self._over.add(number)
        yield from self._unheard(sessions, first, last, gaps)

    def outlasts(self, session: Session, event: Event, gaps: Iterable[Gap]) -> bool:
        """Return whether an existing session ends after `event`, or has no known end."""
        heard = self._heard.get(session.id)
        return _end_of(session, gaps) > event.at_ns and (
            heard is None or outlived(session, heard.newest, event)
        )

    def had_its_place(self, session: Session, event: Event) -> bool:
        """Return whether an existing session was certainly part of the chain at `event`.

        A synchronized plugin joins the chain after events that are already queued; its first event
        shows that it has joined.
        """
        heard = self._heard.get(session.id)
        return heard is None or not heard.set_up or 0 < heard.asked < event.id

    def _unheard(
        self, sessions: Mapping[int, Session], first: Event, last: Event, gaps: Iterable[Gap]
    ) -> Iterator[Session]:
        """Yield the sessions without fed events that existed, by the wall clock."""
        begun = self._starts[: bisect_left(self._starts, (first.at_ns, -1))]
        heard = 0
        for _, number in begun:
            session = sessions.get(number)
            if session is None or number in self._heard or number in self._over:
                heard += 1
            elif _end_of(session, gaps) > last.at_ns:
                yield session
        if heard > 16:
            known = self._heard.keys() | self._over
            self._starts = [each for each in self._starts if each[1] not in known]


def _end_of(session: Session, gaps: Iterable[Gap]) -> float:
    """Return the wall-clock time at which the session ended, in ns; infinity if it has not."""
    if session.ended_ns is not None:
        return session.ended_ns
    if not session.end_reason:
        return _NEVER_NS
    # Its recorder was killed; the recorder that continued the file set the reason.
    return min(
        (
            gap.from_ns
            for gap in gaps
            if gap.reason == session.end_reason and gap.from_ns >= session.started_ns
        ),
        default=session.started_ns,
    )
