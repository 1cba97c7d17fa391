# SPDX-License-Identifier: Apache-2.0
"""The base class of detectors, facts about the recording for all of them, and what limits them."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator
from typing import TypeVar

from nri_scope.differ.attribution.attributed_changes import RoundDiff
from nri_scope.differ.missing_plugin import Creation
from nri_scope.differ.render.values import clipped
from nri_scope.events import LEFT_OUT, PASSIVE_ROLES, RING_REMOVED, Event, Gap, Session
from nri_scope.nri.runtime_setup import NO_POLICY, FailurePolicy
from nri_scope.nri.versions import V0_12_4, NriVersion
from nri_scope.recording.display import mark_words
from nri_scope.text.quantities import many

from ..finding import Finding, FindingEvents, FindingKind, Level
from ..limits import CASES_MAX, TRACKED_MAX, WORDS_MAX

K = TypeVar("K")
V = TypeVar("V")


class RecordingFacts:
    """Facts about the recording for all detectors. A subclass knows more than the sessions."""

    def __init__(self, gaps: Iterable[Gap] = (), sessions: Iterable[Session] = ()) -> None:
        self.gaps = tuple(gaps)
        self.sessions: dict[int, Session] = {}
        self.unread: Event | None = None
        """The event from which on no event was read, as decoding takes too much work."""
        self.passive_plugins: frozenset[str] = frozenset()
        """The ``NN-name`` of nri-scope's own connections."""
        self.learn(sessions)

    def wanted(self, event: Event) -> bool:
        """Return whether the report covers an event. Other events still serve as evidence."""
        return True

    def covers(self, container: str) -> bool:
        """Return whether the report covers a container, by its id.

        Rounds about others may have side effects on one that it covers.
        """
        return True

    def name_of(self, key: str) -> str:
        """Return the name of a pod or container by its id; "" for the id ""."""
        return key

    def existed(self, session: int) -> frozenset[str]:
        """Return the ids of pods and containers in a session's Synchronize."""
        return frozenset()

    def created_without(self) -> Iterable[Creation]:
        """Yield the creations, among those of the report, that lacked a required plugin."""
        return ()

    def learn(self, sessions: Iterable[Session]) -> None:
        """Add sessions, or replace them by their newest states."""
        self.sessions.update((session.id, session) for session in sessions)
        self.passive_plugins = frozenset(
            session.plugin for session in self.sessions.values() if self.is_passive(session.id)
        )

    @property
    def unobserved_policy(self) -> FailurePolicy | None:
        """The failure policy of plugins without a session; None if any may have one."""
        connections = [session for session in self.sessions.values() if session.is_connection]
        return NO_POLICY if all(map(_is_before_policies, connections)) else None

    def is_passive(self, session: int) -> bool:
        """Return whether a connection is nri-scope's own, which changes nothing."""
        recorded = self.sessions.get(session)
        return recorded is None or recorded.role in PASSIVE_ROLES


def policy_of(session: Session) -> FailurePolicy | None:
    """Return what the runtime does if the session's plugin does not answer; None if unknown."""
    return NO_POLICY if _is_before_policies(session) else session.failure_policy


def _is_before_policies(session: Session) -> bool:
    version = NriVersion.parse(session.nri_version)
    return version is not None and version < V0_12_4


class Detector:
    """Base of detectors for one kind of finding. Values are untrusted input: no method raises."""

    def __init__(self, facts: RecordingFacts) -> None:
        self._facts = facts

    def see(self, event: Event) -> None:
        """Process the next event of the recording."""

    def round(self, diff: RoundDiff, *, wanted: bool) -> None:
        """Process a complete round. Later answers of the CRI are rounds of their own."""

    def findings(self) -> Iterable[Finding]:
        """Return the findings, after all events were processed."""
        return ()


class Latest(OrderedDict[K, V]):
    """Dictionary that drops its oldest entry beyond `TRACKED_MAX`."""

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        if len(self) > TRACKED_MAX:
            self.popitem(last=False)


class LostEventDetector(Detector):
    """Detector of sessions that lost events, in which a missing event proves nothing."""

    def __init__(self, facts: RecordingFacts) -> None:
        super().__init__(facts)
        self._newest: dict[int, int] = {}
        self._lossy: set[int] = set()
        self._in_gap: dict[int, bool] = {}

    def see(self, event: Event) -> None:
        """Process the next event."""
        if event.seq != self._newest.get(event.session, 0) + 1:
            self._lossy.add(event.session)
        self._newest[event.session] = event.seq

    def is_whole(self, session: int) -> bool:
        """Return whether this session has lost no event so far."""
        if session not in self._in_gap:
            self._in_gap[session] = any(self._touches(gap, session) for gap in self._facts.gaps)
        return session not in self._lossy and not self._in_gap[session]

    def _touches(self, gap: Gap, number: int) -> bool:
        """Return whether a session may have lost events in a gap."""
        session = self._facts.sessions.get(number)
        if gap.session is not None or session is None:
            return gap.session in (None, number)
        ended_ns = session.ended_ns
        return gap.to_ns > session.started_ns and (ended_ns is None or gap.from_ns < ended_ns)


STOPPED = "decoding stopped"
_STOPPED_ADVICE = "Diagnose parts of it, which `export` with --since, --until or --where writes."
_UNDECODED_ADVICE = "`show FILE NUMBER` prints it raw. A newer nri-scope may know a newer method."
_LOST_ADVICE = "Findings may be missing. Record fewer events (--where), or to a faster disk."


class UnobservedDetector(Detector):
    """Detector of lost or undecoded events, which other detectors could not examine."""

    def __init__(self, facts: RecordingFacts) -> None:
        super().__init__(facts)
        self._undecoded: dict[str, FindingEvents] = {}

    def see(self, event: Event) -> None:
        """Store events that were kept raw."""
        if event.mark and len(self._undecoded) < CASES_MAX and self._facts.wanted(event):
            self._undecoded.setdefault(event.mark, FindingEvents()).add(event.id)

    def findings(self) -> Iterator[Finding]:
        """Yield one finding for each limit."""
        kind, lost = FindingKind.UNOBSERVED, Counter[str]()
        if (unread := self._facts.unread) is not None:
            detail = "The limit for a file of its size was reached: later events were not read."
            title, events = f"Decoding stopped at event {unread.id}", FindingEvents()
            events.add(unread.id)
            yield events.finding(kind, Level.WARNING, title, detail, _STOPPED_ADVICE)
        for mark, events in self._undecoded.items():
            title = f"{many(events.count, 'event')} could not be decoded: {mark_words(mark)}"
            detail = "What these events show is not known."
            yield events.finding(kind, Level.NOTE, title, detail, _UNDECODED_ADVICE)
        for gap in self._facts.gaps:
            if (gap.lost or 0) > 0 and gap.reason not in (LEFT_OUT, RING_REMOVED):
                lost[clipped(gap.reason, WORDS_MAX)] += gap.lost or 0
        for reason, count in lost.most_common(CASES_MAX):
            title, detail = f"{many(count, 'event')} lost: {reason}", "`log` shows the intervals."
            yield Finding(kind, Level.WARNING, title, detail, _LOST_ADVICE)
