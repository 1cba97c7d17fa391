# SPDX-License-Identifier: Apache-2.0
"""Write what an agent sends as a recording on this machine."""

from __future__ import annotations

from dataclasses import replace

from betterproto2 import Message

from nri_scope._gen.agent.nri_scope.agent import v1
from nri_scope.entries import Began, Ended, Exchange
from nri_scope.errors import RemoteProtocolError
from nri_scope.events import Gap, Note, Printed, Session
from nri_scope.recorder.complete_recording import CompleteRecording
from nri_scope.share.agent_messages import entry_of

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
        self._begun: dict[int, Session] = {}
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
        match entry_of(response):
            case Exchange() as exchange if response.event is not None:
                self._event(response.event.recording, exchange)
            case Began(session) if response.session is not None:
                self._session(response.session, session)
            case Ended(session) if response.session_end is not None:
                number = self._optional(response.session_end.recording, session.id)
                if number is not None and number not in self._ended:
                    self._ended.add(number)
                    self._recording.put(Ended(replace(session, id=number)))
            case Gap() as gap if response.gap is not None:
                name = response.gap.recording
                if self._is_new(name, gap.session, gap.from_ns, gap.to_ns, gap.reason):
                    self._recording.put(replace(gap, session=self._optional(name, gap.session)))
            case Note() as note if response.note is not None:
                name = response.note.recording
                if self._is_new(name, note.session, note.at_ns, note.text):
                    self._recording.put(replace(note, session=self._optional(name, note.session)))
            case Printed() as line if response.output is not None:
                name = response.output.recording
                number = self._known(name, line.session)
                place = line.session, line.id, line.at_ns
                if self._is_new(name, *place, line.stream, line.text):
                    self._recording.put(replace(line, session=number))
            case _:
                pass

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

    def _session(self, message: v1.Session, session: Session) -> None:
        source = message.recording, message.recording_began_ns
        self._sources[message.recording] = source
        key = source, session.id
        if key in self._sessions:
            return
        number = max(session.id, self._last_session + 1)
        self._session_bytes += 500 + _size(message)
        is_full = len(self._sessions) >= _ITEMS_MAX or self._session_bytes > _SESSIONS_BYTES_MAX
        if number > _INT_MAX or is_full:
            raise RemoteProtocolError(f"session {number:,} is one too many")
        self._last_session = self._sessions[key] = number
        self._begun[number] = replace(session, id=number)
        self._recording.put(Began(self._begun[number]))

    def _event(self, recording: str, exchange: Exchange) -> None:
        event = exchange.event
        session = self._known(recording, event.session)
        source = self._source(recording)
        if event.id <= self._newest.get(source, 0):
            return
        self._newest[source] = event.id
        number = max(event.id, self._last_event + 1)
        if number >= _INT_MAX:
            raise RemoteProtocolError(f"event {number} is too high a number")
        if session in self._ended:
            # The node's recorder was killed, and its successor goes on with the session.
            self._ended.discard(session)
            self._recording.put(Began(self._begun[session]))
        self._last_event = number
        self.events += 1
        outcome = exchange.outcome
        if outcome is not None:
            # With the numbers of this recording.
            shown_by = outcome.event if number == event.id else 0
            ended = self._optional(recording, outcome.session) or 0
            outcome = outcome._replace(event=shown_by, session=ended)
        event = replace(event, id=number, session=session)
        self._recording.put(replace(exchange, event=event, outcome=outcome))


def _size(value: object, name: str = "") -> int:
    """Return the number of bytes and characters of a message. Raises RemoteProtocolError."""
    if isinstance(value, Message):
        return sum(_size(one, field) for field, one in vars(value).items())
    if isinstance(value, list):
        return sum(_size(one, name) for one in value)
    if isinstance(value, str) and len(value) > _TEXT_MAX and name not in _LONG_TEXTS:
        raise RemoteProtocolError(f"{name} has more than {_TEXT_MAX:,} characters")
    return len(value) if isinstance(value, str | bytes) else 0
