# SPDX-License-Identifier: Apache-2.0
"""The view of findings: problems, warnings and notes, with their evidence and advice."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import ClassVar

from textual.binding import BindingType

from nri_scope.report.finding import Finding, Level
from nri_scope.text.escape import columns, safe
from nri_scope.text.quantities import clock, moment

from .actions import Scope, bindings
from .text.styled_line import Span, Style, StyledLine, TableField, TableGrid, folded, line
from .widgets.messages import OpenEvent, StatusText
from .widgets.table_board import TableBoard

FIELDS = (
    TableField("Level", 8),
    TableField("Finding (filters do not apply)", 50, grows=True),
    TableField("Events", 7, right=True, rank=1),
    TableField("First", 8, right=True, rank=3),
    TableField("Time", 8, rank=2),
)
_TITLE = 1
"""Index of the field with the title."""
_STYLES = {Level.PROBLEM: Style.BAD, Level.WARNING: Style.WARN, Level.NOTE: Style.NOTE}
_TEXT_MAX = 2_000
_NAMES_SHOWN = 5


def finding_line(finding: Finding, grid: TableGrid) -> StyledLine:
    """Return the line of a finding."""
    first = str(finding.events[0]) if finding.events else ""
    return grid.line(
        (
            Span(finding.level, _STYLES[finding.level]),
            Span(safe(finding.title[:_TEXT_MAX])),
            Span(f"{finding.event_count:,}"),
            Span(first),
            Span("" if finding.at_ns is None else clock(finding.at_ns)[:8]),
        )
    )


class FindingBoard(TableBoard[Finding]):
    """The findings, the worst first. Enter goes to the first event of a finding."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(Scope.FINDINGS, of_lines=False)
    FIELDS = FIELDS
    FOOT_LINES: ClassVar[int] = 13
    DEFAULT_CSS = "FindingBoard > BoardLines { min-height: 4; }"

    def entry_line(self, entry: Finding) -> StyledLine:
        """Return the line of a finding."""
        return finding_line(entry, self.grid)

    def key_of(self, entry: Finding) -> Hashable:
        """Return the identity of a finding."""
        return entry.kind, entry.title, entry.events[:1]

    async def work(self) -> None:
        """Show the findings of the last pass."""
        self.show_entries(self.store.analysis.findings, self._empty())

    def _empty(self) -> str:
        analysis = self.store.analysis
        if analysis.problem:
            return f"not all events were analysed: {safe(analysis.problem[:_TEXT_MAX])}"
        if analysis.share is None:
            return "the recording is not analysed"
        if not analysis.passes:
            return f"analysing the recording: {analysis.share:.0%}"
        if analysis.behind or self.store.facts.growing:
            words = f"no findings so far{analysis.missing and f'; {analysis.missing}'}"
            return self.store.facts.coverage.limited(words)
        return self.store.facts.coverage.limited("no findings in the whole recording")

    @property
    def selected_event_id(self) -> int | None:
        """First event of the finding."""
        return self.entry.events[0] if self.entry is not None and self.entry.events else None

    def remarks(self) -> Sequence[StyledLine]:
        """Return the title of the finding under the cursor if its line cuts it, the evidence, the
        containers and the advice.
        """
        lines: list[StyledLine] = []
        problem = self.store.analysis.problem
        if problem and self.entries:
            lines.append(line(f"not all events were analysed: {problem}", Style.WARN))
        finding = self.entry
        if finding is None:
            return lines
        about = ", ".join(finding.containers[:_NAMES_SHOWN])
        if len(finding.containers) > _NAMES_SHOWN:
            about += f" and {len(finding.containers) - _NAMES_SHOWN:,} more"
        title, width = safe(finding.title[:_TEXT_MAX]), max(20, self.foot.size.width)
        if columns(title) > self.grid.widths[_TITLE]:
            lines += folded(line(title, Style.STRONG), width, 2)
        texts = [
            finding.detail,
            f"first at {moment(finding.at_ns)}" if finding.at_ns is not None else "",
            f"about {about}" if about else "",
            *(bug.sentence for bug in finding.bugs),
            f"→ {self.store.commands.words(finding.advice)}",
        ]
        for text in texts:
            if text:
                lines += folded(line(safe(text[:_TEXT_MAX])), width, 2)
        return lines

    def open_line(self) -> None:
        """Open the first event of the finding in the list of events."""
        number = self.selected_event_id
        if number is not None:
            self.post_message(OpenEvent(number))
        elif self.entry is not None:
            self.post_message(StatusText("this finding has no event"))
