# SPDX-License-Identifier: Apache-2.0
"""Write the responses of an agent to one local recording, with the node's numbers of events.

While a recorder replaces another one, both record the same events, in two recordings. The copy has
them once, of the new recorder.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from betterproto2 import Message

from nri_scope._gen.agent.nri_scope.agent import v1
from nri_scope.entries import Began, Ended, RecordedCall
from nri_scope.errors import RemoteProtocolError
from nri_scope.events import EVENT_TEXTS, Event, Gap, Note, Printed, Session
from nri_scope.recorder.complete_recording import CompleteRecording
from nri_scope.share.agent_messages import entry_of

_INT_MAX = 2**63 - 1
ITEMS_MAX = 1_000_000
"""Maximum number of sessions, gaps, notes and lines of output of one copy."""
COPY_MAX = 16 << 30
"""Maximum number of bytes of a copy."""
_TEXT_MAX = 64 << 10
"""Maximum length of a name or reason."""
_LONG_TEXTS = frozenset({*EVENT_TEXTS, "text"})
SESSIONS_BYTES_MAX = 64 << 20
"""Maximum number of bytes of the descriptions of sessions, which stay in memory."""
_UNWRITTEN_MAX = 4 << 20
"""Number of bytes after which a transaction is written."""
_Source = tuple[str, int]
"""A recording of the node: its name, and the time of its first event."""
RENUMBERED = (
    "its recordings overlap in time, so events of this view have numbers of their own, which other "
    "views do not accept"
)
TWIN_NS = 3 * 10**9
"""Maximum time between two recorders' requests about the same event."""
_HELD_MAX, _HELD_BYTES = 1_000, 64 << 20
"""Maximum number of events that wait for their twins, and of bytes of their messages."""
_OPEN_MAX = 100
"""Maximum number of open sessions whose events are compared."""
_RECENT_MAX, _TWINS_MAX = 20_000, 50
"""Maximum number of different events whose twins are expected, and of equal ones."""


def _twin_of(event: Event) -> int:
    """Return a hash of what the records of one event by two recorders have in common."""
    return hash((event.plugin, event.event, event.pod_id, event.container_id, event.size))


@dataclass(slots=True)
class _Observer:
    """An open session. Another session may observe the same events."""

    source: _Source
    plugin: str
    since_ns: int | None
    """Time from which it observes events; None before the first one if unknown."""

    @property
    def began_ns(self) -> int:
        """Time of the first event of its recording."""
        return self.source[1] or _INT_MAX


class _Overlap:
    """Events of recorders of which one replaces the other, until it is known which are the same.

    Those of the newer recording are written, as it goes on; so numbers ascend. Those that only the
    older recording has are written after `TWIN_NS`.
    """

    def __init__(self) -> None:
        self._open: dict[int, _Observer] = {}
        """By number of the session."""
        self._held: deque[RecordedCall | Ended] = deque()
        """In the order of their arrival; an end comes after the events of its session."""
        self._held_bytes = 0
        self._recent: dict[int, list[tuple[int, _Source]]] = {}
        """Times and recordings of written events of which another recording may have twins."""

    def begin(self, session: Session, source: _Source) -> None:
        """Note a session."""
        if len(self._open) >= _OPEN_MAX:
            del self._open[next(iter(self._open))]
        self._open[session.id] = _Observer(source, session.plugin, session.synced_ns)

    def end(self, ended: Ended) -> bool:
        """Note the end of a session; return whether it must wait for events of the session."""
        number = ended.session.id
        self._open.pop(number, None)
        calls = (entry for entry in self._held if isinstance(entry, RecordedCall))
        waits = any(call.event.session == number for call in calls)
        if waits:
            self._held.append(ended)
        return waits

    def holds(self, call: RecordedCall, session: Session, source: _Source) -> bool:
        """Return whether an event is to be written later, or never, as it was written already."""
        event, twin = call.event, _twin_of(call.event)
        if session.id not in self._open:
            self.begin(session, source)
        observer = self._open[session.id]
        if observer.since_ns is None:
            observer.since_ns = event.at_ns
        others = [
            entry
            for entry in self._open.values()
            if entry.plugin == event.plugin and entry.source != source
        ]
        if not others:
            return False
        oldest_ns = event.at_ns - TWIN_NS
        written = [entry for entry in self._recent.get(twin, ()) if entry[0] >= oldest_ns]
        for entry in written:
            if entry[1] != source:
                written.remove(entry)
                self._recent[twin] = written
                return True
        others = [entry for entry in others if (entry.since_ns or _INT_MAX) <= event.at_ns]
        if any(entry.began_ns > observer.began_ns for entry in others):
            self._held.append(call)
            self._held_bytes += len(call.request) + len(call.reply)
            return True
        for waiting in self._held:
            if isinstance(waiting, RecordedCall) and _twin_of(waiting.event) == twin:
                self._held.remove(waiting)
                self._held_bytes -= len(waiting.request) + len(waiting.reply)
                return False
        if others:
            self._recent[twin] = [*written[-_TWINS_MAX:], (event.at_ns, source)]
        if len(self._recent) > _RECENT_MAX:
            items = self._recent.items()
            new = {twin: rows for twin, rows in items if rows and rows[-1][0] >= oldest_ns}
            self._recent = {} if len(new) > _RECENT_MAX // 2 else new
        return False

    def released(self, now_ns: int | None) -> Iterator[RecordedCall | Ended]:
        """Yield what has waited long enough at a time on the node; None: everything."""
        while self._held:
            first = self._held[0]
            if isinstance(first, RecordedCall):
                is_early = now_ns is not None and first.event.at_ns > now_ns - TWIN_NS
                if is_early and len(self._held) < _HELD_MAX and self._held_bytes < _HELD_BYTES:
                    return
                self._held_bytes -= len(first.request) + len(first.reply)
            yield self._held.popleft()


