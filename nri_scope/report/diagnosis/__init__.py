# SPDX-License-Identifier: Apache-2.0
"""Look for problems in a recording, with one detector for each kind of finding.

In: events and rounds, in order, and facts about sessions. Out: findings with their evidence. Values
are untrusted input, so nothing raises. A detector never reports what a gap may explain, and never
knows how findings are shown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import groupby

from nri_scope.differ.attribution.attributed_changes import RoundDiff
from nri_scope.events import Event
from nri_scope.oci import Spec

from ..finding import Finding, Level, ranked
from ..limits import FINDINGS_OF_KIND_MAX
from .cgroup_version import Unified
from .conflicts import Refused
from .deadlines import Times
from .disconnects import Vanished
from .event_order import Order
from .ignored_requests import Dropped
from .name_clashes import Names
from .recording_facts import Detector
from .recording_facts import RecordingFacts as RecordingFacts
from .unknown_containers import Missed


class Diagnosis:
    """Takes events and rounds as they come; its findings are complete in the end."""

    def __init__(self, scene: RecordingFacts, spec_of: Callable[[str], Spec]) -> None:
        """Set up the detectors; ``spec_of`` gives a container's current spec by its id."""
        self._parts: tuple[Detector, ...] = (
            Times(scene),
            Vanished(scene),
            Refused(scene),
            Dropped(scene),
            Unified(scene, spec_of),
            Names(scene),
            Missed(scene),
            Order(scene),
        )

    def see(self, event: Event) -> None:
        """Take the next event."""
        for part in self._parts:
            part.see(event)

    def round(self, diff: RoundDiff, *, wanted: bool) -> None:
        """Take the next round; ``wanted`` if the report covers it."""
        for part in self._parts:
            part.round(diff, wanted=wanted)

    def findings(self) -> tuple[Finding, ...]:
        """Return the worst findings first; of each kind up to a limit, and then the number of the
        rest.
        """
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
                        title=f"{len(more):,} more of the kind {kind}",
                        detail="They are of the same kind as those before, and left out here.",
                        advice="`--where` in `log`, or WHAT here, narrows it down.",
                    )
                )
        return tuple(found)
