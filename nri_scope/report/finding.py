# SPDX-License-Identifier: Apache-2.0
"""Findings: problems in a recording, with evidence and advice."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import Enum, StrEnum

from nri_scope.doctor.known_bugs import KnownBug, known_bugs
from nri_scope.nri.plain import Plain
from nri_scope.recording.reading.records import rfc3339

from .limits import EVENTS_KEPT


class Level(StrEnum):
    """Severity of a finding."""

    PROBLEM = "problem"
    """An event or a plugin failed."""
    WARNING = "warning"
    """A failure is likely, or probably happened."""
    NOTE = "note"
    """Not an error, but a condition in which plugins have failed."""


class FindingKind(StrEnum):
    """Kind of a finding, with its meaning for help texts. The values are part of the JSON."""

    meaning: str

    def __new__(cls, value: str, meaning: str = "") -> FindingKind:
        """Return the kind with this value."""
        kind = str.__new__(cls, value)
        kind._value_, kind.meaning = value, meaning
        return kind

    CRASH = "runtime-crash", "an update of a container at which iSulad ended"
    DEADLINE = "deadline", "a plugin that came close to its deadline, or exceeded it"
    DISCONNECTED = "disconnected", "a plugin that disconnected, and containers created without it"
    CONFLICT = "conflict", "two plugins that set the same field of a container that failed"
    FAILED = "failed", "errors of plugins, rejections, and containers that failed to start"
    REQUIRED = "required-plugin", "containers created without a plugin that their pod requires"
    DROPPED = "dropped", "requests that the runtime did not apply"
    REPLACED = "replaced", "values of plugins that an update by the CRI replaced"
    DUPLICATE = "duplicate-name", "two plugins with the same name"
    MISSED = "missed-around-synchronize", "containers of which a plugin was never notified"
    ORDER = "order", "an unusual order of events, or of plugins"
    UNOBSERVED = "not-observed", "lost or unread events, which may hide other findings"


_VIEWS = "(blame|diff|log|missing|report|show|tui)"
_VIEW = re.compile(rf"`(?:nri-scope {_VIEWS}\b(?! --live)(?: FILE)?|{_VIEWS} FILE)")
_OTHER_COMMAND = re.compile(r"`nri-scope replay\b")


class CommandStyle(Enum):
    """Whose commands advice names."""

    FILE = "nri-scope"
    CLUSTER = "kubectl nri-scope"

    def words(self, text: str) -> str:
        """Return a text, which names commands on a FILE, with the commands of this style."""
        if self is CommandStyle.FILE:
            return text
        result = _VIEW.sub(lambda match: f"`{self.value} {match[1] or match[2]}", text)
        pulled = f" `{self.value} pull` makes a FILE." if _OTHER_COMMAND.search(text) else ""
        return result + pulled


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem in a recording. Texts may quote the recording; nothing is escaped."""

    kind: FindingKind
    level: Level
    title: str
    """One sentence with the problem and its subject, without a full stop."""
    detail: str
    """The evidence and its meaning, in sentences."""
    advice: str
    """The recommended action, with commands on a FILE unless `with_commands` for others."""
    events: tuple[int, ...] = ()
    """Ids of the first events that show the finding, ascending."""
    event_count: int = 0
    """Number of all events that show the finding."""
    containers: tuple[str, ...] = ()
    """Names of the first affected containers or pods."""
    at_ns: int | None = None
    """Time of the first event; None without events."""
    known: tuple[str, ...] = ()
    """Names of the known bugs of runtimes that this shows, or may show."""

    @property
    def bugs(self) -> tuple[KnownBug, ...]:
        """The known bugs of runtimes that this shows, or may show."""
        return tuple(known_bugs()[name] for name in self.known)

    def with_commands(self, commands: CommandStyle) -> Finding:
        """Return the finding with commands that its reader has for this recording."""
        return replace(self, advice=commands.words(self.advice))

    def record(self) -> dict[str, Plain]:
        """Return the finding as plain values for JSON."""
        values = asdict(self)
        at_ns = values.pop("at_ns")
        values["known"] = [bug.record() for bug in self.bugs]
        return {**values, "at": None if at_ns is None else rfc3339(at_ns)}


class FindingEvents:
    """Collector of the first events that show one finding, and of their number."""

    __slots__ = ("_first", "_newest", "containers", "count")

    def __init__(self) -> None:
        self._first: dict[int, None] = {}
        self._newest: tuple[int, ...] = ()
        self.count = 0
        self.containers: dict[str, None] = {}

    @property
    def events(self) -> tuple[int, ...]:
        """Ids of the first events, ascending."""
        return tuple(sorted(self._first))

    def add(self, *events: int, container: str = "") -> None:
        """Add events, without duplicates, and the name of their subject."""
        for event in events:
            # A duplicate is among the first events, or in the newest call.
            if event in self._first or event in self._newest:
                continue
            self.count += 1
            if len(self._first) < EVENTS_KEPT:
                self._first[event] = None
        self._newest = events
        if container and len(self.containers) < EVENTS_KEPT:
            self.containers[container] = None

    def finding(
        self, kind: FindingKind, level: Level, title: str, detail: str, advice: str
    ) -> Finding:
        """Return a finding that these events show."""
        containers = tuple(self.containers)
        return Finding(kind, level, title, detail, advice, self.events, self.count, containers)


@dataclass(slots=True)
class FindingText:
    """The words of a finding, and the events that show it."""

    title: str
    detail: str
    advice: str
    events: FindingEvents = field(default_factory=FindingEvents)

    def finding(self, kind: FindingKind, level: Level) -> Finding:
        """Return the finding."""
        return self.events.finding(kind, level, self.title, self.detail, self.advice)


def capital(text: str) -> str:
    """Return a text with a capital first letter."""
    return f"{text[:1].upper()}{text[1:]}"


def ranked(findings: Sequence[Finding]) -> list[Finding]:
    """Sort findings by level, the worst first, then by kind and first event."""
    levels, kinds = list(Level), list(FindingKind)

    def rank(finding: Finding) -> tuple[int, int, tuple[int, ...]]:
        return levels.index(finding.level), kinds.index(finding.kind), finding.events[:1]

    return sorted(findings, key=rank)