class LocalCopy:
    """Writer of one or more recordings of a node as one recording.

    Events have the numbers that the agent sends, and are in the order of their times. If recordings
    overlap and are not of recorders that replace each other, these contradict each other: then
    numbers are counted on. Numbers of sessions are counted on. Entries that are
    sent again after an interruption are written once, as are equal notes.
    """

    def __init__(
        self,
        recording: CompleteRecording,
        on_renumbered: Callable[[], None] = lambda: None,
        *,
        is_view: bool = False,
    ) -> None:
        """``on_renumbered`` is called when an event gets another number than on the node.

        ``is_view``: whether all that readers ask about was selected, so that nothing is left out.
        """
        self._is_view = is_view
        self._recording = recording
        self._on_renumbered: Callable[[], None] | None = on_renumbered
        self._sources: dict[str, _Source] = {}
        """By name, the newest: another recording may take its place."""
        self._sessions: dict[tuple[_Source, int], int] = {}
        self._begun: dict[int, Session] = {}
        self._ended: set[int] = set()
        self._written_hashes: set[int] = set()
        """Hashes of the gaps, notes and lines of output that were written."""
        self._last_session = 0
        self._bytes = self._unwritten = self._session_bytes = 0
        self._newest: dict[_Source, int] = {}
        """Newest event of each recording, by the agent's number."""
        self._last_event = 0
        self._overlap = _Overlap()
        self.events = 0
        """Number of events written."""

    def add(self, response: v1.GetEventsResponse) -> None:
        """Write the content of a response.

        Raises RemoteProtocolError for a response that no agent sends, and RecordingError.
        """
        self._count(response)
        match entry_of(response):
            case RecordedCall() as exchange if response.event is not None:
                self._event(response.event.recording, exchange)
            case Began(session) if response.session is not None:
                self._session(response.session, session)
            case Ended(session) if response.session_end is not None:
                number = self._session_number_or_none(response.session_end.recording, session.id)
                if number is not None and number not in self._ended:
                    ended = Ended(replace(session, id=number))
                    if not self._overlap.end(ended):
                        self._end(ended)
            case Gap(is_left_out=True) if self._is_view:
                pass
            case Gap() as gap if response.gap is not None:
                content = gap.from_ns, gap.to_ns, gap.reason
                self._put_once(response.gap.recording, gap, content)
            case Note() as note if response.note is not None:
                self._put_once(response.note.recording, note, (note.at_ns, note.text))
            case Printed() as line if response.output is not None:
                name = response.output.recording
                number = self._session_number(name, line.session)
                key = line.session, line.id, line.at_ns
                if self._is_new(name, *key, line.stream, line.text):
                    self._recording.put(replace(line, session=number))
            case _:
                pass

    def flush(self, now_ns: int | None = None) -> None:
        """Make everything that was added visible to readers.

        ``now_ns``: time on the node until which everything was added; None if no more follows.
        """
        self._release(now_ns)
        self._recording.flush()

    def _release(self, now_ns: int | None) -> None:
        for entry in self._overlap.released(now_ns):
            if isinstance(entry, Ended):
                self._end(entry)
            else:
                self._write(entry)

    def _end(self, ended: Ended) -> None:
        self._ended.add(ended.session.id)
        self._recording.put(ended)

    def _source(self, recording: str) -> _Source:
        return self._sources.get(recording, (recording, 0))

    def _put_once(self, recording: str, entry: Gap | Note, content: tuple[object, ...]) -> None:
        if self._is_new(recording, entry.session, *content):
            number = self._session_number_or_none(recording, entry.session)
            self._recording.put(replace(entry, session=number))

    def _is_new(self, recording: str, *item: object) -> bool:
        number = hash((self._source(recording), *item))
        if number in self._written_hashes:
            return False
        if len(self._written_hashes) >= ITEMS_MAX:
            raise RemoteProtocolError(f"it sent more than {ITEMS_MAX:,} gaps, notes and lines")
        self._written_hashes.add(number)
        return True

    def _count(self, response: v1.GetEventsResponse) -> None:
        size = _size(response)
        self._bytes += size
        self._unwritten += size
        if self._bytes > COPY_MAX:
            raise RemoteProtocolError(f"it sent more than {COPY_MAX >> 30} GiB")
        if self._unwritten > _UNWRITTEN_MAX:
            self._unwritten = 0
            self._recording.flush()

    def _session_number(self, recording: str, session: int) -> int:
        number = self._sessions.get((self._source(recording), session))
        if number is None:
            raise RemoteProtocolError(f"session {session} was not described")
        return number

    def _session_number_or_none(self, recording: str, session: int | None) -> int | None:
        if session is None:
            return None
        return self._sessions.get((self._source(recording), session))

    def _session(self, message: v1.Session, session: Session) -> None:
        source = message.recording, message.recording_began_ns
        self._sources[message.recording] = source
        key = source, session.id
        if key in self._sessions:
            return
        number = max(session.id, self._last_session + 1)
        if number > _INT_MAX:
            raise RemoteProtocolError(f"session number {number} is out of range")
        self._session_bytes += 500 + _size(message)
        if len(self._sessions) >= ITEMS_MAX or self._session_bytes > SESSIONS_BYTES_MAX:
            limits = f"{ITEMS_MAX:,} sessions or {SESSIONS_BYTES_MAX >> 20} MiB of session data"
            raise RemoteProtocolError(f"more than {limits}")
        self._last_session = self._sessions[key] = number
        self._begun[number] = replace(session, id=number)
        self._overlap.begin(self._begun[number], source)
        self._recording.put(Began(self._begun[number]))

    def _event(self, recording: str, exchange: RecordedCall) -> None:
        event = exchange.event
        session = self._session_number(recording, event.session)
        source = self._source(recording)
        if event.id <= self._newest.get(source, 0):
            return
        self._newest[source] = event.id
        if event.id >= _INT_MAX:
            raise RemoteProtocolError(f"event number {event.id} is out of range")
        outcome = exchange.outcome
        if outcome is not None:
            ended = self._session_number_or_none(recording, outcome.session) or 0
            outcome = outcome._replace(session=ended)
        exchange = replace(exchange, event=replace(event, session=session), outcome=outcome)
        self._release(event.at_ns)
        if not self._overlap.holds(exchange, self._begun[session], source):
            self._write(exchange)

    def _write(self, exchange: RecordedCall) -> None:
        event, outcome = exchange.event, exchange.outcome
        if event.session in self._ended:
            # The node's recorder was killed, and its successor goes on with the session.
            self._ended.discard(event.session)
            self._recording.put(Began(self._begun[event.session]))
        self.events += 1
        number = max(event.id, self._last_event + 1)
        if number != event.id:
            if self._on_renumbered is not None:
                self._on_renumbered()
                self._on_renumbered = None
            event = replace(event, id=number)
            # With the numbers of this recording.
            outcome = None if outcome is None else outcome._replace(event=0)
        self._last_event = number
        self._recording.put(replace(exchange, event=event, outcome=outcome))


def _size(value: object, name: str = "") -> int:
    """Return the number of bytes and characters of a message. Raises RemoteProtocolError."""
    if isinstance(value, Message):
        return sum(_size(content, field) for field, content in vars(value).items())
    if isinstance(value, list):
        return sum(_size(item, name) for item in value)
    if isinstance(value, str) and len(value) > _TEXT_MAX and name not in _LONG_TEXTS:
        raise RemoteProtocolError(f"{name} has more than {_TEXT_MAX:,} characters")
    return len(value) if isinstance(value, str | bytes) else 0
