# SPDX-License-Identifier: Apache-2.0
"""Render a container's lines as text: YAML with a gutter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nri_scope.recording.display import SHORT_ID
from nri_scope.text.escape import columns, safe
from nri_scope.text.layout import Layout, LayoutPart, break_text
from nri_scope.text.styled_text import Span, Style, StyledText, styled
from nri_scope.text.yaml_flow import fill
from nri_scope.text.yaml_text import key

from ..attribution.attributed_changes import Applied, Evidence, PluginRequest
from ..attribution.history import History
from ..attribution.owner import Owner, OwnerKind
from ..render import wording
from ..render.values import clipped
from .folding import Fold, Row
from .gutter import Gutter, short
from .owned_lines import UNMET, OwnedLine

YAML_WIDTH_MIN = 24
"""Minimum width of the YAML in columns, even if the terminal is narrower."""
_NO_PLUGIN = (OwnerKind.SPEC, OwnerKind.RUNTIME)
_REMARK_MAX = 1_000
"""Maximum length of a remark on a terminal, in characters; files have all of it."""
STYLES = {
    "+": Style.GOOD,
    "-": Style.BAD,
    "~": Style.WARN,
    ">": Style.NOTE,
    "!": Style.BAD,
    " ": Style.PLAIN,
}


def head(
    history: History,
    lines: Sequence[OwnedLine] | None,
    width: int | None = None,
    about: Sequence[PluginRequest] | None = None,
) -> Iterator[str]:
    """Yield the container's name, the number of changed lines, and limits of the evidence.

    Without `lines` the number is omitted. `about`: requests to list instead of all that were not
    applied as requested.
    """
    layout = Layout(width)
    began = f", {history.beginning}" if history.beginning else ""
    named = history.name != history.id[:SHORT_ID]
    number = f" {history.id[:SHORT_ID]}" if named else ""
    yield from layout.sentence(f"{history.name}{number}{began}", 0, Style.STRONG)
    if history.failure:
        yield from layout.sentence(f"! creation failed: {history.failure}", 0, Style.BAD)
    if history.real is not None:
        source = f"the spec that the runtime actually used, reported by event {history.real_event}"
        yield from layout.sentence(source, 0)
    if lines is not None:
        yield from layout.sentence(summary(lines), 0)
    for remark in (*filter(None, [history.doubt]), *history.remarks):
        yield from layout.sentence(f"note: {remark}", 0, Style.WARN)
    for one in wording.unnoted(history.asked if about is None else about, history.steps):
        fate = wording.FATES[one.fate]
        text = cut(f"! {fate}: {wording.request(one)}", width)
        yield from layout.sentence(text, 0, Style.BAD)


def summary(lines: Sequence[OwnedLine]) -> str:
    """Return the number of lines, and of those changed by each owner. Not escaped."""
    total = sum(line.there and not line.heading for line in lines)
    counts: dict[str, int] = {}
    for line in lines:
        if line.changed and line.mark != UNMET and not line.heading:
            _, owner, _ = gutter_content(line)
            who = "unknown" if owner is None else short(owner)
            counts[who] = counts.get(who, 0) + 1
    unmet = sum(line.mark == UNMET and not line.heading for line in lines)
    not_applied = f"; requested but not applied: {unmet:,}" if unmet else ""
    if not counts:
        what = "the only line" if total == 1 else f"any of {total:,} lines"
        return f"no plugin was seen to change {what}{not_applied}"
    # An owner may be a list of possible plugins, separated by commas.
    separator = "; " if any("," in who for who in counts) else ", "
    listed = separator.join(f"{who} {count:,}" for who, count in counts.items())
    return f"{total:,} line{'' if total == 1 else 's'}; changed: {listed}{not_applied}"


def gutter_content(line: OwnedLine) -> tuple[str, Owner | None, tuple[Evidence, ...]]:
    """Return mark, owner and evidence for the gutter. An applied change also has CRI evidence."""
    mark, step, owner, evidence = line.mark, line.step, line.owner, line.evidence
    if line.mover is not None and mark == ">":
        step, owner, evidence = line.mover, line.mover.owner, line.mover.evidence
    applied = step is not None and step.applied is Applied.YES
    if applied and mark != UNMET and Evidence.CRI not in evidence:
        evidence = (*evidence, Evidence.CRI)
    if mark == " " and not line.there and not line.heading:
        # The runtime removed the line: not a plugin's change, but the value is gone.
        mark = "-"
    return mark, owner, evidence


def body(rows: Sequence[Row], width: int | None = None) -> tuple[list[str], list[str]]:
    """Return the lines with their gutter, and the items of the legend."""
    found: list[tuple[Owner, Sequence[Evidence]]] = []
    for row in rows:
        if isinstance(row, Fold):
            found.append((row.owner, ()))
        else:
            _, owner, evidence = gutter_content(row)
            if owner is not None:
                found.append((owner, evidence))
    gutter = Gutter(found, width)
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
    return fill(head, line.written, width, line.indent + 4)


def cut(remark: str, width: int | None) -> str:
    """Return a remark, of limited length if the line `width` is limited."""
    return remark if width is None else clipped(remark, _REMARK_MAX)


def _line(line: OwnedLine, gutter: Gutter, width: int | None) -> Iterator[str]:
    mark, owner, evidence = gutter_content(line)
    own = owner is not None and owner.who in _NO_PLUGIN and not line.changed
    style = Style.DIM if own else STYLES[mark]
    yaml = yaml_lines(line, width)
    remarks = [cut(one, width) for one in line.remarks]
    remark = safe("; ".join(remarks))
    beside = f"  # {remark}" if remark else ""
    if beside and (width is None or columns(yaml[-1]) + columns(beside) <= width):
        last = Span(beside, Style.DIM)
        beside = ""
    else:
        last = Span("")
    cell = gutter.cell(owner, evidence, mark)
    blank = gutter.cell(None, (), " ")
    for at, text in enumerate(yaml):
        left = Span(blank) if at else Span(cell, style)
        yield StyledText(left, Span(text, style), *([last] if at == len(yaml) - 1 else []))
    if beside and width is not None:
        margin = " " * (line.indent + 4)
        room = width - len(margin) - 2
        for each in remarks:
            for text in break_text(safe(each), room, room):
                yield StyledText(blank, Span(f"{margin}# {text}", Style.DIM))


def _fold(fold: Fold, gutter: Gutter) -> str:
    plural = "" if fold.hidden == 1 else "s"
    by = " by the runtime" if fold.owner.who is OwnerKind.RUNTIME else ""
    text = f"{' ' * fold.indent}# … {fold.hidden:,} line{plural}{by}"
    return styled(Style.DIM, f"{gutter.cell(fold.owner, (), ' ')}{text}")
