# SPDX-License-Identifier: Apache-2.0
"""Render a container's lines as text, YAML with a gutter.

The gutter shows owner, evidence and kind of change to the left of each line. Lines that no plugin
changed are folded to counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Literal, NamedTuple, TypeAlias

from nri_scope.specs import Json
from nri_scope.text.escape import columns, safe
from nri_scope.text.quantities import SHORT_ID, many
from nri_scope.text.styled_text import (
    Layout,
    LayoutPart,
    Span,
    Style,
    StyledText,
    break_text,
    styled,
)
from nri_scope.text.yaml_text import inline, key

from ..attribution.attributed_changes import ChangeStep, Evidence, OutcomeKind, Shows
from ..attribution.history import History
from ..attribution.owner import Owner, OwnerKind
from ..render import wording
from ..render.values import clipped
from .owned_lines import OUTCOME_UNKNOWN, UNMET, OwnedLine

View: TypeAlias = Literal["usual", "full", "changed"]


class Fold(NamedTuple):
    """A row in place of consecutive hidden lines of one owner."""

    owner: Owner
    hidden: int
    """Number of hidden lines."""
    indent: int


Row: TypeAlias = "OwnedLine | Fold"


def view(lines: Sequence[OwnedLine], kind: View) -> list[Row]:
    """Return the rows of a view.

    "full": all lines; "changed": lines that differ from the runtime's spec without plugins,
    and their parents; "usual": the same, with a fold in place of the lines between them.
    """
    if kind == "full":
        return list(lines)
    shown = _shown(lines)
    rows: list[Row] = []
    for is_shown, run in groupby(enumerate(lines), lambda item: item[0] in shown):
        some = [line for _, line in run]
        if is_shown:
            rows += some
        elif kind == "usual":
            rows += some if len(some) == 1 else _folds(some)
    return rows


def _shown(lines: Sequence[OwnedLine]) -> set[int]:
    parents: dict[str, int] = {}
    for index, line in enumerate(lines):
        if line.heading:
            parents.setdefault(line.path, index)
        if line.dash and not line.member:
            # A member has no line of its own; its first line represents it.
            parents.setdefault(line.path.rpartition("/")[0], index)
    shown: set[int] = set()
    for index, line in enumerate(lines):
        if not line.changed:
            continue
        shown.add(index)
        path = line.path
        while path := path.rpartition("/")[0]:
            if path in parents:
                shown.add(parents[path])
    return shown


def _folds(lines: Sequence[OwnedLine]) -> Iterator[Fold]:
    counts: dict[Owner, int] = {}
    for line in lines:
        if line.exists and line.owner is not None and not line.heading:
            counts[line.owner] = counts.get(line.owner, 0) + 1
    indent = min(line.indent for line in lines)
    return (Fold(owner, count, indent) for owner, count in counts.items())


MARK_MEANINGS = {
    **{mark: kind for kind, mark in wording.GLYPHS.items()},
    UNMET: "asked for, refused or dropped",
    OUTCOME_UNKNOWN: "asked for, outcome not known",
}
_OWNER_WIDTH_MAX = 40
"""Maximum width of an owner in output without a line width, in columns."""


def short(owner: Owner) -> str:
    """Return a short name of an owner; not escaped."""
    if not owner.or_runtime:
        return str(owner)
    who = "CRI request" if owner.who is OwnerKind.REQUEST else owner.index or str(owner.who)
    who = "unrecorded" if owner.is_unrecorded else who
    return f"{who} or {owner.origin if owner.or_spec else 'runtime'}"


class Gutter:
    """Gutter that is as wide as its content needs, within the line's ``width`` (None: no limit)."""

    def __init__(
        self, owners: Iterable[tuple[Owner, Sequence[Evidence]]], width: int | None
    ) -> None:
        self._owner_width_max = _OWNER_WIDTH_MAX if width is None else max(7, width * 3 // 10)
        self._owners: dict[Owner, None] = {}
        self._evidence: dict[Evidence, None] = {}
        self._marks: set[str] = set()
        """Marks of the cells so far."""
        letters = 0
        for owner, evidence in owners:
            self._owners[owner] = None
            self._evidence.update(dict.fromkeys(evidence))
            letters = max(letters, len(evidence))
        self._letters = letters
        widths = [columns(safe(short(owner))) for owner in self._owners]
        self._owner_width = min(self._owner_width_max, max(widths, default=0))
        self.width = self._owner_width + 1 + (letters + 1 if letters else 0) + 2
        """Width in columns, including the bar."""

    def cell(self, owner: Owner | None, evidence: Sequence[Evidence], mark: str) -> str:
        """Return the gutter of one line."""
        self._marks.add(mark)
        name = "" if owner is None else safe(short(owner), self._owner_width)
        padding = " " * (self._owner_width - columns(name))
        letters = "".join(kind.letter for kind in evidence)
        evidence_cell = f"{letters:<{self._letters}} " if self._letters else ""
        return f"{name}{padding} {evidence_cell}{mark}│"

    def legend(self) -> list[str]:
        """Return the explanations of the owners and signs in use.

        Not escaped. Call it after `cell` was called for all lines.
        """
        items: list[str] = []
        if example := next(filter(_is_range, self._owners), None):
            indices = "this index" if example.first == example.last else "one of these indices"
            items.append(f"one of {example.index}: a plugin with {indices}")
        if any(owner.who is OwnerKind.ONE_OF and owner.plugins for owner in self._owners):
            items.append("one of …: one or more of these plugins")
        items += (f"{mark} {what}" for mark, what in MARK_MEANINGS.items() if mark in self._marks)
        items += (f"{kind.letter}: {kind.short}" for kind in Evidence if kind in self._evidence)
        origins = (o.origin for o in self._owners if o.who is OwnerKind.SPEC or o.or_spec)
        items += (f"{name}: no plugin" for name in dict.fromkeys(origins))
        if any(owner.or_runtime and not owner.or_spec for owner in self._owners):
            items.append("or runtime: the runtime itself may have made the change")
        if any(owner.who is OwnerKind.UNKNOWN for owner in self._owners):
            items.append("unknown: not observed, or older than the recording")
        if any(owner.who is OwnerKind.REQUEST for owner in self._owners):
            items.append("CRI request: by a CRI client, usually the kubelet")
        ties = sorted({index for owner in self._owners for index in owner.ties})
        if ties:
            items.append(
                f"{' or '.join(ties)}: or a plugin of the same index that was not recorded"
            )
        items += (
            f"{safe(short(owner), self._owner_width_max)}: {owner}" for owner in self._truncated()
        )
        return items

    def _truncated(self) -> list[Owner]:
        """Return the owners whose names are truncated."""
        return [owner for owner in self._owners if columns(safe(short(owner))) > self._owner_width]


def _is_range(owner: Owner) -> bool:
    return owner.who is OwnerKind.ONE_OF and not owner.plugins and bool(owner.index)


YAML_WIDTH_MIN = 24
"""Minimum width of the YAML in columns, even if the terminal is narrower."""
_SPECS = (Shows.CRI, Shows.CONFIG)
_NO_PLUGIN = (OwnerKind.SPEC, OwnerKind.RUNTIME)
_REMARK_MAX = 1_000
"""Maximum length of a remark on a terminal, in characters; files have all of it."""
STYLES = {
    "+": Style.GOOD,
    "-": Style.BAD,
    "~": Style.WARN,
    ">": Style.NOTE,
    "!": Style.BAD,
    "?": Style.WARN,
    "^": Style.WARN,
    " ": Style.PLAIN,
}


def head(
    history: History,
    lines: Sequence[OwnedLine] | None,
    width: int | None = None,
    about: Sequence[ChangeStep] | None = None,
) -> Iterator[str]:
    """Yield the container's name, the number of changed lines, and limits of the evidence.

    Without `lines` the number is omitted. `about`: requests to list instead of all without an
    effect.
    """
    yield from name_lines(history, width)
    yield from alerts(history, width)
    if lines is not None:
        yield from Layout(width).sentence(summary(lines, width), 0)
    yield from limits(history, width)
    yield from requests(history.without_effect if about is None else about, width)


def name_lines(history: History, width: int | None) -> Iterator[str]:
    """Yield the container's name, and how it began."""
    began = f", {history.beginning}" if history.beginning else ""
    named = history.name != history.id[:SHORT_ID]
    number = f" {history.id[:SHORT_ID]}" if named else ""
    yield from Layout(width).sentence(f"{history.name}{number}{began}", 0, Style.STRONG)


def alerts(history: History, width: int | None) -> Iterator[str]:
    """Yield missing plugins, the failure of the creation, and the event of the real spec."""
    layout = Layout(width)
    for absence in history.absences:
        yield from layout.sentence(f"! {absence}", 0, Style.BAD)
    if history.failure:
        yield from layout.sentence(f"! creation failed: {history.failure}", 0, Style.BAD)
    if history.real is not None:
        source = f"the spec that the runtime actually used, reported by event {history.real_event}"
        yield from layout.sentence(source, 0)


def limits(history: History, width: int | None) -> Iterator[str]:
    """Yield the limits of the evidence."""
    for remark in history.limits:
        yield from Layout(width).sentence(f"note: {remark}", 0, Style.WARN)


def requests(steps: Iterable[ChangeStep], width: int | None) -> Iterator[str]:
    """Yield requests that were not seen as changes."""
    for request in steps:
        text = cut(f"{wording.glyph(request)} {wording.request(request)}", width)
        is_open = request.outcome.kind is OutcomeKind.REQUESTED
        yield from Layout(width).sentence(text, 0, Style.WARN if is_open else Style.BAD)


def summary(lines: Sequence[OwnedLine], width: int | None = None) -> str:
    """Return the number of lines, and of those changed by each owner. Not escaped.

    If it is wider than ``width``, plugins are named by their index, as the gutter has their names.
    """
    total = sum(line.exists and not line.heading for line in lines)
    counts: dict[str, int] = {}
    indices: dict[str, str] = {}
    for line in lines:
        if line.changed and line.mark not in (UNMET, OUTCOME_UNKNOWN) and not line.heading:
            _, owner, _ = gutter_content(line)
            who = "unknown" if owner is None else short(owner)
            counts[who] = counts.get(who, 0) + 1
            if owner is not None and owner.who is OwnerKind.PLUGIN and not owner.or_runtime:
                indices[who] = owner.index
    not_applied = ""
    for each in (OUTCOME_UNKNOWN, UNMET):
        asked = sum(line.mark == each and not line.heading for line in lines)
        not_applied += f"; {MARK_MEANINGS[each]}: {asked:,}" if asked else ""
    if not counts:
        what = "the only line" if total == 1 else f"any of {total:,} lines"
        return f"no plugin was seen to change {what}{not_applied}"
    # An owner may be a list of possible plugins, separated by commas.
    separator = "; " if any("," in who for who in counts) else ", "
    first = f"{many(total, 'line')}; changed: "
    text = f"{first}{separator.join(f'{who} {count:,}' for who, count in counts.items())}"
    if width is not None and columns(safe(text)) > width:
        shown = (f"{indices.get(who, who)}: {count:,}" for who, count in counts.items())
        text = f"{first}{separator.join(shown)}"
    return f"{text}{not_applied}"


def gutter_content(line: OwnedLine) -> tuple[str, Owner | None, tuple[Evidence, ...]]:
    """Return mark, owner and evidence for the gutter: the CRI's, too, if its spec has the value."""
    mark, step, owner, evidence = line.mark, line.step, line.owner, line.evidence
    if line.mover is not None and mark == ">":
        step, owner, evidence = line.mover, line.mover.owner, line.mover.evidence
    by_spec = step is not None and step.is_change and step.outcome.shown_by in _SPECS
    if by_spec and Evidence.CRI not in evidence:
        evidence = (*evidence, Evidence.CRI)
    if mark == " " and not line.exists and not line.heading:
        # The runtime removed the line: not a plugin's change, but the value is gone.
        mark = "-"
    return mark, owner, evidence


def body(rows: Sequence[Row], width: int | None = None) -> tuple[list[str], list[str]]:
    """Return the lines with their gutter, and the items of the legend."""
    owners: list[tuple[Owner, Sequence[Evidence]]] = []
    for row in rows:
        if isinstance(row, Fold):
            owners.append((row.owner, ()))
        else:
            _, owner, evidence = gutter_content(row)
            if owner is not None:
                owners.append((owner, evidence))
    gutter = Gutter(owners, width)
    room = None if width is None else max(YAML_WIDTH_MIN, width - gutter.width)
    written: list[str] = []
    for row in rows:
        if isinstance(row, Fold):
            written.append(_fold(row, gutter))
        else:
            written += _line(row, gutter, room)
    return written, gutter.legend()


def legend(items: Sequence[str], width: int | None = None) -> list[StyledText]:
    """Return the lines of the legend."""
    return Layout(width).parts([LayoutPart(item, Style.DIM) for item in items], 0, 0)


def yaml_lines(line: OwnedLine, width: int | None) -> list[str]:
    """Return one line of the spec as YAML; several if it is too long."""
    head = " " * line.indent + ("- " if line.dash else "")
    if line.member and line.heading:
        # Only parts of the member were removed; the member's owner is unknown.
        return [f"{head}# {safe(line.label)}"]
    if not line.member:
        head += key(line.label)
        if line.heading:
            return [head]
        head += " "
    return value_lines(head, line.written, width, line.indent + 4)


def value_lines(head: str, value: Json, width: int | None, indent: int) -> list[str]:
    """Return ``head`` and the value, in lines of at most ``width`` columns where possible."""
    text = f"{head}{inline(value)}"
    if width is None:
        return [text]
    first, *others = break_text(text, width, width - indent)
    return [first, *(f"{' ' * indent}{other}" for other in others)]


def cut(remark: str, width: int | None) -> str:
    """Return a remark, of limited length if the line `width` is limited."""
    return remark if width is None else clipped(remark, _REMARK_MAX)


def _line(line: OwnedLine, gutter: Gutter, width: int | None) -> Iterator[str]:
    mark, owner, evidence = gutter_content(line)
    own = owner is not None and owner.who in _NO_PLUGIN and not line.changed
    style = Style.DIM if own else STYLES[mark]
    yaml = yaml_lines(line, width)
    remarks = [cut(remark, width) for remark in line.remarks]
    remark = safe("; ".join(remarks))
    beside = f"  # {remark}" if remark else ""
    if beside and (width is None or columns(yaml[-1]) + columns(beside) <= width):
        last = Span(beside, Style.DIM)
        beside = ""
    else:
        last = Span("")
    cell = gutter.cell(owner, evidence, mark)
    blank = gutter.cell(None, (), " ")
    for number, text in enumerate(yaml):
        left = Span(blank) if number else Span(cell, style)
        yield StyledText(left, Span(text, style), *([last] if number == len(yaml) - 1 else []))
    if beside and width is not None:
        margin = " " * (line.indent + 4)
        room = width - len(margin) - 2
        for each in remarks:
            for text in break_text(safe(each), room, room):
                yield StyledText(blank, Span(f"{margin}# {text}", Style.DIM))


def _fold(fold: Fold, gutter: Gutter) -> str:
    by = " by the runtime" if fold.owner.who is OwnerKind.RUNTIME else ""
    text = f"{' ' * fold.indent}# … {many(fold.hidden, 'line')}{by}"
    return styled(Style.DIM, f"{gutter.cell(fold.owner, (), ' ')}{text}")
