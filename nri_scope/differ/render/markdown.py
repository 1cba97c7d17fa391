# SPDX-License-Identifier: Apache-2.0
"""Render rounds as Markdown for an issue: a heading per container, a table per event."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from nri_scope.recording.display import many
from nri_scope.recording.records import rfc3339
from nri_scope.specs import Change, label
from nri_scope.text.escape import safe

from ..attribution.attributed_changes import ChangeStep, NameOf, RoundDiff
from ..render import wording
from .values import place, sides
from .wording import Legend

_NO_SUBJECT = "Events without a container or pod"
HEADINGS = ("", "path", "before", "after")
"""The headings of `change_cells`."""


class MarkdownRenderer:
    """A `Renderer` of Markdown: by container at the end or, with ``live``, round by round."""

    def __init__(self, *, live: bool, quiet_unchanged: bool) -> None:
        self.changed = False
        self._live = live
        self._quiet = quiet_unchanged
        self._legend = Legend()
        self._containers: dict[str, list[str]] = {}
        self._names: dict[str, str] = {}
        self._calm: list[str] = []
        self._left_out = 0
        self._last: str | None = None
        self._blank = True
        """Whether the last line was blank; a second blank line is dropped."""

    def head(self, title: str, details: Sequence[str] = ()) -> Iterator[str]:
        """Yield the title, and the details as a list."""
        yield from self._tidy((prose(title), "", *(f"- {prose(one)}" for one in details), ""))

    def round(self, diff: RoundDiff, name_of: NameOf) -> Iterator[str]:
        """Yield the round's lines with ``live``; otherwise store them for `end`."""
        yield from self._tidy(self._round(diff, name_of))

    def end(self) -> Iterator[str]:
        """Yield the stored rounds, and the legend."""
        yield from self._tidy(self._end())

    def _tidy(self, lines: Iterable[str]) -> Iterator[str]:
        for line in lines:
            if line or not self._blank:
                yield line
            self._blank = not line

    def _round(self, diff: RoundDiff, name_of: NameOf) -> Iterator[str]:
        self.changed = self.changed or wording.changes_anything(diff)
        if wording.calm(diff) and not (self._live and diff.settled):
            if self._quiet:
                self._left_out += 1
            else:
                line = f"- {_opening(diff)} {code(wording.subject(diff, name_of))}: no change seen"
                if self._live:
                    yield line
                else:
                    self._calm.append(line)
            return
        self._legend.add_round(diff, live=self._live)
        lines = _round(diff, name_of, live=self._live)
        if not self._live:
            self._names[diff.container] = _heading(diff, name_of)
            self._containers.setdefault(diff.container, []).extend(lines)
            return
        if self._last != diff.container:
            self._last = diff.container
            yield from ("", _heading(diff, name_of), "")
        yield from lines

    def _end(self) -> Iterator[str]:
        for container, lines in self._containers.items():
            yield from (self._names[container], "", *lines)
        if self._calm:
            summary = f"{many(len(self._calm), 'operation')} without observed changes"
            yield from folded(summary, self._calm)
        if not self._containers and not self._live:
            yield "No change seen."
        if self._left_out:
            yield from ("", f"Operations: {wording.left_out(self._left_out)}.")
        explained = self._legend.lines()
        if explained:
            yield from ("", "Legend:", "")
            yield from (f"- {prose(line)}" for line in explained)


def change_cells(change: Change, glyph: str = "") -> tuple[str, str, str, str]:
    """Return glyph, path and the values before and after, as table cells.

    ``glyph``: a sign in place of that of the kind of change.
    """
    before, after = sides(change)
    position, glyph = "", glyph or wording.GLYPHS[change.kind]
    if glyph == wording.GLYPHS["added"] and change.position is not None:
        position = f" (as the {place(change.position)})"
    return (
        code(glyph),
        code(label(change.path)),
        code(before),
        f"{code(after)}{position}",
    )


def changes_table(changes: Sequence[Change]) -> list[str]:
    """Return a table of changes without owners."""
    return table(HEADINGS, map(change_cells, changes), "changes")


def _heading(diff: RoundDiff, name_of: NameOf) -> str:
    subject = wording.subject(diff, name_of)
    return f"### {code(subject)}" if subject else f"### {_NO_SUBJECT}"


