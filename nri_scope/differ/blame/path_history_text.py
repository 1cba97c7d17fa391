# SPDX-License-Identifier: Apache-2.0
"""Render the history of a path as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nri_scope.recording.display import Days, clock
from nri_scope.specs import Json, label
from nri_scope.text.escape import columns, safe
from nri_scope.text.layout import break_text
from nri_scope.text.styled_text import Span, Style, StyledText, styled
from nri_scope.text.yaml_flow import fill

from ..attribution.attributed_changes import ChangeStep
from ..attribution.history import History
from ..render import wording
from ..render.values import move
from .gutter import Gutter
from .owned_lines import MARKS
from .path_history import PathHistory
from .text import STYLES, YAML_WIDTH_MIN, cut

_NO_CHANGE = "no change seen"


def past_body(
    history: History, pasts: Sequence[PathHistory], width: int | None = None
) -> tuple[list[str], list[str]]:
    """Return lines of the values in order, with time, event and owner, and the legend's items."""
    steps = [step for past in pasts for step in past.steps]
    gutter = Gutter(
        [
            (history.base_owner, ()),
            *((step.owner, step.evidence) for step in steps),
        ],
        width,
    )
    number = max((len(str(step.event)) for step in steps), default=1)
    lines: list[str] = []
    days = Days()
    if steps:
        lines += days.turn(steps[0].at_ns)
    for past in pasts:
        if past is not pasts[0]:
            lines.append("")
        lines.append(styled(Style.STRONG, safe(label(past.path))))
        lines += _past(history, past, _Columns(number, gutter, width), days)
    return lines, gutter.legend()


class _Columns:
    """Formatter of a value with time, event and gutter at its left."""

    def __init__(self, number: int, gutter: Gutter, width: int | None) -> None:
        self._number = number
        self._gutter = gutter
        self._width = width
        self._left = len("00:00:00.000") + 2 + number + 2

    def write(
        self, step: ChangeStep | None, history: History, value: Json, remark: str, word: str = ""
    ) -> Iterator[str]:
        if step is None:
            left = " " * self._left
            cell = self._gutter.cell(history.base_owner, (), " ")
            mark = " "
        else:
            mark = MARKS[step.change.kind]
            left = f"{clock(step.at_ns)}  {step.event:>{self._number}}  "
            cell = self._gutter.cell(step.owner, step.evidence, mark)
        width = self._width
        room = (
            None if width is None else max(YAML_WIDTH_MIN, width - self._left - self._gutter.width)
        )
        rows = [word] if word else fill("", value, room, 2)
        margin = " " * self._left + self._gutter.cell(None, (), " ")
        remark = safe(cut(remark, width))
        if remark and (room is None or columns(rows[-1]) + columns(remark) + 4 <= room):
            rows[-1] += f"  # {remark}"
            remark = ""
        for at, text in enumerate(rows):
            yield StyledText(margin if at else left + cell, Span(text, STYLES[mark]))
        if remark and room is not None:
            for text in break_text(remark, room - 4, room - 4):
                yield StyledText(margin, Span(f"  # {text}", Style.DIM))


def _past(history: History, past: PathHistory, write: _Columns, days: Days) -> Iterator[str]:
    if past.began_there:
        remark = "" if past.steps else _NO_CHANGE
        yield from write.write(None, history, past.began, remark)
    for step in past.steps:
        yield from days.turn(step.at_ns)
        yield from write.write(
            step, history, step.change.after, "; ".join(_remarks(step)), _word(step)
        )
    if not past.began_there and not past.steps:
        yield f"({_NO_CHANGE})"


def _word(step: ChangeStep) -> str:
    """Return the text in place of the value; "" for none."""
    change = step.change
    match change.kind:
        case "removed":
            return "(removed)"
        case "moved":
            return f"({move(change)})"
    return ""


def _remarks(step: ChangeStep) -> Iterator[str]:
    if trouble := wording.fate(step):
        yield trouble
    elif step.applied is not None:
        yield str(step.applied)
    yield from (wording.claim(claim, step) for claim in step.disputed)
    if step.note:
        yield step.note
