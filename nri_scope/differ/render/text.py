# SPDX-License-Identifier: Apache-2.0
"""Render rounds as text: a line for each event, with its changes below."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nri_scope.recording.query.coverage import Coverage
from nri_scope.specs import Change, label
from nri_scope.text.quantities import Days, clock, many
from nri_scope.text.styled_text import Layout, LayoutPart, Style, StyledText

from ..attribution.attributed_changes import EVICTION, ChangeStep, NameOf, OutcomeKind, RoundDiff
from . import wording
from .values import clipped, clipped_pair, move, place, sides
from .wording import GLYPHS, Legend, left_out

CONTINUATION_INDENT = 4
"""Indentation of continuation lines, in columns."""

_STYLES = {"added": Style.GOOD, "removed": Style.BAD, "changed": Style.WARN, "moved": Style.NOTE}
_TITLES = {"": "update", EVICTION: "eviction"}
VALUE_MAX = 400
"""Maximum length of a value on a terminal, in characters: five lines. Files have all of it."""


def change_lines(
    layout: Layout, change: Change, owner: str = "", indent: int = 2, glyph: str = ""
) -> list[StyledText]:
    """Return the change and its owner, wrapped to the layout's width.

    ``glyph``: a sign in place of that of the kind of change, of a request. What position a
    requested member gets, only the change shows: iSulad appends mounts to those of the spec.
    """
    sign = glyph or GLYPHS[change.kind]
    style = _STYLES[change.kind] if sign == GLYPHS[change.kind] else Style.WARN
    what = _TITLES.get(change.path) or label(change.path)
    path = LayoutPart(f"{sign} {what}", style)
    parts = [path, *_values(layout, change)]
    if sign == GLYPHS["added"] and change.position is not None:
        parts.append(LayoutPart(f"in {place(change.position)} place"))
    parts.append(LayoutPart(owner))
    return layout.parts(parts, indent, indent + CONTINUATION_INDENT)


def _values(layout: Layout, change: Change) -> Sequence[LayoutPart]:
    width = layout.width
    before, after = sides(change)
    if width is not None:
        before, after = clipped_pair(before, after, VALUE_MAX)
    match change.kind:
        case "added":
            return [LayoutPart(after)] if change.after is not None else []
        case "removed":
            return [LayoutPart(f"was {before}" if change.before is not None else "removal")]
        case "moved":
            return [LayoutPart(move(change))]
    one_line = f"{before} → {after}"
    if width is None or len(one_line) <= width - 2 * CONTINUATION_INDENT:
        return [LayoutPart(one_line)]
    return [LayoutPart(before), LayoutPart(f"→ {after}")]


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
        self._tally = _ChangeCounts()

    def head(self, title: str, details: Sequence[str] = ()) -> Iterator[str]:
        """Yield the title, and a line for each detail."""
        yield from self._layout.sentence(title, 0, Style.STRONG)
        for detail in details:
            yield from self._note(detail, Style.DIM)
        self._needs_blank = True

    def round(self, diff: RoundDiff, name_of: NameOf) -> Iterator[str]:
        """Yield several lines for a round with changes, otherwise one line or none."""
        self.changed = self.changed or wording.changes_anything(diff)
        self._tally.count(diff)
        if wording.calm(diff) and not (self._live and diff.settled):
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
        self._legend.add_round(diff, live=self._live)
        if self._live:
            yield from self._explanations(indent=2)

    def end(self, coverage: Coverage | None = None) -> Iterator[str]:
        """Yield the totals, if any, and, unless ``live``, the legend."""
        if not (self._tally.operations or self._live):
            return
        if self._needs_blank:
            yield ""
        yield from self._layout.sentence(self._tally.words(), 0, Style.STRONG)
        if coverage is not None and not coverage.is_whole:
            yield from self._layout.sentence(coverage.words, 0, Style.WARN)
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
        result = "no change seen"
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
        for absence in diff.absences:
            yield from self._note(f"! {absence}", Style.BAD)
        for name, plugins in wording.chain(diff):
            yield from self._note(f"{name}{', '.join(plugins)}", Style.DIM)
        if diff.missed_by:
            yield from self._note(f"! not seen by {', '.join(diff.missed_by)}", Style.WARN)
        if diff.failure:
            yield from self._note(f"! FAILED: {diff.failure}", Style.BAD)
        for remark in (*filter(None, [diff.doubt]), *diff.remarks):
            yield from self._note(f"! {remark}", Style.WARN)
        for step in diff.own:
            yield from self._step(step, diff)
        for container, steps in wording.by_container(diff.side_effects):
            prefix, name = wording.place_beside(diff, container, name_of)
            yield from self._note(f"{prefix}{name}:", Style.STRONG)
            for step in steps:
                yield from self._step(step, diff, indent=4)
        if self._live and diff.settled:
            yield from self._note("outcome of earlier requests:", Style.STRONG)
            for step in diff.settled:
                yield from self._step(step, diff, indent=4)
        yield from self._spans(diff)

    def _spans(self, diff: RoundDiff) -> Iterator[str]:
        for span in filter(wording.slow, diff.spans):
            yield from self._note(f"! SLOW: {wording.slow_span(span)}", Style.BAD)
        if times := wording.times(diff.spans):
            yield from self._note(f"time: {times}", Style.DIM)

    def _note(self, text: str, style: Style = Style.PLAIN) -> Sequence[str]:
        return self._layout.parts([LayoutPart(text, style)], 2, 4)

    def _cut(self, text: str) -> str:
        return text if self._layout.width is None else clipped(text, VALUE_MAX)

    # -- a change -----------------------------------------------------------------------------

    def _step(self, step: ChangeStep, diff: RoundDiff, indent: int = 2) -> Iterator[str]:
        owner = f"{wording.requester(step)} ({wording.sources(step.evidence)})"
        is_open = step.outcome.kind is OutcomeKind.REQUESTED
        if is_open or not wording.why_besides(step, diff.failure):
            owner = f"{owner}, {wording.outcome(step)}"
        glyph = wording.glyph(step)
        yield from change_lines(self._layout, step.change, owner, indent, glyph=glyph)
        for weight, text in wording.details(step, diff.failure):
            text = self._cut(text)
            yield from self._layout.sentence(text, indent + CONTINUATION_INDENT, _WEIGHTS[weight])

    def _explanations(self, indent: int) -> Iterator[str]:
        for line in self._legend.lines():
            if line not in self._explained:
                self._explained.add(line)
                yield from self._layout.sentence(line, indent, Style.DIM)


class _ChangeCounts:
    """Counter of operations, changes and containers."""

    def __init__(self) -> None:
        self.operations = 0
        self._changing = 0
        self._steps = 0
        self._containers: set[str] = set()
        self._asked: dict[OutcomeKind, int] = {}
        self.left_out = 0

    def count(self, diff: RoundDiff) -> None:
        changes = diff.changes
        self.operations += 1
        self._changing += bool(changes)
        self._steps += len(changes)
        self._containers.update(step.container for step in changes)
        for step in diff.steps:
            if not step.is_change:
                kind = step.outcome.kind
                self._asked[kind] = self._asked.get(kind, 0) + 1

    def words(self) -> str:
        if not self.operations:
            return "no operation shown"
        operations = many(self.operations, "operation")
        hidden = f"; {left_out(self.left_out)}" if self.left_out else ""
        counts = [(kind, count) for kind in OutcomeKind if (count := self._asked.get(kind, 0))]
        words = ", ".join(f"{count:,} {_COUNTED.get(kind, kind)}" for kind, count in counts)
        asked = f"; {many(sum(self._asked.values()), 'other request')}: {words}" if words else ""
        if not self._steps:
            return f"no change seen in {operations}{asked}{hidden}"
        return (
            f"{many(self._steps, 'change')} to {many(len(self._containers), 'container')} "
            f"in {self._changing} of {operations}{asked}{hidden}"
        )


_COUNTED = {OutcomeKind.REQUESTED: "with unknown outcome"}
