# SPDX-License-Identifier: Apache-2.0
"""The content of a report, as plain values. Nothing is escaped, and no text exceeds a limit."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from nri_scope.differ.latency import Timing
from nri_scope.events import Gap, Note, Session

from .finding import Finding


@dataclass(frozen=True, slots=True)
class LeftOut:
    """The number of items beyond a report's limit."""

    what: str
    """In words, as in ``sessions``."""
    kept: int
    all: int


@dataclass(frozen=True, slots=True)
class Troubled:
    """A slow or failing event."""

    event: int
    at_ns: int
    name: str
    subject: str
    kind: Mark
    words: str


@dataclass(frozen=True, slots=True)
class Link:
    """A place in the chain: a plugin, or what lies between two connections."""

    title: str
    """``NN-name``; or who may be there."""
    index: str
    known_by: str
    """How it is known to be there, in words."""
    passive: bool
    """Ours, which changes nothing."""
    between: bool
    """No plugin but an interval of the chain."""
    events: int
    timing: Timing | None
    """None where nothing shows it: of a chain with one passive connection, for instance."""


@dataclass(frozen=True, slots=True)
class Row:
    """One change of a container."""

    event: int
    kind: str
    """``added``, ``removed``, ``changed`` or ``moved``."""
    path: str
    before: str
    after: str
    by: str
    """Who made it."""
    evidence: str
    """How that is known."""
    trouble: str
    """What became of it where that is not what was asked for, or what another source says."""
    note: str


@dataclass(frozen=True, slots=True)
class Changed:
    """A container that was changed, or of which that was requested."""

    id: str
    name: str
    created_event: int
    """0: not seen."""
    failure: str
    rows: tuple[Row, ...]
    requests: tuple[tuple[str, str], ...]
    """What plugins asked for and was not simply carried out: its fate, and a sentence."""
    rows_in_all: int
    remarks: tuple[str, ...] = ()
    """What limits the evidence."""


class Mark(StrEnum):
    """The kind of a point in the drawing. The later ones win where several fall on one place."""

    CALM = "calm"
    CHANGED = "changed"
    SLOW = "slow"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Lane:
    """The life of a pod or container. Places are columns, from 0 to `limits.COLUMNS`."""

    title: str
    is_pod: bool
    below: bool
    """Its pod stands above it."""
    begin: int
    """Where it was seen first."""
    end: int
    """Where it was removed, or the recording ends."""
    begins_before: bool
    """It existed already."""
    ends: bool
    """False where it was still there at the end, as far as is known."""
    runs: tuple[int, int] | None
    """From its start to its end."""
    marks: tuple[tuple[int, Mark, str], ...]
    """Place, kind and words of its events."""


@dataclass(frozen=True, slots=True)
class Presence:
    """The times at which connections of one plugin existed."""

    title: str
    spans: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Timeline:
    """The content of the drawing."""

    first_ns: int
    last_ns: int
    columns: int
    counts: tuple[int, ...]
    """Events in each column."""
    bad: tuple[int, ...]
    """Those among them that were slow or failed."""
    gaps: tuple[tuple[int, int], ...]
    presences: tuple[Presence, ...]
    lanes: tuple[Lane, ...]


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that a report contains."""

    file: str
    """The name of the file alone: folders may reveal its author."""
    about: str
    """What of the recording it is about; "" for all."""
    tool: str
    runtimes: tuple[str, ...]
    sessions: tuple[Session, ...]
    gaps: tuple[Gap, ...]
    lost: int
    """Events that gaps lost, where it is known how many."""
    notes: tuple[Note, ...]
    first_ns: int | None
    last_ns: int | None
    events: int
    """Those that the report is about."""
    pods: int
    containers: int
    by_event: tuple[tuple[str, int, int], ...]
    """Name, how many, how many of them not answered well; the most frequent first."""
    chain: tuple[Link, ...]
    changed: tuple[Changed, ...]
    legend: tuple[str, ...]
    """What the words of evidence mean, for those that occur."""
    troubles: tuple[Troubled, ...]
    findings: tuple[Finding, ...]
    timeline: Timeline | None
    """None where nothing happened."""
    left_out: tuple[LeftOut, ...]
    redacted: bool = False
    """It is of a recording that was redacted for it."""
