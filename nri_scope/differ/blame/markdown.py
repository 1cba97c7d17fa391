# SPDX-License-Identifier: Apache-2.0
"""A container's lines as Markdown, to be pasted into an issue."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from nri_scope.recording.display import SHORT_ID

from ..attribution.attributed_changes import PluginRequest
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
    about: Sequence[PluginRequest] | None = None,
) -> Iterator[str]:
    """Yield the Markdown. `body`: the text between head and legend, unbroken and without colour.

    `about`: which of the requests not simply carried out to list; None for all.
    """
    began = f", {history.beginning}" if history.beginning else ""
    yield f"### {code(history.name)}"
    yield ""
    told = "" if lines is None else f": {prose(summary(lines))}"
    yield f"{code(history.id[:SHORT_ID])}{began}{told}"
    said = [f"- **creation failed**: {code(history.failure)}"] if history.failure else []
    if history.real is not None:
        said.append(
            f"- the spec that the runtime really used, reported by event {history.real_event}"
        )
    doubt = filter(None, [history.doubt])
    said += (f"- {prose(remark)}" for remark in (*doubt, *history.remarks))
    unnoted = wording.unnoted(history.asked if about is None else about, history.steps)
    said += (f"- {prose(f'{wording.FATES[one.fate]}: {wording.request(one)}')}" for one in unnoted)
    yield from _listed(said)
    yield ""
    yield from fenced(body)
    yield from _listed([f"- {prose(line)}" for line in legend])


def fenced(lines: Sequence[str]) -> Iterator[str]:
    """Yield lines as a block of code, with a fence longer than any in the lines."""
    longest = max((len(run) for line in lines for run in _BACKTICKS.findall(line)), default=0)
    fence = "`" * max(3, longest + 1)
    yield f"{fence}text"
    yield from lines
    yield fence


def _listed(items: Sequence[str]) -> Iterator[str]:
    if items:
        yield ""
    yield from items
