# SPDX-License-Identifier: Apache-2.0
"""The history of one path of a container: its values in order, each with its owner, as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nri_scope.errors import UsageError, nearest_word
from nri_scope.specs import Absent, Json, label, path_of, pointer, split, value_at
from nri_scope.text.escape import columns, safe
from nri_scope.text.quantities import Days, clock, first_names
from nri_scope.text.styled_text import Span, Style, StyledText, break_text, styled

from ..attribution.attributed_changes import EVICTION, ChangeStep
from ..attribution.history import History
from ..render import wording
from ..render.values import move
from .owned_lines import tree
from .text import STYLES, YAML_WIDTH_MIN, Gutter, cut, value_lines

_LISTED_MAX = 5
"""Maximum number of matching paths in an error."""
_COMPARED_MAX = 5_000
"""Maximum number of paths that are searched for the nearest one."""
_QUOTED_MAX = 200
"""Maximum length of the requested path in an error, in characters."""


@dataclass(frozen=True, slots=True)
class PathHistory:
    """The history of one path."""

    path: str
    began: Json | Absent
    """The value in the container's first state; ABSENT if there is none."""
    steps: tuple[ChangeStep, ...]
    """The steps at exactly this path, in order."""


def path_histories(history: History, path: str) -> list[PathHistory]:
    """Return the history of each changed path among `path`, its parents and its parts.

    If no such path was changed, return only the history of `path`, without steps.
    """
    steps_of: dict[str, list[ChangeStep]] = {}
    for step in history.steps_at(path):
        steps_of.setdefault(step.change.path, []).append(step)
    return [
        PathHistory(changed, value_at(history.base, changed), tuple(steps))
        for changed, steps in (steps_of or {path: []}).items()
    ]


def whole_container_requests(history: History) -> list[ChangeStep]:
    """Return the requests without an effect that concern the whole container, not one path."""
    return [step for step in history.without_effect if step.change.path in ("", EVICTION)]


def resolve(history: History, query: str) -> str:
    """Return the path that matches `query`.

    `query` is a pointer, with or without its first slash, a label, or only its last part if that is
    unique. Raises UsageError with the matching or the nearest paths.
    """
    known = _known_paths(history)
    trimmed = query.rstrip("/") if query != "/" else query
    for candidate in (query, trimmed, path_of(query), f"/{trimmed}"):
        if candidate and candidate in known:
            return candidate
    named = [path for path in known if split(path)[-1:] == (query,)]
    changed = {step.change.path for step in history.steps}
    if len(named) == 1:
        return named[0]
    quoted = query if len(query) <= _QUOTED_MAX else f"{query[:_QUOTED_MAX]}…"
    if named:
        # Users more likely mean changed paths.
        named.sort(key=lambda path: path not in changed)
        labels = first_names([*map(label, named)], _LISTED_MAX, " or ")
        raise UsageError(f'"{quoted}" matches {len(named)} paths', f"use {labels}")
    raise UsageError(
        f'{history.name} never had a value at "{quoted}"', _hint(query, known, changed)
    )


def _hint(query: str, known: dict[str, None], changed: set[str]) -> str:
    path = path_of(query)
    if path is not None and path.count("/") > 1:
        query = path
    if "/" in query.strip("/") or query.startswith("/"):
        asked = query if query.startswith("/") else f"/{query}"
        # The user may not have escaped the slashes of a key.
        unescaped = {"/".join(("", *split(path))): path for path in known}
        if asked in unescaped:
            return f"use {label(unescaped[asked])}"
        names = [*changed, *(path for path in known if path not in changed)][:_COMPARED_MAX]
        near = nearest_word(asked, names)
        return f"the nearest is {label(near)}" if near else "--full shows all paths"
    labels: dict[str, str] = {}
    for path in known:
        labels.setdefault(split(path)[-1].lower(), path)
    if query.lower() in labels:
        return f"the nearest is {label(labels[query.lower()])}"
    near = nearest_word(query, list(labels)[:_COMPARED_MAX])
    return f"the nearest is {label(labels[near])}" if near else "--full shows all paths"


def _known_paths(history: History) -> dict[str, None]:
    """Return every path that has or had a value, and every requested path."""
    paths: dict[str, None] = {}
    for spec in (history.final_spec, history.spec, history.base):
        paths.update(dict.fromkeys(tree(spec)))
    for path in (step.change.path for step in history.steps if step.change.path != EVICTION):
        while path and path not in paths:
            paths[path] = None
            path = path.rpartition("/")[0]
    for step in history.steps:
        paths.update(dict.fromkeys(_below(step)))
    paths.pop("", None)
    return paths


def _below(step: ChangeStep) -> Iterator[str]:
    """Yield the fields of an object that was added or removed as a whole."""
    for value in (step.change.before, step.change.after):
        if isinstance(value, dict):
            yield from (pointer(step.change.path, name) for name in value)


_NO_CHANGE = "no change seen"


def history_body(
    history: History, histories: Sequence[PathHistory], width: int | None = None
) -> tuple[list[str], list[str]]:
    """Return lines of the values in order, with time, event and owner, and the legend's items."""
    steps = [step for path_history in histories for step in path_history.steps]
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
    for path_history in histories:
        if path_history is not histories[0]:
            lines.append("")
        lines.append(styled(Style.STRONG, safe(label(path_history.path))))
        lines += _path_lines(history, path_history, _Columns(number, gutter, width), days)
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
            mark = wording.glyph(step)
            left = f"{clock(step.at_ns)}  {step.event:>{self._number}}  "
            cell = self._gutter.cell(step.owner, step.evidence, mark)
        width = self._width
        room = (
            None if width is None else max(YAML_WIDTH_MIN, width - self._left - self._gutter.width)
        )
        rows = [word] if word else value_lines("", value, room, 2)
        margin = " " * self._left + self._gutter.cell(None, (), " ")
        remark = safe(cut(remark, width))
        if remark and (room is None or columns(rows[-1]) + columns(remark) + 4 <= room):
            rows[-1] += f"  # {remark}"
            remark = ""
        for number, text in enumerate(rows):
            yield StyledText(margin if number else left + cell, Span(text, STYLES[mark]))
        if remark and room is not None:
            for text in break_text(remark, room - 4, room - 4):
                yield StyledText(margin, Span(f"  # {text}", Style.DIM))


def _path_lines(
    history: History, path_history: PathHistory, formatter: _Columns, days: Days
) -> Iterator[str]:
    if not isinstance(path_history.began, Absent):
        remark = "" if path_history.steps else _NO_CHANGE
        yield from formatter.write(None, history, path_history.began, remark)
    elif not path_history.steps:
        yield f"({_NO_CHANGE})"
    for step in path_history.steps:
        yield from days.turn(step.at_ns)
        yield from formatter.write(
            step, history, step.change.after, "; ".join(_remarks(step)), _word(step)
        )


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
    yield wording.why(step) or wording.outcome(step)
    yield from (wording.claim(claim, step) for claim in step.disputed)
    if step.note:
        yield step.note
