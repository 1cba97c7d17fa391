# SPDX-License-Identifier: Apache-2.0
"""What the background survey of a recording has found so far."""

from __future__ import annotations

from dataclasses import dataclass

from nri_scope.recording.display import many
from nri_scope.report.finding import Finding, Level


@dataclass(frozen=True, slots=True)
class Analysis:
    """Findings, and the progress of the survey."""

    share: float | None = None
    """Share of the events that the first pass has read, 0 to 1; None if no survey was started."""
    findings: tuple[Finding, ...] = ()
    """The findings of the last complete pass, the worst first."""
    passes: int = 0
    """Number of complete passes."""
    problem: str = ""
    """Why some or all events were not analysed; "" if they were."""

    @property
    def words(self) -> str:
        """``1 problem, 2 warnings``, or the progress of the first pass; "" without findings."""
        if self.share is None:
            return ""
        if not self.passes and not self.problem:
            return f"analysing {self.share:.0%}"
        levels = [one.level for one in self.findings]
        parts = [many(levels.count(each), each) for each in Level if each in levels]
        return ", ".join([*parts, *(["! not all analysed"] if self.problem else [])])

    def titles(self, *events: int | None) -> tuple[str, ...]:
        """Return the titles of the findings that show one of these among their first events."""
        shown = {*events}
        return tuple(one.title for one in self.findings if not shown.isdisjoint(one.events))
