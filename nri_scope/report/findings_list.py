# SPDX-License-Identifier: Apache-2.0
"""Render the findings alone: as text, and as one JSON object."""

from __future__ import annotations

from collections.abc import Iterator

from nri_scope.nri.plain import Plain
from nri_scope.nri.versions import runtime_remark
from nri_scope.recording.display import left_out_words, runtime
from nri_scope.recording.reading.records import SCHEMA_VERSION, rfc3339
from nri_scope.text.quantities import many, moment
from nri_scope.text.styled_text import Layout, LayoutPart, Style

from . import wording
from .finding import Finding, Level
from .report_data import Diagnosed

_STYLES = {Level.PROBLEM: Style.BAD, Level.WARNING: Style.WARN, Level.NOTE: Style.NOTE}


def text(facts: Diagnosed, *, width: int | None) -> Iterator[str]:
    """Yield the lines of all findings, the runtimes without rules here, and a summary."""
    layout = Layout(width)
    for name, fact in facts.sender_facts:
        yield from layout.sentence(f"{name}: {fact}", 0)
    yield from [""] if facts.sender_facts else []
    for finding in facts.findings:
        yield from _finding(finding, layout)
        yield ""
    connections = (session for session in facts.sessions if session.is_connection)
    unknown = [session for session in connections if runtime_remark(session.runtime_name)]
    for name in dict.fromkeys(map(runtime, unknown)):
        yield from layout.sentence(f"runtime: {name}", 0)
    yield from layout.sentence(_summary(facts), 0)


def _finding(finding: Finding, layout: Layout) -> Iterator[str]:
    level = LayoutPart(finding.level, _STYLES[finding.level])
    yield from layout.parts([level, LayoutPart(finding.title, Style.STRONG)], 0, 2)
    yield from layout.sentence(finding.detail, 2)
    events = wording.shown_by(finding, moment)
    if events:
        yield from layout.sentence(f"see {events}", 2)
    if finding.containers:
        yield from layout.sentence(f"about {wording.listed(finding.containers)}", 2)
    for bug in finding.bugs:
        yield from layout.sentence(bug.sentence, 2)
    yield from layout.sentence(f"→ {finding.advice}", 2, Style.DIM)


def _summary(facts: Diagnosed) -> str:
    prefix = f"{facts.about or facts.file}: "
    events = many(facts.events, "event")
    if facts.omitted:
        events += f" ({left_out_words(facts.omitted)})"
    counts = ", ".join(many(count, name) for name, count in wording.counted_levels(facts.findings))
    sentence = facts.coverage.limited(f"{prefix}{counts or 'No findings'} in {events}")
    return f"{sentence}{'' if counts else '.'}"


def document(facts: Diagnosed) -> dict[str, Plain]:
    """Return the findings as plain values for JSON."""
    return {
        "schema_version": SCHEMA_VERSION,
        "about": facts.about,
        "events": facts.events,
        "first": None if facts.first_ns is None else rfc3339(facts.first_ns),
        "last": None if facts.last_ns is None else rfc3339(facts.last_ns),
        "gaps": len(facts.gaps),
        "left_out": facts.omitted,
        "coverage": facts.coverage.record(),
        "bundle": dict(facts.sender_facts),
        "findings": [finding.record() for finding in facts.findings],
    }
