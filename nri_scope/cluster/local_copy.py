# SPDX-License-Identifier: Apache-2.0
"""Write what an agent sends as a recording on this machine."""

from __future__ import annotations

from betterproto2 import Message

from nri_scope._gen.agent.nri_scope.agent import v1
from nri_scope.errors import RemoteProtocolError
from nri_scope.events import NO_ID, Role, SessionStart, Tapped
from nri_scope.recorder.complete_recording import CompleteRecording, call_of, start_of
from nri_scope.recorder.inbox import Begin, End, EventFacts, GapEntry, NoteEntry, PluginLine, Reopen
from nri_scope.recording.creation_outcomes import Outcome, outcome_of

_INT_MAX = 2**63 - 1
_ITEMS_MAX = 1_000_000
"""Maximum number of sessions, gaps, notes and lines of output of one copy."""
COPY_MAX = 16 << 30
"""Maximum number of bytes of a copy."""
_TEXT_MAX = 64 << 10
"""Maximum length of a name or reason."""
_LONG_TEXTS = frozenset({"status_message", "text"})
_SESSIONS_BYTES_MAX = 64 << 20
"""Maximum number of bytes of the descriptions of sessions, which stay in memory."""
_UNWRITTEN_MAX = 4 << 20
"""Number of bytes after which a transaction is written."""
_Source = tuple[str, int]
"""A recording of the node: its name, and the time of its first event."""


