# SPDX-License-Identifier: Apache-2.0
"""Render rounds as text: a line for each event, with its changes below."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nri_scope.recording.display import Days, clock, many
from nri_scope.text.layout import Layout, LayoutPart
from nri_scope.text.styled_text import Style

from ..attribution.attributed_changes import Applied, ChangeStep, NameOf, RoundDiff
from . import wording
from .change_lines import CONTINUATION_INDENT, VALUE_MAX, change_lines
from .legend import Legend
from .values import clipped
from .wording import left_out

_WEIGHTS = {
    wording.DetailWeight.TROUBLE: Style.BAD,
    wording.DetailWeight.DOUBT: Style.WARN,
    wording.DetailWeight.REMARK: Style.DIM,
}


class TextRenderer:
    """A `Renderer` of text. ``live``: explain words at their first use, not at the end."""

    def __init__(self, *, width: int | None, live: bool, quiet_unchanged: bool) -> None:
        self.changed = False
        self._layout = Layout(width)
        self._live = live
        self._quiet = quiet_unchanged
        self._legend = Legend()
        self._explained: set[str] = set()
        self._days = Days()
        self._needs_blank = False
        """Whether a blank line is needed before the next round with changes."""
        self._tally = _Tally()

    def head(self, title: str, details: Sequence[str] = ()) -> Iterator[str]:
        """Yield the title, and a line for each detail."""
        yield from self._layout.sentence(title, 0, Style.STRONG)
        for detail in details:
            yield from self._note(detail, Style.DIM)
        self._needs_blank = True

    def round(self, diff: RoundDiff, name_of: NameOf) -> Iterator[str]:
        """Yield several lines for a round with changes, otherwise one line or none."""
        self.changed = self.changed or bool(wording.fresh(diff, diff.steps))
        self._tally.count(diff)
        if wording.calm(diff):
            if self._quiet:
                self._tally.left_out += 1
            else:
                if not self._days.begun:
                    yield ""
                yield from self._new_day(diff)
                yield from self._calm(diff, name_of)
                self._needs_blank = True
            return
        if self._needs_blank:
            yield ""
        yield from self._new_day(diff)
        yield from self._changed(diff, name_of)
        self._needs_blank = True
        self._legend.add_round(diff)
        if self._live:
            yield from self._explanations(indent=2)

    def end(self) -> Iterator[str]:
        """Yield the totals, if any, and, unless ``live``, the legend."""
        if not (self._tally.operations or self._live):
            return
        if self._needs_blank:
            yield ""
        yield from self._layout.sentence(self._tally.words(), 0, Style.STRONG)
        if not self._live:
            yield from self._explanations(indent=0)

    # -- a round ------------------------------------------------------------------------------

    def _new_day(self, diff: RoundDiff) -> Iterator[str]:
        for line in self._days.turn(diff.at_ns):
            yield from self._layout.sentence(line, 0, Style.STRONG)

    def _opening(self, diff: RoundDiff, name_of: NameOf) -> list[LayoutPart]:
        number = f"{diff.event:>6} {clock(diff.at_ns)}"
        return [
            LayoutPart(f"{number} {wording.title(diff)}", Style.STRONG),
            LayoutPart(wording.subject(diff, name_of), Style.STRONG),
        ]

    def _calm(self, diff: RoundDiff, name_of: NameOf) -> Sequence[str]:
        number = f"{diff.event:>6} {clock(diff.at_ns)} {wording.title(diff)}"
        result = wording.verdict(wording.judged(diff)) or "no change seen"
        if diff.missed_by:
            result += f"; not seen by {', '.join(diff.missed_by)}"
        parts = [
            LayoutPart(number, Style.DIM),
            LayoutPart(wording.subject(diff, name_of), Style.DIM),
            LayoutPart(result, Style.DIM),
        ]
        return self._layout.parts(parts, 0, 2 * CONTINUATION_INDENT)

    def _changed(self, diff: RoundDiff, name_of: NameOf) -> Iterator[str]:
        yield from self._layout.parts(self._opening(diff, name_of), 0, 2 * CONTINUATION_INDENT)
        for name, plugins in wording.chain(diff):
            yield from self._note(f"{name}{', '.join(plugins)}", Style.DIM)
        if diff.missed_by:
            yield from self._note(f"! not seen by {', '.join(diff.missed_by)}", Style.WARN)
        if diff.failure:
            yield from self._note(f"! FAILED: {diff.failure}", Style.BAD)
        for remark in (*filter(None, [diff.doubt]), *diff.remarks):
            yield from self._note(f"! {remark}", Style.WARN)
        judged = wording.judged(diff)
        if judged:
            yield from self._note(wording.verdict(judged, ran=not diff.failure))
        for step in (*wording.failed(judged), *wording.fresh(diff, diff.own)):
            yield from self._step(step)
        for container, steps in wording.by_container(wording.fresh(diff, diff.side_effects)):
            prefix = "on another container, " if diff.container else "on "
            yield from self._note(f"{prefix}{name_of(container)}:", Style.STRONG)
            for step in steps:
                yield from self._step(step, indent=4)
        for one in wording.unnoted(diff.asked, diff.steps):
            yield from self._note(self._cut(f"! {wording.asked(one, diff, name_of)}"), Style.WARN)
        yield from self._spans(diff)

    def _spans(self, diff: RoundDiff) -> Iterator[str]:
        for one in filter(wording.slow, diff.spans):
            yield from self._note(f"! SLOW: {wording.slow_span(one)}", Style.BAD)
        if times := wording.times(diff.spans):
            yield from self._note(f"time: {times}", Style.DIM)

    def _note(self, text: str, style: Style = Style.PLAIN) -> Sequence[str]:
        return self._layout.parts([LayoutPart(text, style)], 2, 4)

    def _cut(self, text: str) -> str:
        return text if self._layout.width is None else clipped(text, VALUE_MAX)

    # -- a change -----------------------------------------------------------------------------

    def _step(self, step: ChangeStep, indent: int = 2) -> Iterator[str]:
        owner = f"{wording.by(step.owner)} ({wording.sources(step.evidence)})"
        if step.applied is Applied.YES:
            owner += ", applied"
        yield from change_lines(self._layout, step.change, owner, indent)
        for weight, text in wording.details(step):
            text = self._cut(text)
            yield from self._layout.sentence(text, indent + CONTINUATION_INDENT, _WEIGHTS[weight])

    def _explanations(self, indent: int) -> Iterator[str]:
        for line in self._legend.lines():
            if line not in self._explained:
                self._explained.add(line)
                yield from self._layout.sentence(line, indent, Style.DIM)


class _Tally:
    """Counter of operations, changes and containers."""

    def __init__(self) -> None:
        self.operations = 0
        self._changing = 0
        self._steps = 0
        self._containers: set[str] = set()
        self.left_out = 0

    def count(self, diff: RoundDiff) -> None:
        fresh = wording.fresh(diff, diff.steps)
        self.operations += 1
        self._changing += bool(fresh)
        self._steps += len(fresh)
        self._containers.update(step.container for step in fresh)

    def words(self) -> str:
        if not self.operations:
            return "no operation shown"
        operations = many(self.operations, "operation")
        hidden = f"; {left_out(self.left_out)}" if self.left_out else ""
        if not self._steps:
            return f"no change seen in {operations}{hidden}"
        return (
            f"{many(self._steps, 'change')} to {many(len(self._containers), 'container')} "
            f"in {self._changing} of {operations}{hidden}"
        )
