# SPDX-License-Identifier: Apache-2.0
"""Render a container's lines as Markdown for an issue."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from nri_scope.recording.display import SHORT_ID

from ..attribution.attributed_changes import ChangeStep
from ..attribution.history import History
from ..render import wording
from ..render.markdown_escape import code, prose
from .owned_lines import OwnedLine
from .text import summary

_BACKTICKS = re.compile(r"`+")


def markdown(
    history: History,
    lines: Sequence[OwnedLine] | None,
    body: Sequence[str],
    legend: Sequence[str],
    about: Sequence[ChangeStep] | None = None,
) -> Iterator[str]:
    """Yield the Markdown. `body`: the lines after head and legend, without wrapping and styles.

    `about`: requests to list instead of all without an effect.
    """
    began = f", {history.beginning}" if history.beginning else ""
    yield f"### {code(history.name)}"
    yield ""
    counts = "" if lines is None else f": {prose(summary(lines))}"
    yield f"{code(history.id[:SHORT_ID])}{began}{counts}"
    notes = [f"- **creation failed**: {code(history.failure)}"] if history.failure else []
    if history.real is not None:
        notes.append(
            f"- the spec that the runtime actually used, reported by event {history.real_event}"
        )
    doubt = filter(None, [history.doubt])
    notes += (f"- {prose(remark)}" for remark in (*doubt, *history.remarks))
    asked = history.without_effect if about is None else about
    notes += (f"- {prose(f'{wording.glyph(one)} {wording.request(one)}')}" for one in asked)
    items = [*notes, *(f"- {prose(line)}" for line in legend)]
    if items:
        yield ""
    yield from items
    yield ""
    yield from fenced(body)


def fenced(lines: Sequence[str]) -> Iterator[str]:
    """Yield lines as a code block, with a fence longer than any in the lines."""
    longest = max((len(run) for line in lines for run in _BACKTICKS.findall(line)), default=0)
    fence = "`" * max(3, longest + 1)
    yield f"{fence}text"
    yield from lines
    yield fence
