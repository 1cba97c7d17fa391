# SPDX-License-Identifier: Apache-2.0
"""What the background survey of a recording has found so far."""

from __future__ import annotations

from dataclasses import dataclass

from nri_scope.recording.display import many
from nri_scope.report.finding import Finding, Level

_MANY_BEHIND = 1_000
"""Minimum number of events to be reported as missing: of some seconds with many events."""


@dataclass(frozen=True, slots=True)
class Analysis:
    """Findings, and the progress of the survey."""

    share: float | None = None
    """Share of the events that the first pass has read, 0 to 1; None if no survey was started."""
    findings: tuple[Finding, ...] = ()
    """The findings of the last complete pass, the worst first."""
    passes: int = 0
    """Number of complete passes."""
    behind: int = 0
    """Number of the newest events that were not analysed yet, at most: numbers may be missing."""
    problem: str = ""
    """Why some or all events were not analysed; "" if they were."""

    @property
    def words(self) -> str:
        """``1 problem, 2 warnings``, and what is `missing`; "" without both."""
        levels = [one.level for one in self.findings]
        parts = [many(levels.count(each), each) for each in Level if each in levels]
        missing = f"! {self.missing}" if self.problem else self.missing
        return ", ".join(filter(None, [*parts, missing]))

    @property
    def missing(self) -> str:
        """``analysing 40%``, ``analysing 5,000 more events`` or ``not all analysed``; "" if at most
        few events are missing.
        """
        if self.problem:
            return "not all analysed"
        if self.share is not None and not self.passes:
            return f"analysing {self.share:.0%}"
        return f"analysing {self.behind:,} more events" if self.behind >= _MANY_BEHIND else ""

    def titles(self, *events: int | None) -> tuple[str, ...]:
        """Return the titles of the findings that show one of these among their first events."""
        shown = {*events}
        return tuple(one.title for one in self.findings if not shown.isdisjoint(one.events))
