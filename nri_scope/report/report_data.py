# SPDX-License-Identifier: Apache-2.0
"""The content of a report as plain values. Nothing is escaped; all texts have limited lengths."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from nri_scope.events import Gap, Note, Session
from nri_scope.recording.query.coverage import Coverage
from nri_scope.recording.query.stats import Timing
from nri_scope.recording.reading.plugin_calls import MeasuredTimes

from .finding import Finding


@dataclass(frozen=True, slots=True)
class LeftOut:
    """The numbers of included items and of all items, if a limit omits some."""

    what: str
    """The kind of items in words, as in ``sessions``."""
    kept: int
    all: int


@dataclass(frozen=True, slots=True)
class ChainLink:
    """A place in the chain: a plugin, or the interval between two connections."""

    title: str
    """``NN-name``, or the two connections of the interval."""
    index: str
    known_by: str
    """The source of its name, in words; for an interval, the plugins in it."""
    passive: bool
    """Whether it is nri-scope's own connection, which changes nothing."""
    between: bool
    """Whether it is an interval of the chain, not a plugin."""
    events: int
    timing: Timing | None
    """The times; None if unknown, as in a chain with one passive connection."""
    has_deadline: bool = True
    """Whether its calls may have one, unlike those of NRI 0.1."""


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """One change of a container, or a request for one."""

    event: int
    kind: str
    """Kind of the change: ``added``, ``removed``, ``changed`` or ``moved``."""
    sign: str
    """Its sign, or that of a request which no evidence shows as a change."""
    path: str
    before: str
    after: str
    by: str
    """The owner, and the outcome of the request."""
    evidence: str
    """The evidence for the owner."""
    trouble: str
    """The outcome if it differs from the request, or another source's contradiction."""
    note: str


@dataclass(frozen=True, slots=True)
class Changed:
    """A container that was changed, or for which a change was requested."""

    id: str
    name: str
    created_event: int
    """The event of the creation; 0 if not seen."""
    failure: str
    rows: tuple[ChangeRow, ...]
    rows_in_all: int
    """Number of changes and other requests, including omitted ones."""
    changes: int
    """Number of those that evidence shows as changes."""
    remarks: tuple[str, ...] = ()
    """Limits of the evidence."""


class LaneMark(StrEnum):
    """Kind of a point in the timeline."""

    CALM = "calm"
    CHANGED = "changed"
    SLOW = "slow"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Lane:
    """The lifetime of a pod or container. Places are columns, from 0 to `limits.COLUMNS` - 1."""

    title: str
    is_pod: bool
    below: bool
    """Whether the lane of its pod is above it."""
    begin: int
    """Column of its first event; 0 if it already existed."""
    end: int
    """Column of its removal, or the last one."""
    runs: tuple[int, int] | None
    """Columns of its start and stop; None if it was not seen to run."""
    marks: tuple[tuple[int, LaneMark, str], ...]
    """Column, kind and text of its events."""


@dataclass(frozen=True, slots=True)
class ConnectedTime:
    """The columns in which a plugin was connected."""

    title: str
    spans: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Timeline:
    """The content of the timeline."""

    first_ns: int
    last_ns: int
    columns: int
    counts: tuple[int, ...]
    """Number of events in each column."""
    bad: tuple[int, ...]
    """Number of slow or failed events in each column."""
    gaps: tuple[tuple[int, int], ...]
    presences: tuple[ConnectedTime, ...]
    lanes: tuple[Lane, ...]


@dataclass(frozen=True, slots=True)
class Diagnosed:
    """The findings, and what they are about."""

    file: str
    """The file's name without its folders, whose names may reveal the author."""
    about: str
    """The report's subject in words; "" for the whole recording."""
    sessions: tuple[Session, ...]
    gaps: tuple[Gap, ...]
    """Gaps in what was observed."""
    omitted: int
    """Number of events that a part of a recording leaves out."""
    first_ns: int | None
    last_ns: int | None
    events: int
    """Number of events that the report covers."""
    findings: tuple[Finding, ...]
    coverage: Coverage
    """What the recording observed: problems at other times are not found."""
    sender_facts: tuple[tuple[str, str], ...]
    """What the sender of a bundle says of it: names and texts."""


@dataclass(frozen=True, slots=True)
class Facts(Diagnosed):
    """The whole content of a report."""

    tool: str
    runtimes: tuple[str, ...]
    lost: int
    """Number of events lost in gaps, without gaps of unknown size."""
    notes: tuple[Note, ...]
    pods: int
    containers: int
    by_event: tuple[tuple[str, int, int], ...]
    """Event name, number of events, number of errors; the most frequent first."""
    chain: tuple[ChainLink, ...]
    changed: tuple[Changed, ...]
    legend: tuple[str, ...]
    """Explanations of the owners and evidence in use."""
    timeline: Timeline | None
    """The timeline; None without events."""
    left_out: tuple[LeftOut, ...]
    measured: tuple[MeasuredTimes, ...] = ()
    """Calls of each plugin by the runtime's metrics, in a report of the whole recording."""
    redacted: bool = False
    """Whether the recording is redacted."""