class LocalCopy:
    """Writer of one or more recordings of a node as one recording.

    Numbers of events and sessions are those of the node, if it has one recording; else they are
    counted on. What is sent again after an interruption is written once, as are equal notes.
    """

    def __init__(self, recording: CompleteRecording) -> None:
        self._recording = recording
        self._sources: dict[str, _Source] = {}
        """By name, the newest: another recording may take its place."""
        self._sessions: dict[tuple[_Source, int], int] = {}
        self._starts: dict[int, SessionStart] = {}
        self._ended: set[int] = set()
        self._met: set[int] = set()
        """Hashes of gaps, notes and output."""
        self._last_session = 0
        self._bytes = self._unwritten = self._session_bytes = 0
        self._newest: dict[_Source, int] = {}
        """Newest event of each recording, by the agent's number."""
        self._last_event = 0
        self.events = 0
        """Number of events written."""

    def add(self, response: v1.GetEventsResponse) -> None:
        """Write the content of a response.

        Raises RemoteProtocolError for a response that no agent sends, and RecordingError.
        """
        self._count(response)
        if response.event is not None:
            self._event(response.event)
        elif response.session is not None:
            self._session(response.session)
        elif response.session_end is not None:
            self._end(response.session_end)
        elif response.gap is not None:
            self._gap(response.gap)
        elif response.note is not None:
            note = response.note
            session = self._optional(note.recording, note.session)
            if self._is_new(note.recording, note.session, note.at_ns, note.text):
                self._recording.put(NoteEntry(session, note.at_ns, note.text))
        elif response.output is not None:
            line = response.output
            session = self._known(line.recording, line.session)
            place = line.session, line.id, line.at_ns
            if self._is_new(line.recording, *place, line.stream, line.text):
                self._recording.put(PluginLine(session, line.at_ns, line.stream, line.text))

    def flush(self) -> None:
        """Make everything that was added visible to readers."""
        self._recording.flush()

    def _source(self, recording: str) -> _Source:
        return self._sources.get(recording, (recording, 0))

    def _is_new(self, recording: str, *item: object) -> bool:
        number = hash((self._source(recording), *item))
        if number in self._met:
            return False
        if len(self._met) >= _ITEMS_MAX:
            raise RemoteProtocolError(f"it sent more than {_ITEMS_MAX:,} gaps, notes and lines")
        self._met.add(number)
        return True

    def _count(self, response: v1.GetEventsResponse) -> None:
        size = _size(response)
        self._bytes += size
        self._unwritten += size
        if self._bytes > COPY_MAX:
            raise RemoteProtocolError(f"it sent more than {COPY_MAX >> 30} GiB")
        if self._unwritten > _UNWRITTEN_MAX:
            self._unwritten = 0
            self.flush()

    def _known(self, recording: str, session: int) -> int:
        number = self._sessions.get((self._source(recording), session))
        if number is None:
            raise RemoteProtocolError(f"session {session} was not described")
        return number

    def _optional(self, recording: str, session: int | None) -> int | None:
        if session is None:
            return None
        return self._sessions.get((self._source(recording), session))

    def _session(self, session: v1.Session) -> None:
        source = session.recording, session.recording_began_ns
        self._sources[session.recording] = source
        key = source, session.id
        if key in self._sessions:
            return
        if session.role not in list(Role):
            raise RemoteProtocolError(f"role {session.role[:80]!r} is unknown")
        number = max(session.id, self._last_session + 1)
        self._session_bytes += 500 + _size(session)
        is_full = len(self._sessions) >= _ITEMS_MAX or self._session_bytes > _SESSIONS_BYTES_MAX
        if number > _INT_MAX or is_full:
            raise RemoteProtocolError(f"session {number:,} is one too many")
        self._last_session = self._sessions[key] = number
        start = start_of(session)
        self._starts[number] = start
        self._recording.put(Begin(number, start))

    def _end(self, end: v1.SessionEnd) -> None:
        number = self._optional(end.recording, end.id)
        if number is not None and number not in self._ended:
            self._ended.add(number)
            self._recording.put(End(number, end.reason, end.ended_ns))

    def _gap(self, gap: v1.Gap) -> None:
        session = self._optional(gap.recording, gap.session)
        if self._is_new(gap.recording, gap.session, gap.from_ns, gap.to_ns, gap.reason):
            self._recording.put(GapEntry(session, gap.from_ns, gap.to_ns, gap.reason, gap.lost))

    def _event(self, event: v1.Event) -> None:
        session = self._known(event.recording, event.session)
        source = self._source(event.recording)
        if event.id <= self._newest.get(source, 0):
            return
        self._newest[source] = event.id
        number = max(event.id, self._last_event + 1)
        if number >= _INT_MAX:
            raise RemoteProtocolError(f"event {number} is too high a number")
        if session in self._ended:
            # The node's recorder was killed, and its successor goes on with the session.
            self._ended.discard(session)
            self._recording.put(Reopen(session, self._starts[session]))
        self._last_event = number
        self.events += 1
        container_id = "" if event.container_id.startswith(NO_ID) else event.container_id
        self._recording.put(
            EventFacts(
                number,
                max(0, event.size),
                event.pod_id,
                event.namespace,
                event.pod,
                container_id,
                event.container,
                self._outcome(event, number),
            )
        )
        metadata = tuple((one.key, one.value) for one in event.metadata)
        tapped = Tapped(number, event.held_ns, metadata)
        call = call_of(event, event.request, event.reply, event.service, tapped)
        self._recording.capture(session, call)

    def _outcome(self, event: v1.Event, number: int) -> Outcome | None:
        """Return the outcome of a creation, with the numbers of this recording."""
        one = event.outcome
        if one is None:
            return None
        shown_by = one.event if number == event.id else 0
        session = self._optional(event.recording, one.session) or 0
        return outcome_of(one.fate, shown_by, one.name, session, max(0, one.after_ns))


def _size(value: object, name: str = "") -> int:
    """Return the number of bytes and characters of a message. Raises RemoteProtocolError."""
    if isinstance(value, Message):
        return sum(_size(one, field) for field, one in vars(value).items())
    if isinstance(value, list):
        return sum(_size(one, name) for one in value)
    if isinstance(value, str) and len(value) > _TEXT_MAX and name not in _LONG_TEXTS:
        raise RemoteProtocolError(f"{name} has more than {_TEXT_MAX:,} characters")
    return len(value) if isinstance(value, str | bytes) else 0
