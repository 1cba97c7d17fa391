# SPDX-License-Identifier: Apache-2.0
"""Find the events chosen by a selection, and their subjects."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from nri_scope.errors import THE_RECORDING, RecordingError, UsageError
from nri_scope.events import Session
from nri_scope.filter import Filter
from nri_scope.filter.fields import BY_NAME
from nri_scope.filter.tree import And, Is, Or
from nri_scope.nri.events import CONFIGURE, REGISTER, SYNCHRONIZE
from nri_scope.recording.query import lookup
from nri_scope.recording.query.coverage import range_words
from nri_scope.recording.reading.reader import Recording
from nri_scope.recording.reading.records import rfc3339
from nri_scope.recording.reading.row_pages import PAGE, ascending, is_among, newest_event, pages
from nri_scope.recording.reading.work_budget import OnShare, ignore_share

_MAX_CRITERION = 2_000
"""Maximum number of characters of a condition in words."""
_STATE = 2
_SCAN = (
    "SELECT id, session, pod_key, container_key, chosen, setup, at_ns, seq FROM ("
    "SELECT id, session, at_ns, seq, "
    "(SELECT pod FROM main.event AS raw WHERE raw.id = events.id) AS pod_key, "
    "(SELECT container FROM main.event AS raw WHERE raw.id = events.id) AS container_key, "
    "({condition}) AS chosen, "
    f"CASE WHEN mark <> '' THEN 0 WHEN method IN ('{REGISTER}', '{CONFIGURE}') THEN 1 "
    f"WHEN method = '{SYNCHRONIZE}' THEN {_STATE} ELSE 0 END AS setup "
    "FROM events WHERE id > ? ORDER BY id LIMIT ?)"
)


@dataclass(frozen=True, slots=True)
class Selection:
    """Conditions that a chosen event must all meet. Without conditions, all events are chosen."""

    where: Filter | None = None
    since_ns: int | None = None
    """Earliest wall clock time, inclusive."""
    until_ns: int | None = None
    """End of the wall clock time, exclusive."""
    pod: str = ""
    """``namespace/pod``: only events about this pod and its containers."""
    numbers: Sequence[int] | None = None
    """Numbers of events; unknown numbers are ignored."""
    namespaces: frozenset[str] = frozenset()
    """Only events of pods in these namespaces, and Synchronize as far as it lists such pods; also
    as context. Empty: all namespaces."""
    numbers_from: Mapping[str, str] = field(default_factory=dict[str, str])
    """The criteria by which ``numbers`` were found, by name; empty if one by one."""

    @property
    def is_all(self) -> bool:
        """Whether all events are chosen."""
        return (
            self.where is None
            and self.since_ns is None
            and self.until_ns is None
            and not self.pod
            and self.numbers is None
            and not self.namespaces
        )

    @property
    def own_events(self) -> Filter | None:
        """`where`, and only events of pods in `namespaces`: for what cannot reduce Synchronize."""
        if not self.namespaces:
            return self.where
        names = tuple(Is(BY_NAME["ns"], name, wild=False) for name in sorted(self.namespaces))
        node = Or(names) if self.where is None else And((self.where.root, Or(names)))
        return Filter(str(node), node)

    @property
    def criteria(self) -> dict[str, str]:
        """The conditions in words, by option or name. Not redacted."""
        texts: dict[str, str] = {}
        if self.where is not None:
            texts["--where"] = str(self.where)
        if self.since_ns is not None:
            texts["--since"] = rfc3339(self.since_ns)
        if self.until_ns is not None:
            texts["--until"] = rfc3339(self.until_ns)
        if self.pod:
            texts["--pod"] = self.pod
        if self.namespaces:
            texts["namespaces"] = ", ".join(sorted(self.namespaces))
        if self.numbers is not None:
            texts |= self.numbers_from or {"events": "selected individually"}
        return {name: text[:_MAX_CRITERION] for name, text in texts.items()}


class NothingSelectedError(UsageError):
    """A selection chooses no event of a recording."""


@dataclass(slots=True)
class Chosen:
    """The events that a selection chooses."""

    events: array[int] = field(default_factory=lambda: array("q"))
    """Numbers of the chosen events, ascending."""
    sessions: set[int] = field(default_factory=set)
    """Sessions of the chosen events."""
    times: array[int] = field(default_factory=lambda: array("q"))
    """Wall clock times of the chosen events in ns, without session setup, in any order."""
    known: Mapping[int, Session] = field(default_factory=dict)
    """All sessions; events of other sessions are ignored."""
    pods: dict[int, int] = field(default_factory=dict)
    """Keys of pods of chosen events, each with the last of these events."""
    containers: dict[int, int] = field(default_factory=dict)
    """The same for containers."""
    setup: list[tuple[int, int]] = field(default_factory=list)
    """All events of RegisterPlugin, Configure and Synchronize, with their sessions."""
    synchronized: array[int] = field(default_factory=lambda: array("q"))
    """Chosen Synchronize requests."""
    namespaces: frozenset[str] = frozenset()
    """See `Selection.namespaces`."""
    until: int = 0
    """The last event that could be read."""
    damage: RecordingError | None = None


def choose(source: Recording, selection: Selection, on_progress: OnShare = ignore_share) -> Chosen:
    """Apply a selection to every event. Raises UsageError, NothingSelectedError, RecordingError."""
    known = {session.id: session for session in source.sessions()}
    chosen = Chosen(known=known, namespaces=selection.namespaces)
    numbers = None if selection.numbers is None else ascending(selection.numbers)
    newest = newest_event(source)
    try:
        condition, values = _condition(source, selection)
        rows = chain.from_iterable(pages(source, _SCAN.format(condition=condition), *values))
        for count, row in enumerate(rows):
            number, session, pod, container, passes, setup, at_ns, _ = row
            if number is None or session is None:
                continue
            chosen.until = number
            if setup:
                chosen.setup.append((number, session))
            if count % PAGE == 0:
                on_progress(number / max(newest, number))
            if not passes or session not in chosen.known:
                continue
            if numbers is not None and not is_among(numbers, number):
                continue
            chosen.events.append(number)
            chosen.sessions.add(session)
            if pod is not None:
                chosen.pods[pod] = number
            if container is not None:
                chosen.containers[container] = number
            if not setup and at_ns is not None:
                chosen.times.append(at_ns)
            if setup == _STATE:
                chosen.synchronized.append(number)
    except RecordingError as error:
        if not chosen.events:
            raise
        chosen.damage = error
    if not chosen.events:
        raise NothingSelectedError(
            f"no event in {THE_RECORDING} is selected",
            f"{range_words(source)}; list its events with `log`",
            source.path,
        )
    return chosen


def _condition(source: Recording, selection: Selection) -> tuple[str, list[str | int]]:
    conditions = ["1"]
    values: list[str | int] = []
    if selection.where is not None:
        text, filter_values = selection.where.to_sql()
        conditions.append(f"({text})")
        values += filter_values
    if selection.since_ns is not None:
        conditions.append("at_ns >= ?")
        values.append(selection.since_ns)
    if selection.until_ns is not None:
        conditions.append("at_ns < ?")
        values.append(selection.until_ns)
    if selection.namespaces:
        places = ", ".join("?" * len(selection.namespaces))
        conditions.append(f"(namespace IN ({places}) OR method = '{SYNCHRONIZE}' AND mark = '')")
        values += sorted(selection.namespaces)
    if selection.pod:
        conditions.append("namespace = ? AND pod = ?")
        namespace, _, name = selection.pod.partition("/")
        _check_pod(source, selection.pod)
        values += [namespace, name]
    return " AND ".join(conditions), values


def _check_pod(source: Recording, name: str) -> None:
    if any(lookup.pod_name(pod) == name for pod in source.pods()):
        return
    # An unknown name raises a more precise error here.
    lookup.find(source, name)
    raise UsageError(f'"{name}" is not a pod', "use NAMESPACE/POD")
