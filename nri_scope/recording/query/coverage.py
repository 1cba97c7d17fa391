# SPDX-License-Identifier: Apache-2.0
"""What a recording observed of a time, and what it did not, with the reasons.

That there are no events about something says something only where events were observed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from heapq import heappop, heappush
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import NamedTuple

from nri_scope.errors import RecordingError, nearest_words
from nri_scope.events import FILTERED, LEFT_OUT, NO_SESSION, Container, Gap, Pod, Session
from nri_scope.filter import Filter
from nri_scope.filter.fields import BY_NAME, FieldKind, FilterField
from nri_scope.filter.sql import condition
from nri_scope.filter.tree import And, Is, Node, Or, Word, quote
from nri_scope.nri.events import EventKind, events_in, mask_of
from nri_scope.nri.plain import Plain
from nri_scope.nri.versions import NriVersion, valid_mask
from nri_scope.specs.path_labels import label
from nri_scope.text.quantities import clock, many

from ..reading.reader import Recording
from ..reading.records import rfc3339
from ..reading.sessions import OBSERVING, known_end
from ..reading.sqlite_errors import query_rows
from .event_times import span_words, time_span
from .subject_queries import life_of

BEFORE = "before a recorder connected"
AFTER = "after the end of the recording"
UNSUBSCRIBED = "not subscribed"
SYNCHRONIZING = "between Configure and the end of Synchronize"
UNSYNCHRONIZED = "Synchronize was never complete"
CREATED_EARLIER = "its creation was earlier"
CHANGING = mask_of((EventKind.CreateContainer, EventKind.UpdateContainer))
"""Events in which plugins can make changes."""

_ANY = 1
"""Mask in place of 0: any event suffices."""

_CLOSING_NS = 1_000_000_000
"""Maximum time between the ends of connections that end together, with the runtime or recorder."""
_LISTED = 3
"""Maximum number of intervals that are listed."""


class Unobserved(NamedTuple):
    """An interval that was not observed, or only partly."""

    from_ns: int
    to_ns: int
    """Equal to `from_ns` for a moment from which on events are missing."""
    why: str

    @property
    def words(self) -> str:
        """The interval with its reason."""
        span = clock(self.from_ns) if self.to_ns else "all of it"
        if self.to_ns > self.from_ns:
            span += f" to {clock(self.to_ns)}"
        return f"{span} ({self.why})"

    def record(self) -> dict[str, Plain]:
        """Return the interval as a record for JSON."""
        return {"from": rfc3339(self.from_ns), "to": rfc3339(self.to_ns), "why": self.why}


@dataclass(frozen=True, slots=True)
class Coverage:
    """What was observed of the time from ``from_ns`` to ``to_ns``."""

    from_ns: int
    to_ns: int
    unobserved: tuple[Unobserved, ...]
    """Ascending, without overlaps."""

    @property
    def is_whole(self) -> bool:
        """Whether everything was observed."""
        return not self.unobserved

    @property
    def words(self) -> str:
        """The intervals that were not observed, as ``not observed: …``; "" if there are none."""
        if self.is_whole:
            return ""
        listed = ", ".join(interval.words for interval in self.unobserved[:_LISTED])
        more = len(self.unobserved) - _LISTED
        suffix = f" and {many(more, 'more interval')}" if more > 0 else ""
        return f"not observed: {listed}{suffix}"

    def stopped(self, at_ns: int, why: str) -> Coverage:
        """Return this coverage with nothing observed from a time on."""
        at_ns = max(at_ns, self.from_ns)
        before = (interval for interval in self.unobserved if interval.from_ns < at_ns)
        observed = tuple(interval._replace(to_ns=min(interval.to_ns, at_ns)) for interval in before)
        stop = Unobserved(at_ns, max(at_ns, self.to_ns), why)
        return replace(self, unobserved=(*observed, stop))

    def limited(self, nothing: str) -> str:
        """Add to a statement that there is nothing what was not observed."""
        return nothing if self.is_whole else f"{nothing}; {self.words}"

    def record(self) -> dict[str, Plain]:
        """Return the coverage as a record for JSON."""
        unobserved: list[Plain] = [interval.record() for interval in self.unobserved]
        return {"from": rfc3339(self.from_ns), "to": rfc3339(self.to_ns), "unobserved": unobserved}


NOTHING = Coverage(0, 0, ())
"""Coverage of a recording without sessions."""


class _Connection(NamedTuple):
    """An observing session, with its times in ns."""

    id: int
    began: int
    synchronized: int
    """`ended` if it never was."""
    ended: int
    observed: int
    """Mask of the events that it observes while it is connected."""


def coverage_of(
    sessions: Iterable[Session],
    gaps: Sequence[Gap],
    from_ns: int,
    to_ns: int,
    last_ns: int,
    mask: int = 0,
) -> Coverage:
    """Return what sessions observed of a time.

    ``gaps``: all of the recording, also those between its sessions. ``last_ns``: the last time at
    which an open session is known to have observed. ``mask``: the events, all of which matter;
    0 for any.
    """
    connections = [_connection(session, last_ns, mask) for session in _observing(sessions)]
    moments = tuple(
        Unobserved(gap.from_ns, gap.to_ns, gap.reason)
        for gap in gaps
        if gap.from_ns == gap.to_ns and from_ns <= gap.from_ns <= to_ns
    )
    lasting = [gap for gap in gaps if gap.from_ns < gap.to_ns]
    unobserved = [*_swept(connections, lasting, from_ns, to_ns, mask or _ANY), *moments]
    return Coverage(from_ns, to_ns, tuple(sorted(unobserved)))


def _observing(sessions: Iterable[Session]) -> list[Session]:
    """Return the connections at a node; without any, those of a replay or a scenario."""
    connections = [session for session in sessions if session.is_connection]
    return [session for session in connections if session.role in OBSERVING] or connections


def _connection(session: Session, last_ns: int, mask: int) -> _Connection:
    began, ended = session.started_ns, session.ended_ns
    if ended is None:
        ended = max(began, last_ns)
    synchronized = ended if session.synced_ns is None else max(began, session.synced_ns)
    # Events that this version of NRI does not have cannot happen. A mask of 0 means all.
    possible = valid_mask(NriVersion.parse(session.nri_version)) if session.mask else 0
    observed = mask & ~(possible & ~session.mask) if mask else _ANY
    return _Connection(session.id, began, min(synchronized, ended), ended, observed)


class _State:
    """The connections and gaps at a moment."""

    def __init__(self, mask: int) -> None:
        self.synchronizing: dict[int, str] = {}
        self._mask = mask
        self._observing: dict[int, int] = {}
        """Masks of the observing sessions."""
        self._interrupted: Counter[int | None] = Counter()
        """Number of gaps by session; None: gaps of all sessions."""
        self._uninterrupted = dict.fromkeys(events_in(mask), 0)
        """Number of the sessions without a gap that observe each event."""
        self._left_out = 0
        """Number of gaps that stand for events omitted from a part of a recording."""
        self._gaps: dict[int, Gap] = {}
        self._newest: list[tuple[bool, int, int]] = []
        """Heap of gaps that began, those of all sessions first; they may have ended since."""

    def synchronize(self, session: int, observed: int) -> None:
        """End the Synchronize of a session."""
        self.synchronizing.pop(session, None)
        self._observing[session] = observed
        self._count(session, not self._interrupted[session])

    def end(self, session: int) -> None:
        """End a session."""
        self.synchronizing.pop(session, None)
        self._count(session, -(not self._interrupted[session]))
        self._observing.pop(session, None)

    def begin_gap(self, number: int, gap: Gap) -> None:
        """Begin a gap."""
        if gap.is_left_out:
            self._left_out += 1
            return
        self._gaps[number] = gap
        heappush(self._newest, (gap.session is not None, -gap.from_ns, number))
        self._change(gap, 1)

    def end_gap(self, number: int, gap: Gap) -> None:
        """End a gap."""
        if gap.is_left_out:
            self._left_out -= 1
        else:
            self._change(self._gaps.pop(number), -1)

    def _change(self, gap: Gap, by: int) -> None:
        was_free = not self._interrupted[gap.session]
        self._interrupted[gap.session] += by
        self._count(gap.session, (not self._interrupted[gap.session]) - was_free)

    def _count(self, session: int | None, by: int) -> None:
        observed = 0 if session is None else self._observing.get(session, 0)
        for event in self._uninterrupted if by else ():
            self._uninterrupted[event] += by if observed & event.bit else 0

    def reason(self, otherwise: str) -> str:
        """Return why not all is observed; "" if connections observe all."""
        missing = [event.name for event, count in self._uninterrupted.items() if not count]
        if not missing and not self._interrupted[None]:
            return LEFT_OUT if self._left_out else ""
        while self._newest and self._newest[0][2] not in self._gaps:
            heappop(self._newest)
        if self._newest:
            return self._gaps[self._newest[0][2]].reason
        if self._observing:
            names = f" to {' and '.join(missing)}" if len(self._uninterrupted) > 1 else ""
            return f"{UNSUBSCRIBED}{names}"
        return next(iter(self.synchronizing.values()), otherwise)


def _swept(
    connections: Sequence[_Connection], gaps: Sequence[Gap], from_ns: int, to_ns: int, mask: int
) -> Iterator[Unobserved]:
    """Yield the intervals in which connections did not observe all, ascending."""
    state = _State(mask)
    edges: dict[int, list[Callable[[], object]]] = {from_ns: [], to_ns: []}

    def at(at_ns: int, change: Callable[[], object]) -> None:
        edges.setdefault(at_ns, []).append(change)

    for connection in connections:
        why = UNSYNCHRONIZED if connection.synchronized == connection.ended else SYNCHRONIZING
        at(connection.began, partial(state.synchronizing.__setitem__, connection.id, why))
        at(connection.synchronized, partial(state.synchronize, connection.id, connection.observed))
        at(connection.ended, partial(state.end, connection.id))
    for number, gap in enumerate(gaps):
        at(gap.from_ns, partial(state.begin_gap, number, gap))
        at(gap.to_ns, partial(state.end_gap, number, gap))
    first = min((connection.began for connection in connections), default=inf)
    last = max((connection.ended for connection in connections), default=inf)
    current = Unobserved(from_ns, from_ns, "")
    for at_ns, next_ns in pairwise(sorted(edges)):
        for change in edges[at_ns]:
            change()
        low, high = max(at_ns, from_ns), min(next_ns, to_ns)
        if low >= high:
            continue
        why = state.reason(BEFORE if at_ns < first else AFTER if at_ns >= last else NO_SESSION)
        if current.why == why:
            current = current._replace(to_ns=high)
            continue
        if current.why:
            yield current
        current = Unobserved(low, high, why)
    if current.why:
        yield current


def coverage(
    recording: Recording, from_ns: int | None = None, to_ns: int | None = None, mask: int = 0
) -> Coverage:
    """Return what a recording observed of a time, by default from the end of the first Synchronize.

    ``mask``: the events, all of which matter; 0 for any. Raises RecordingError.
    """
    sessions, gaps, notes = recording.sessions(), recording.gaps(), recording.notes()
    span = time_span(recording)
    times = [time for session in sessions for time in (session.started_ns, session.ended_ns or 0)]
    times += [] if span is None else [span.first_ns, span.last_ns]
    times += [note.at_ns for note in notes] + [gap.to_ns for gap in gaps]
    last_ns = max(times, default=0)
    # By time: a copy may have the note before the session.
    filters = {note.at_ns: note.text for note in notes if note.text.startswith(FILTERED)}
    # The last ones, so that any other reason comes first.
    gaps += [
        Gap(0, session.id, began_ns, int(min(known_end(session), last_ns)), text, None)
        for session in sessions
        if (text := filters.get(began_ns := session.started_ns))
    ]
    observing = _observing(sessions)
    # No question concerns the time before the first connection had learnt what exists.
    began = [max(session.started_ns, session.synced_ns or 0) for session in observing]
    ended = [last_ns if session.ended_ns is None else session.ended_ns for session in observing]
    first, last = min(began, default=last_ns), max(ended, default=last_ns)
    together = max(last - _CLOSING_NS, 0 if span is None else span.last_ns)
    last = min((end for end in ended if end > together), default=last)
    low = first if from_ns is None else from_ns
    high = last if to_ns is None else to_ns
    if from_ns is not None and from_ns == to_ns:
        return Coverage(low, high, ())
    if high <= low:
        # The limits exclude all of the recording.
        at_ns, why = (high, BEFORE) if from_ns is None else (low, AFTER)
        return Coverage(at_ns, at_ns, (Unobserved(at_ns, at_ns, why),))
    return coverage_of(sessions, gaps, low, high, last_ns, mask)


def life_coverage(recording: Recording, subject: Pod | Container) -> Coverage:
    """Return what was observed of a pod or container: of its creation, also if it was earlier, and
    of possible changes of containers until its removal. Raises RecordingError.
    """
    created, first_ns, removed = life_of(recording, subject)
    mask = CHANGING | (EventKind.RunPodSandbox.bit if isinstance(subject, Pod) else 0)
    observed = coverage(recording, first_ns, removed, mask)
    if created or first_ns is None:
        return observed
    earlier = Unobserved(observed.from_ns, observed.from_ns, CREATED_EARLIER)
    since = (interval for interval in observed.unobserved if interval.why != BEFORE)
    return replace(observed, unobserved=(earlier, *since))


def with_unobserved(outcome: str, path: Path, began_ns: int) -> str:
    """Add to the outcome of a recorder what its sessions, those since a time, did not observe."""
    unobserved = _unobserved_since(path, began_ns)
    return f"{outcome}; {unobserved}" if unobserved else outcome


def _unobserved_since(path: Path, began_ns: int) -> str:
    try:
        with Recording.open(path) as recording:
            own = [session for session in recording.sessions() if session.started_ns >= began_ns]
            began = [max(session.started_ns, session.synced_ns or 0) for session in _observing(own)]
            return coverage(recording, min(began)).words if began else ""
    except RecordingError as error:
        return f"what was observed is not known: {error.problem}"


def range_words(
    recording: Recording,
    times: tuple[int | None, int | None] = (None, None),
    where: Filter | None = None,
) -> str:
    """Say for a selection without a match which times have events, and which were not observed.

    A value in the filter that no event has comes first.

    ``times``: of the selection, in ns; None for no limit. Raises RecordingError.
    """
    names = None if where is None else where.events
    mask = 0 if names is None else mask_of(event for event in EventKind if event.name in names)
    # Connections to a node rarely validate, and most filters do not mean it.
    mask = mask & ~EventKind.ValidateContainerAdjustment.bit or mask
    observed = coverage(recording, *times, mask)
    text = observed.limited(span_words(time_span(recording)))
    unmatched = unmatched_words(recording, where)
    return f"{unmatched}; {text}" if unmatched else text


# -- filters without a match ----------------------------------------------------------------------

_COMPARED_MAX = 5_000
"""Maximum number of values that are compared for a suggestion, each in about 20 µs."""
_EXAMINED_MAX = 100_000
"""Maximum number of events whose values are compared."""
_TEXTS = (FieldKind.NAME, FieldKind.PLUGIN, FieldKind.PATH)


def unmatched_words(recording: Recording, where: Filter | None) -> str:
    """Name the first value that no event has, with similar ones; "" if there is none.

    Raises RecordingError.
    """
    for term in () if where is None else _terms(where.root):
        match term:
            case Word(text) if text.partition("=")[0] in BY_NAME and "=" in text:
                name, _, value = text.partition("=")
                return f'"{text}" is searched in names; did you mean {name}:{quote(value)}?'
            case Is(field, text, wild=False) if field.kind in _TEXTS and text:
                sql, parameters = condition(term)
                query = f"SELECT 1 FROM events WHERE {sql} LIMIT 1"
                if not query_rows(recording, query, *parameters):
                    similar = _similar(text, _values(recording, field))
                    meant = " or ".join(f"{field.name}:{quote(value)}" for value in similar)
                    return f"no event has {term}" + (f"; did you mean {meant}?" if meant else "")
            case _:
                pass
    return ""


def _terms(node: Node) -> Iterator[Node]:
    """Yield the terms of a filter that are not negated."""
    match node:
        case And(items) | Or(items):
            for item in items:
                yield from _terms(item)
        case Is() | Word():
            yield node
        case _:
            pass


def _values(recording: Recording, field: FilterField) -> list[str]:
    """Return distinct values of a field, as they are shown."""
    some = f"(SELECT {field.columns[0]} AS value FROM events LIMIT {_EXAMINED_MAX})"
    source = f"{some} AS some, json_each(some.value) AS item" if field.many else f"{some} AS item"
    query = f"SELECT DISTINCT item.value FROM {source} LIMIT {_COMPARED_MAX}"
    values = [str(value) for (value,) in query_rows(recording, query)]
    return [*map(label, values)] if field.kind is FieldKind.PATH else values


def _similar(text: str, values: list[str]) -> list[str]:
    """Return the shortest value that contains ``text``, or else the most similar ones."""
    containing = [value for value in values if text.lower() in value.lower()]
    if containing:
        return [min(containing, key=len)]
    return nearest_words(text, values, _LISTED, cutoff=0.5)