def _opening(diff: RoundDiff) -> str:
    return f"**{prose(wording.title(diff))}** (event {diff.event}, {rfc3339(diff.at_ns)})"


def _round(diff: RoundDiff, name_of: NameOf, *, live: bool) -> list[str]:
    lines = [_opening(diff), ""]
    lines += (f"- {name}{_names(plugins)}" for name, plugins in wording.chain(diff))
    if diff.missed_by:
        lines.append(f"- not seen by {_names(diff.missed_by)}")
    if diff.failure:
        lines.append(f"- **failed**: {code(diff.failure)}")
    lines += (f"- {prose(each)}" for each in (*filter(None, [diff.doubt]), *diff.remarks))
    if diff.own:
        lines += _steps(diff.own, diff.failure)
    for container, steps in wording.by_container(diff.side_effects):
        prefix, name = wording.place_beside(diff, container, name_of)
        lines += ["", f"{prefix.capitalize()}{code(name)}:", *_steps(steps, diff.failure)]
    if live and diff.settled:
        lines += ["", "Outcome of earlier requests:", *_steps(diff.settled, diff.failure)]
    for one in filter(wording.slow, diff.spans):
        lines.append(f"- **slow**: {prose(wording.slow_span(one))}")
    if times := wording.times(diff.spans):
        lines.append(f"- time: {prose(times)}")
    return [*lines, ""]


def _names(plugins: Sequence[str]) -> str:
    return ", ".join(map(code, plugins))


def _steps(steps: Sequence[ChangeStep], failure: str) -> list[str]:
    rows = [
        (
            *change_cells(step.change, wording.glyph(step)),
            prose(wording.owner(step.owner)),
            prose(wording.sources(step.evidence)),
            prose(wording.outcome(step)),
        )
        for step in steps
    ]
    lines = table((*HEADINGS, "by", "evidence", "outcome"), rows, "requests and changes")
    for step in steps:
        for _, text in wording.details(step, failure):
            lines.append(f"- {code(label(step.change.path))}: {prose(text.removeprefix('! '))}")
    return lines


_UNFOLDED_MAX = 20
"""Maximum number of rows of a table that is not folded."""
_HARMLESS = re.compile(r"(?![0-9]+[.)])[A-Za-z0-9(][A-Za-z0-9 ,;()'\u2013\u2192\u00b5.:+-]*\Z")
"""Prose without Markdown syntax, links, mentions and references."""
_LINK = re.compile(r"www\.|https?:", re.IGNORECASE)


def code(text: str) -> str:
    """Return `text` as a code span that is valid in a line and in a table cell; "" for no text."""
    text = safe(text)
    if not text:
        return ""
    if text.strip() == text and not {"`", "|"} & set(text):
        return f"`{text}`"
    # Parsers split a table at every bar first, and differ in the treatment of "\\|". So every
    # character that may have a meaning in Markdown becomes a character reference.
    return f"<code>{''.join(c if c.isalnum() else f'&#{ord(c)};' for c in text)}</code>"


def prose(text: str) -> str:
    """Return a sentence with untrusted quotes: unchanged if harmless, otherwise as code."""
    text = safe(text)
    return text if _HARMLESS.match(text) and not _LINK.search(text) else code(text)


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], what: str) -> list[str]:
    """Return a table, folded if it is long. The cells must be escaped already.

    The summary of a folded table is the number of rows and ``what``, as in "25 changes".
    """
    lines = [_row(headings), "|".join(["", *("---" for _ in headings), ""])]
    lines += map(_row, rows)
    count = len(lines) - 2
    return folded(f"{count:,} {what}", lines) if count > _UNFOLDED_MAX else ["", *lines, ""]


def folded(summary: str, lines: Sequence[str]) -> list[str]:
    """Return lines in a collapsed block. ``summary`` must be trusted text."""
    # GitHub parses the content as HTML unless blank lines surround it.
    return ["", f"<details><summary>{summary}</summary>", "", *lines, "", "</details>", ""]


def squeezed(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines without leading and repeated blank lines."""
    blank = True
    for line in lines:
        if line or not blank:
            yield line
        blank = not line


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
