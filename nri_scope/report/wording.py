# SPDX-License-Identifier: Apache-2.0
"""Describe facts in words that several views share. Nothing is escaped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from nri_scope.differ.render.values import clipped
from nri_scope.events import Gap, Role, Session
from nri_scope.recording.query.coverage import Coverage
from nri_scope.recording.reading.records import rfc3339
from nri_scope.text.quantities import duration, first_names, many

from .finding import Finding, Level
from .limits import EVENTS_NAMED, WORDS_MAX
from .report_data import ChainLink, Facts, LeftOut

SECRETS = (
    "Values are shown as recorded, including environment variables and other secrets, unless the "
    "recording was redacted. Read this report before you share it, or create it with --redact."
)
REDACTED = (
    "Secret and personal values were replaced by tokens; values that match no redaction rule are "
    "shown as recorded. Read this report before you share it."
)


def no_changes(coverage: Coverage) -> str:
    """Say that no changes were observed, and what was not observed."""
    return f"{coverage.limited('No changes were observed')}."


def nothing_found(coverage: Coverage) -> str:
    """Say that there are no findings, and in which times there could be none."""
    if coverage.is_whole:
        return "No findings."
    return f"No findings in what was observed; {coverage.words}."


_LISTED_MAX = 6


def secrets_notice(facts: Facts) -> str:
    """Return the notice on secrets in the values that a report shows."""
    return REDACTED if facts.redacted else SECRETS


def utc(at_ns: int) -> str:
    """Format a time, to the second."""
    text = rfc3339(at_ns)
    return f"{text[:10]} {text[11:19]} UTC"


def shown_by(finding: Finding, time: Callable[[int], str] = utc) -> str:
    """Name the events of a finding, and the time of the first one: ``event 4 at TIME``,
    ``events 4, 8 and 12, the first at TIME``, ``events 4, 8, … and 980 more, the first at TIME``.
    """
    count = finding.event_count
    if not count:
        return ""
    time_text = "" if finding.at_ns is None else f"at {time(finding.at_ns)}"
    if count == 1:
        return f"event {finding.events[0]} {time_text}".rstrip()
    numbers = [str(event) for event in finding.events[:EVENTS_NAMED]]
    more = count - len(numbers)
    first, last = (numbers, f"{more:,} more") if more else (numbers[:-1], numbers[-1])
    return f"events {', '.join(first)} and {last}{', the first ' if time_text else ''}{time_text}"


def listed(names: Sequence[str]) -> str:
    """List the first few names."""
    return first_names([clipped(name, WORDS_MAX) for name in names], _LISTED_MAX)


def counted_levels(findings: Iterable[Finding]) -> list[tuple[Level, int]]:
    """Count the findings of each level, the worst first."""
    counts = Counter(finding.level for finding in findings)
    return [(level, counts[level]) for level in Level if counts[level]]


def period(facts: Facts) -> str:
    """Describe the period of the events: begin, end, and length."""
    if facts.first_ns is None or facts.last_ns is None:
        return "no events"
    begin, end = rfc3339(facts.first_ns), rfc3339(facts.last_ns)
    length = duration(max(0, facts.last_ns - facts.first_ns))
    until = end[11:19] if begin[:10] == end[:10] else f"{end[:10]} {end[11:19]}"
    return f"{begin[:10]} {begin[11:19]} to {until} UTC ({length})"


def ended(session: Session) -> str:
    """Describe when and why a session ended."""
    reason = clipped(session.end_reason, WORDS_MAX)
    if session.ended_ns is None:
        return reason or "still open, or its recorder was killed"
    return f"{rfc3339(session.ended_ns)[11:19]}{': ' if reason else ''}{reason}"


_ROLES: dict[str, str] = {
    Role.LOGGER: "passive connection",
    Role.PROBE: "passive probe",
    Role.TAP: "tapped plugin",
    Role.REPLAY: "replayed plugin",
    Role.SCENARIO: "scenario, not observed",
    Role.CRI: "answers of the CRI",
    Role.V01: "plugin of NRI 0.1",
}


def role(session: Session) -> str:
    """Describe the role of a session; an unknown role as recorded."""
    return _ROLES.get(session.role, clipped(session.role, WORDS_MAX))


def lost(gap: Gap) -> str:
    """Describe how many events a gap lost."""
    return "unknown" if gap.lost is None else f"{gap.lost:,}"


def left_out(omission: LeftOut) -> str:
    """Describe omissions: ``1,500 of 4,000 changes are included.``"""
    return f"{omission.kept:,} of {omission.all:,} {omission.what} are included."


def verdict(link: ChainLink) -> str:
    """Compare the times of a place in the chain with its deadline."""
    timing = link.timing
    if timing is None:
        return "not measured"
    if not timing.deadline_ns:
        return "deadline unknown" if link.has_deadline else "no deadline"
    if timing.over:
        return f"{timing.over:,} over the deadline"
    if timing.over_half:
        longest = min(100, 100 * timing.took.max // timing.deadline_ns)
        return f"{timing.over_half:,} over half the deadline, up to {longest} %"
    return "all within half the deadline"


def counted(changes: int, requests: int) -> str:
    """Return the number of changes, and of ``requests`` that are none: ``1 change, 2 others``."""
    others = requests - changes
    more = f", {many(others, 'other request')}" if others else ""
    return f"{many(changes, 'change')}{more}"
