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
from nri_scope.events import Event
from nri_scope.specs import Spec

from ..finding import Finding, Level, ranked
from ..limits import FINDINGS_OF_KIND_MAX
from .cgroup_version import Unified
from .conflicts import Refused
from .deadlines import Times
from .disconnects import Vanished
from .event_order import Order
from .failed_invocations import FailedCalls
from .ignored_requests import Dropped
from .name_clashes import Names
from .recording_facts import Detector, Sequence
from .recording_facts import RecordingFacts as RecordingFacts
from .unknown_containers import Missed


class Diagnosis:
    """Runner of all detectors, for events and rounds in order."""

    def __init__(self, scene: RecordingFacts, spec_of: Callable[[str], Spec]) -> None:
        """Create the detectors. ``spec_of`` returns a container's current spec by id."""
        sequence = Sequence(scene)
        self._parts: tuple[Detector, ...] = (
            Times(scene),
            Vanished(scene),
            Refused(scene),
            FailedCalls(scene),
            Dropped(scene),
            Unified(scene, spec_of),
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
        everything = ranked([one for part in self._parts for one in part.findings()])
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
