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
from .conflicts import FailedCalls, FailedStarts, Refused
from .deadlines import Times
from .disconnects import Crashes, Ends, Vanished
from .event_order import Missed, Order
from .ignored_requests import Dropped, Replaced, Unified
from .name_clashes import Names
from .recording_facts import Detector, Sequence
from .recording_facts import RecordingFacts as RecordingFacts


class Diagnosis:
    """Runner of all detectors, for events and rounds in order."""

    def __init__(self, scene: RecordingFacts, history_of: Callable[[str], History | None]) -> None:
        """Create the detectors. ``history_of`` returns a container's history by id."""
        sequence = Sequence(scene)
        self._crashes = Crashes(scene)
        self._parts: tuple[Detector, ...] = (
            self._crashes,
            Times(scene),
            Vanished(scene, self._crashes),
            Ends(scene),
            Refused(scene),
            FailedStarts(scene, history_of),
            FailedCalls(scene),
            Dropped(scene),
            Replaced(scene, history_of),
            Unified(scene, history_of),
            Names(scene),
            Missed(scene, sequence),
            Order(scene, sequence),
        )
        self._see = [
            sequence.see,
            *(one.see for one in self._parts if type(one).see is not Detector.see),
        ]
        self._round = [one.round for one in self._parts if type(one).round is not Detector.round]

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
        found: list[Finding] = []
        fatal = self._crashes.last_events().keys()
        everything = ranked(
            [
                one
                for part in self._parts
                for one in part.findings()
                # Ends and errors that a crash of the runtime explains are no findings of their own.
                if part is self._crashes or not one.events or not fatal >= set(one.events)
            ]
        )
        for (level, kind), group in groupby(everything, key=lambda one: (one.level, one.kind)):
            some = list(group)
            found += some[:FINDINGS_OF_KIND_MAX]
            more = some[FINDINGS_OF_KIND_MAX:]
            if more:
                found.append(
                    replace(
                        more[0],
                        level=Level(level),
                        title=f"{len(more):,} more findings of the kind {kind}",
                        detail="Only the first findings of each kind are listed.",
                        advice="Name a pod or container in the command to list fewer findings.",
                    )
                )
        return tuple(found)
