# SPDX-License-Identifier: Apache-2.0
"""The base class of detectors, and facts about the recording for all detectors."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import TypeVar

from nri_scope.differ.attribution.attributed_changes import NameOf, RoundDiff
from nri_scope.events import PASSIVE_ROLES, Event, Gap, Session
from nri_scope.nri.runtime_setup import NO_POLICY, FailurePolicy
from nri_scope.nri.versions import V0_12_4, NriVersion

from ..finding import Finding
from ..limits import TRACKED_MAX

K = TypeVar("K")
V = TypeVar("V")


class RecordingFacts:
    """Facts about the recording for all detectors."""

    def __init__(
        self,
        gaps: tuple[Gap, ...],
        wanted: Callable[[Event], bool],
        covers: Callable[[str], bool],
        name_of: NameOf,
        existed: Callable[[int], frozenset[str]],
        sessions: Iterable[Session],
    ) -> None:
        self.gaps = gaps
        self.wanted = wanted
        """Test whether the report covers an event. Other events still serve as evidence."""
        self.covers = covers
        """Test whether the report covers a container, by its id. Rounds about others may have side
        effects on one that it covers."""
        self.name_of = name_of
        """Lookup of the name of a pod or container by its id; "" for the id ""."""
        self.existed = existed
        """Lookup of the ids of pods and containers in a session's Synchronize."""
        self.sessions: dict[int, Session] = {}
        self.passive_plugins: frozenset[str] = frozenset()
        """The ``NN-name`` of nri-scope's own connections."""
        self.learn(sessions)

    def learn(self, sessions: Iterable[Session]) -> None:
        """Add sessions, or replace them by their newest states."""
        self.sessions.update((one.id, one) for one in sessions)
        self.passive_plugins = frozenset(
            one.plugin for one in self.sessions.values() if self.is_passive(one.id)
        )

    @property
    def unobserved_policy(self) -> FailurePolicy | None:
        """The failure policy of plugins without a session; None if any may have one."""
        known = [one for one in self.sessions.values() if one.is_connection]
        return NO_POLICY if all(map(_is_before_policies, known)) else None

    def is_passive(self, session: int) -> bool:
        """Return whether a connection is nri-scope's own, which changes nothing."""
        found = self.sessions.get(session)
        return found is None or found.role in PASSIVE_ROLES


def policy_of(session: Session) -> FailurePolicy | None:
    """Return what the runtime does if the session's plugin does not answer; None if unknown."""
    return NO_POLICY if _is_before_policies(session) else session.failure_policy


def _is_before_policies(session: Session) -> bool:
    version = NriVersion.parse(session.nri_version)
    return version is not None and version < V0_12_4


class Detector:
    """Base of detectors for one kind of finding. Values are untrusted input: no method raises."""

    def __init__(self, scene: RecordingFacts) -> None:
        self._scene = scene

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


class Sequence:
    """Detector of sessions that lost events, in which a missing event proves nothing."""

    def __init__(self, scene: RecordingFacts) -> None:
        self._scene = scene
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
            self._in_gap[session] = any(self._touches(gap, session) for gap in self._scene.gaps)
        return session not in self._lossy and not self._in_gap[session]

    def _touches(self, gap: Gap, number: int) -> bool:
        """Return whether a session may have lost events in a gap."""
        session = self._scene.sessions.get(number)
        if gap.session is not None or session is None:
            return gap.session in (None, number)
        ended_ns = session.ended_ns
        return gap.to_ns > session.started_ns and (ended_ns is None or gap.from_ns < ended_ns)
