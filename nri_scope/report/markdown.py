# SPDX-License-Identifier: Apache-2.0
"""Render the report as GitHub's Markdown for an issue: within its size limit, with folded details.

Text of a recording becomes harmless prose or code, never a heading, a link, a mention, a reference
or HTML.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from nri_scope.differ.render.values import clipped
from nri_scope.recording.display import left_out_words
from nri_scope.recording.reading.records import rfc3339
from nri_scope.text.escape import code, prose, safe
from nri_scope.text.quantities import deadline, duration, many

from . import wording
from .finding import Finding, Level
from .limits import MARKDOWN_MAX, WORDS_MAX
from .report_data import ChainLink, Changed, ChangeRow, Facts

_VALUE_MAX = 160
"""Maximum length of a value, in characters; HTML has longer values."""
_CONTAINERS_MAX = 6
"""Maximum number of containers listed in a finding."""
_RESERVED = 1_200
"""Number of characters reserved for the list of omitted parts."""
_LINKED = re.compile(r"\bGH-[0-9]|\b[0-9a-f]{7,40}\b|[@#]")
"""Text that GitHub turns into a link in prose: references to issues and commits, mentions."""
_MARKS = {Level.PROBLEM: "🔴", Level.WARNING: "🟠", Level.NOTE: "🔵"}


@dataclass(slots=True)
class _Block:
    """Lines that are included or omitted together."""

    lines: list[str]
    what: str
    """The content of the block in words, for the list of omitted parts."""

    @property
    def size(self) -> int:
        return sum(len(line) + 1 for line in self.lines)


def markdown(facts: Facts, most: int = MARKDOWN_MAX) -> str:
    """Return the text, of at most ``most`` characters."""
    head = [*_head(facts)]
    foot = [*_foot(facts)]
    room = most - _RESERVED - sum(len(line) + 1 for line in (*head, *foot))
    lines, missing = list(head), dict[str, int]()
    for section in _sections(facts):
        begun = False
        for block in section.blocks:
            # The first block also needs room for the section's heading.
            needed = block.size + (0 if begun else len(section.title) + 8)
            if needed > room:
                missing[block.what] = missing.get(block.what, 0) + 1
                continue
            room -= needed
            if not begun:
                begun = True
                lines += ["", f"### {section.title}", ""]
            lines += block.lines
    if missing:
        omitted = ", ".join(f"{count:,} × {what}" for what, count in missing.items())
        lines += ["", f"**Omitted for lack of space:** {omitted}. The HTML report contains them."]
    text = "\n".join(_squeezed([*lines, *foot])) + "\n"
    # A safeguard: the sizes of blocks already respect the limit.
    return text if len(text) <= most else text[:most]


@dataclass(slots=True)
class _Section:
    title: str
    blocks: list[_Block]


def _sections(facts: Facts) -> Iterator[_Section]:
    """Yield the sections, the most important first."""
    findings = [_Block(_finding(finding), "finding") for finding in facts.findings]
    yield _Section(
        "Findings",
        findings or [_Block([_escaped(wording.nothing_found(facts.coverage))], "findings")],
    )
    yield _Section("The chain", [_Block([*_chain(facts)], "chain of plugins")])
    if facts.measured:
        times = _table("plugins", _measured_rows(facts))
        yield _Section("Calls by the runtime's metrics", [_Block(times, "list of plugins")])
    yield _Section(
        "Changes by container",
        [_Block(_changed(container), "container's changes") for container in facts.changed]
        or [_Block([_escaped(wording.no_changes(facts.coverage))], "changes")],
    )
    if facts.legend:
        yield _Section(
            "Legend",
            [_Block([f"- {_escaped(text)}" for text in facts.legend], "legend")],
        )
    if facts.gaps:
        rows = [
            ["from (UTC)", "to", "events lost", "reason"],
            *(
                [rfc3339(gap.from_ns), rfc3339(gap.to_ns), wording.lost(gap), _escaped(gap.reason)]
                for gap in facts.gaps
            ),
        ]
        yield _Section("Gaps", [_Block(_table("gaps", rows), "list of gaps")])
    if facts.notes:
        notes = [f"- {rfc3339(note.at_ns)[:19]} {_escaped(note.text)}" for note in facts.notes]
        yield _Section("Notes", [_Block(notes, "list of notes")])
    yield _Section(
        "Sessions", [_Block(_table("sessions", _session_rows(facts)), "list of sessions")]
    )


def _head(facts: Facts) -> Iterator[str]:
    yield f"## NRI report: {_escaped(facts.about) if facts.about else code(facts.file)}"
    yield ""
    for name, text in facts.sender_facts:
        yield f"- {name}: {_escaped(text)}"
    runtimes = ", ".join(map(_escaped, facts.runtimes)) or "unknown"
    yield f"- runtime: {runtimes}"
    yield f"- {wording.period(facts)}"
    lost = f", {many(facts.lost, 'event')} lost in gaps" if facts.gaps else ""
    yield (
        f"- {many(facts.events, 'event')} of {many(facts.pods, 'pod')} and "
        f"{many(facts.containers, 'container')}{lost}"
    )
    if facts.omitted:
        yield f"- {left_out_words(facts.omitted)}"
    if facts.about:
        yield f"- of {code(facts.file)}"
    yield ""


def _foot(facts: Facts) -> Iterator[str]:
    yield ""
    yield "---"
    yield ""
    for part in facts.left_out:
        yield f"- {wording.left_out(part)}"
    yield ""
    yield f"<sub>{wording.secrets_notice(facts)}</sub>"
    yield ""
    yield f"<sub>Written by {prose(facts.tool)}. All times are UTC.</sub>"


def _finding(finding: Finding) -> list[str]:
    events = wording.shown_by(finding)
    suffix = f" ({events})" if events else ""
    lines = [f"- {_MARKS[finding.level]} **{finding.level}** {_escaped(finding.title)}{suffix}"]
    if finding.containers:
        more = len(finding.containers) - _CONTAINERS_MAX
        names = ", ".join(code(_cut(name)) for name in finding.containers[:_CONTAINERS_MAX])
        lines.append(f"  - about {names}{f' and {more:,} more' if more > 0 else ''}")
    # The advice and known bugs are trusted text, with code in backticks.
    known = [f"  - {bug.sentence}" for bug in finding.bugs]
    return [*lines, f"  - {_escaped(finding.detail)}", *known, f"  - → {finding.advice}"]


def _measured_rows(facts: Facts) -> list[list[str]]:
    head = ["plugin", "calls", "errors", "mean", "recorded", "recorded mean"]
    return [
        head,
        *(
            [
                code(_cut(times.plugin)),
                f"{times.calls:,}",
                f"{times.errors:,}",
                duration(times.mean_ns),
                f"{times.recorded:,}" if times.recorded else "",
                duration(times.recorded_mean_ns) if times.recorded else "",
            ]
            for times in facts.measured
        ),
    ]


def _chain(facts: Facts) -> Iterator[str]:
    rows = [["plugin", "known by", "events", "median", "99 %", "longest", "of the deadline"]]
    rows += [_link(link) for link in facts.chain]
    yield "In call order. Configure and Synchronize are not counted."
    yield ""
    yield from _table("places in the chain", rows)


def _link(link: ChainLink) -> list[str]:
    title = _escaped(link.title) if link.between else code(_cut(link.title))
    cells = [title, _escaped(link.known_by)]
    timing = link.timing
    if timing is None:
        return [*cells, "", "", "", "", wording.verdict(link)]
    limit = f"{deadline(timing.deadline_ns)}: " if timing.deadline_ns else ""
    times = map(duration, (timing.took.p50, timing.took.p99, timing.took.max))
    return [*cells, f"{timing.count:,}", *times, f"{limit}{wording.verdict(link)}"]


def _changed(container: Changed) -> list[str]:
    created = f", created by event {container.created_event}" if container.created_event else ""
    count = wording.counted(container.changes, container.rows_in_all)
    lines: list[str] = []
    if container.failure:
        lines.append(f"- **not created**: {code(container.failure)}")
    lines += [f"- {_escaped(text)}" for text in container.remarks]
    if container.rows:
        lines += ["", "| | path | before | after | by | known by |", "|---|---|---|---|---|---|"]
        lines += map(_row, container.rows)
        lines.append("")
        for row in container.rows:
            for text in filter(None, (row.trouble, row.note)):
                lines.append(f"- {code(row.path)}: {_escaped(text)}")
    more = container.rows_in_all - len(container.rows)
    if more:
        lines.append(f"- {more:,} more changes or requests are omitted")
    name = "<code>" + _html(_cut(container.name)) + "</code>"
    return _folded(f"{name}{created}: {count}", lines)


def _row(row: ChangeRow) -> str:
    cells = (
        code(row.sign),
        code(row.path),
        code(clipped(row.before, _VALUE_MAX)),
        code(clipped(row.after, _VALUE_MAX)),
        _escaped(row.by),
        f"{_escaped(row.evidence)}, event {row.event}",
    )
    return f"| {' | '.join(cells)} |"


def _session_rows(facts: Facts) -> list[list[str]]:
    rows = [["no.", "plugin", "role", "started (UTC)", "ended"]]
    for session in facts.sessions:
        began, ended = rfc3339(session.started_ns)[:19], _escaped(wording.ended(session))
        rows += [[str(session.id), code(_cut(session.plugin)), wording.role(session), began, ended]]
    return rows


def _table(what: str, rows: list[list[str]]) -> list[str]:
    lines = [f"| {' | '.join(row)} |" for row in rows]
    lines.insert(1, "|" + "---|" * len(rows[0]))
    count = len(rows) - 1
    return _folded(f"{count:,} {what}", lines) if count > 12 else [*lines, ""]


def _escaped(text: str) -> str:
    """Escape a sentence that may quote untrusted text."""
    text = _cut(text)
    return code(text) if _LINKED.search(text) else prose(text)


def _cut(text: str) -> str:
    return clipped(text, WORDS_MAX)


def _html(text: str) -> str:
    """Escape text for an HTML summary, which is not parsed as Markdown."""
    return "".join(
        c if c.isascii() and (c.isalnum() or c in "/-_.") else f"&#{ord(c)};" for c in safe(text)
    )


def _folded(summary: str, lines: Sequence[str]) -> list[str]:
    """Return lines in a collapsed block. ``summary`` must be trusted text."""
    # GitHub parses the content as HTML unless blank lines surround it.
    return ["", f"<details><summary>{summary}</summary>", "", *lines, "", "</details>", ""]


def _squeezed(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines without leading and repeated blank lines."""
    blank = True
    for line in lines:
        if line or not blank:
            yield line
        blank = not line
