# SPDX-License-Identifier: Apache-2.0
"""Find problems in a recording, with one detector for each kind of finding.

In: events and rounds, in order, and facts about sessions. Out: findings with their evidence. Values
are untrusted input, so nothing raises. A detector never reports a problem that a gap may explain,
and never depends on the output format.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import groupby

from nri_scope.differ.attribution.attributed_changes import RoundDiff
from nri_scope.differ.attribution.history import History
from nri_scope.events import Event

from ..finding import Finding, Level, ranked
from ..limits import FINDINGS_OF_KIND_MAX
from .conflicts import (
    FailedCallDetector,
    FailedEventDetector,
    FailedStartDetector,
    NameClashDetector,
)
from .deadlines import SlowPluginDetector
from .disconnects import (
    CrashDetector,
    DisconnectDetector,
    FailedConnectionDetector,
    RequiredPluginDetector,
)
from .event_order import EventOrderDetector, MissedSubjectDetector, UnseenEndDetector
from .ignored_requests import DroppedRequestDetector, ReplacedValueDetector
from .recording_facts import Detector, LostEventDetector, UnobservedDetector
from .recording_facts import RecordingFacts as RecordingFacts


class Diagnosis:
    """Runner of all detectors, for events and rounds in order."""

    def __init__(self, facts: RecordingFacts, history_of: Callable[[str], History | None]) -> None:
        """Create the detectors. ``history_of`` returns a container's history by id."""
        lost = LostEventDetector(facts)
        self._crashes = CrashDetector(facts)
        self._parts: tuple[Detector, ...] = (
            lost,
            self._crashes,
            SlowPluginDetector(facts),
            DisconnectDetector(facts, self._crashes),
            FailedConnectionDetector(facts),
            RequiredPluginDetector(facts),
            FailedEventDetector(facts),
            FailedStartDetector(facts, history_of),
            FailedCallDetector(facts),
            DroppedRequestDetector(facts),
            ReplacedValueDetector(facts, history_of),
            NameClashDetector(facts),
            MissedSubjectDetector(facts, lost),
            UnseenEndDetector(facts),
            EventOrderDetector(facts, lost),
            UnobservedDetector(facts),
        )
        self._see = [part.see for part in self._parts if type(part).see is not Detector.see]
        self._round = [part.round for part in self._parts if type(part).round is not Detector.round]

    def see(self, event: Event) -> None:
        """Process the next event."""
        for see in self._see:
            see(event)

    def round(self, diff: RoundDiff, *, wanted: bool) -> None:
        """Process the next round; ``wanted`` if the report covers it."""
        for round_ in self._round:
            round_(diff, wanted=wanted)

    def findings(self) -> tuple[Finding, ...]:
        """Return the findings, the worst first: some of each kind, and the number of the others."""
        listed: list[Finding] = []
        fatal = self._crashes.last_events().keys()
        everything = ranked(
            [
                finding
                for part in self._parts
                for finding in part.findings()
                # Ends and errors that a crash of the runtime explains are no findings of their own.
                if part is self._crashes or not finding.events or not fatal >= set(finding.events)
            ]
        )
        by_kind = groupby(everything, key=lambda finding: (finding.level, finding.kind))
        for (level, kind), group in by_kind:
            some = list(group)
            listed += some[:FINDINGS_OF_KIND_MAX]
            more = some[FINDINGS_OF_KIND_MAX:]
            if more:
                listed.append(
                    replace(
                        more[0],
                        level=Level(level),
                        title=f"{len(more):,} more findings of the kind {kind}",
                        detail="Only the first findings of each kind are listed.",
                        advice="Name a pod or container in the command to list fewer findings.",
                    )
                )
        return tuple(listed)
