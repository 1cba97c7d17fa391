# SPDX-License-Identifier: Apache-2.0
"""JSON lines: events as in ``show --format json``, and sessions, gaps, notes and output.

They can be read as entries again. What they do not have is lost: fractions of a microsecond, and
the monotonic clock.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import IO, Any

from nri_scope.entries import Began, Ended, Entry, OperationFate, OperationOutcome, RecordedCall
from nri_scope.errors import UsageError
from nri_scope.events import (
    CONTAINER_STATUS,
    CRI_SERVICE,
    Event,
    Gap,
    Note,
    Printed,
    Role,
    Session,
    Tapped,
    status_of,
)
from nri_scope.nri import v01
from nri_scope.nri.events import METHODS
from nri_scope.nri.plain import MALFORMED_KEY, NotPlain, Plain, bytes_from_plain
from nri_scope.nri.request_subject import MALFORMED, kind_of_reply, kind_of_request
from nri_scope.nri.request_subject import UNKNOWN as MARKED_UNKNOWN
from nri_scope.recorder.complete_recording import complete_recording
from nri_scope.recording.documents import event_document, tap_record
from nri_scope.recording.file.file_errors import error_words
from nri_scope.recording.query.creation_outcomes import (
    OPERATION_EVENTS,
    UNKNOWN,
    Creations,
    outcome_of,
    stored_outcomes,
)
from nri_scope.recording.query.log_rows import LogMerger
from nri_scope.recording.reading.event_messages import status_request
from nri_scope.recording.reading.reader import Recording
from nri_scope.recording.reading.records import (
    SCHEMA_VERSION,
    gap_record,
    printed_record,
    rfc3339,
    session_record,
)
from nri_scope.text.escape import safe

from .exported_part import ExportedPart, json_line


def write(recording: Recording, numbers: Iterable[int] | None, stream: IO[bytes]) -> int:
    """Write the events; see `formats.Write`.

    Each line is an object with a key "event", "session", "gap", "note" or "output".
    """
    excerpt = ExportedPart(recording, numbers)
    taps = excerpt.taps()
    sessions: set[int] = set()
    messages = (b"", b"")

    def events() -> Iterator[Event]:
        nonlocal messages
        for event, request, reply in excerpt.exchanges():
            messages = request, reply
            yield event

    count = 0
    creations = None if numbers is None else Creations(recording)
    timeline, described = LogMerger(every_session=True), recording.sessions()
    # Their places must be the same after the lines were imported, and exported again.
    gaps = [replace(gap, from_ns=gap.from_ns // 1000 * 1000) for gap in excerpt.gaps()]
    for item in chain(
        timeline.merge(events(), described, gaps), timeline.without_events(described)
    ):
        match item:
            case Event():
                observed = taps.of(item.id)
                tap = {} if observed is None else tap_record(observed)
                outcome = _outcome(recording, item, creations)
                _put(stream, {**event_document(item, *messages), **tap, **outcome})
                sessions.add(item.session)
                count += 1
            case Gap():
                _put(stream, gap_record(item))
            case Began(session):
                record = {**session_record(session), "mask": session.mask}
                _put(stream, {"session": record})
            case _:
                pass  # The line of a session includes its end.
    for note in recording.notes():
        written: Plain = {"at": rfc3339(note.at_ns), "session": note.session, "text": note.text}
        _put(stream, {"note": written})
    for line in excerpt.printed(sessions):
        _put(stream, printed_record(line))
    return count


def _outcome(recording: Recording, event: Event, creations: Creations | None) -> dict[str, Plain]:
    """Return the outcome of an operation, if the events that show it may be left out."""
    if event.event not in OPERATION_EVENTS:
        return {}
    if creations is None:
        found = stored_outcomes(recording, [event.id]).get(event.id, UNKNOWN)
    else:
        found = creations.outcome(event)
    if found.fate is OperationFate.UNKNOWN:
        return {}
    return {"outcome": {**found._asdict(), "fate": found.fate.value}}


def _put(stream: IO[bytes], record: dict[str, Plain]) -> None:
    stream.write(json_line({"schema_version": SCHEMA_VERSION, **record}).encode() + b"\n")


LINE_MAX = 64 << 20
"""Maximum bytes of a line. A message of 4 MiB has at most 24 MiB as JSON with escapes."""
VALUES_MAX = 1_000_000
"""Maximum number of values in a line, each of which can take a hundred bytes of memory."""

_OTHER_SERVICE = "unknown"
"""In place of the service of a call with a known method of another service, which is not written.
"""
_INDEXED = re.compile(r"([0-9]{2})-(.+)", re.DOTALL)
_TIME = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})\.([0-9]{6})Z")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INT_MAX = 2**63 - 1
_MS_MAX = _INT_MAX // 1_000_000


def is_json_lines(path: Path) -> bool:
    """Return whether a file begins as JSON lines do; False if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(64).lstrip().startswith(b"{")
    except (OSError, ValueError):
        return False


def read_back(path: Path, draft: Path) -> None:
    """Write the recording in JSON lines to the new file ``draft``, or nothing after an error.

    Raises UsageError with the file and the line, and RecordingError.
    """
    with complete_recording(draft, is_draft=True) as recording:
        for entry in _JsonLines(path).entries():
            recording.put(entry)


class _JsonLines:
    """A file of JSON lines. Every method raises UsageError with the file and the line."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._line = 0
        self._roles: dict[int, str] = {}
        """Roles of the described sessions."""
        self._ends: list[Ended] = []
        self._last_event = 0

    def entries(self) -> Iterator[Entry]:
        """Yield the entries in the order of a recorder."""
        try:
            with self._path.open("rb") as file:
                for record in self._records(file):
                    try:
                        entries = list(self._entries(record))
                    except NotPlain as error:
                        raise self._error(str(error)) from None
                    yield from entries
        except OSError as error:
            raise UsageError(f"{self._name}: cannot be read: {error_words(error)}") from error
        if not self._roles and not self._last_event:
            raise UsageError(f"{self._name}: has no events", "export with --format jsonl")
        yield from self._ends

    # -- lines --------------------------------------------------------------------------------

    @property
    def _name(self) -> str:
        return safe(str(self._path))

    def _error(self, problem: str, hint: str = "") -> UsageError:
        return UsageError(f"{self._name}:{self._line}: {safe(problem)}", hint)

    def _records(self, file: IO[bytes]) -> Iterator[dict[str, Plain]]:
        self._line = 0
        while line := file.readline(LINE_MAX + 1):
            self._line += 1
            if len(line) > LINE_MAX:
                raise self._error(f"longer than {LINE_MAX >> 20} MiB")
            if line.strip():
                yield self._record(line)

    def _record(self, line: bytes) -> dict[str, Plain]:
        if sum(map(line.count, (b",", b"[", b"{"))) > VALUES_MAX:
            raise self._error(f"more than {VALUES_MAX:,} values")
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict):
            raise self._error("not a JSON object", "export with --format jsonl")
        version = record.get("schema_version")
        if version != SCHEMA_VERSION:
            is_newer = isinstance(version, int) and version > SCHEMA_VERSION
            raise self._error(
                f"schema_version is {version!r}, not {SCHEMA_VERSION}",
                "upgrade nri-scope" if is_newer else "export with --format jsonl",
            )
        return record

    # -- entries ------------------------------------------------------------------------------

    def _entries(self, record: dict[str, Plain]) -> Iterator[Entry]:
        if "event" in record:
            yield from self._event(record)
        elif "session" in record:
            yield self._session(_record_in(record, "session"))
        elif "gap" in record:
            gap = _record_in(record, "gap")
            begin, end = _time(gap, "from"), _time(gap, "to")
            key = "left_out" if "left_out" in gap else "lost"
            lost = None if gap.get(key) is None else _number(gap, key, low=-_INT_MAX)
            yield Gap(0, _session_of(gap), begin, end, _text(gap, "reason"), lost)
        elif "note" in record:
            note = _record_in(record, "note")
            yield Note(0, _session_of(note), _time(note, "at"), _text(note, "text"))
        elif "output" in record:
            line = _record_in(record, "output")
            session = self._described(line)
            yield Printed(0, session, _time(line, "at"), _text(line, "stream"), _text(line, "text"))
        else:
            raise NotPlain("neither an event nor a session, gap, note or output")

    def _described(self, record: dict[str, Plain]) -> int:
        """Return the number of a record's session, which an earlier line describes."""
        number = _number(record, "session")
        if number not in self._roles:
            raise NotPlain(f"session {number} is not described in an earlier line")
        return number

    def _session(self, session: dict[str, Plain]) -> Began:
        number = _number(session, "id", low=1)
        if number in self._roles:
            raise NotPlain(f"session {number} is described twice")
        role = self._roles[number] = _text(session, "role")
        if role not in list(Role):
            raise NotPlain(f"role {role[:80]!r} is unknown")
        plugin = _text(session, "plugin")
        indexed = _INDEXED.fullmatch(plugin)
        index, name = (indexed[1], indexed[2]) if indexed else ("", plugin)
        began = Session(
            id=number,
            role=Role(role),
            plugin_name=name,
            plugin_index=index,
            runtime_name=_text(session, "runtime"),
            runtime_version=_text(session, "runtime_version"),
            nri_version=_text(session, "nri_version"),
            nri_version_inferred=_flag(session, "nri_version_inferred"),
            mask=_number(session, "mask"),
            registration_timeout_ms=_number(session, "registration_timeout_ms"),
            request_timeout_ms=_number(session, "request_timeout_ms"),
            started_ns=_time(session, "started"),
            ended_ns=None if session.get("ended") is None else _time(session, "ended"),
            end_reason=_text(session, "end_reason"),
            synced_ns=None if session.get("synced") is None else _time(session, "synced"),
        )
        if began.ended_ns is not None or began.end_reason:
            self._ends.append(Ended(began))
        return Began(began)

    def _event(self, record: dict[str, Plain]) -> Iterator[Entry]:
        event = _record_in(record, "event")
        session = self._described(event)
        number = _number(event, "id", low=1)
        if number <= self._last_event:
            raise NotPlain(f"event {number} follows event {self._last_event}")
        self._last_event = number
        role = self._roles[session]
        method, mark = _text(event, "method"), _text(event, "mark", default="")
        request, reply = _messages(record, method, mark, role)
        tap = _record_in(record, "tap") if "tap" in record else {}
        held_ns = _number(tap, "held_us", high=_INT_MAX // 1000) * 1000 if tap else None
        deadline = event.get("deadline_ms")
        timeout_ms = 0 if deadline is None else _number(event, "deadline_ms", high=_MS_MAX)
        code = _number(event, "status_code", default=0, low=-_INT_MAX)
        yield RecordedCall(
            Event(
                id=number,
                session=session,
                seq=0,
                at_ns=_time(event, "at"),
                mono_ns=_time(event, "at"),
                plugin="",
                runtime="",
                method=method,
                event="",
                namespace=_utf8(event, "namespace"),
                pod=_utf8(event, "pod"),
                container=_utf8(event, "container"),
                pod_id=_utf8(event, "pod_id"),
                container_id=_utf8(event, "container_id"),
                took_ns=0
                if event.get("took_us", 0) is None
                else _number(event, "took_us", low=-_INT_MAX, high=_INT_MAX // 1000) * 1000,
                timeout_ns=timeout_ms * 1_000_000,
                size=_number(event, "size"),
                status=status_of(code),
                status_code=code,
                status_message=_text(event, "status_message", default=""),
                mark=mark,
            ),
            request,
            reply,
            _service(role, method, mark),
            Tapped(number, held_ns, tuple(_metadata(tap or record))),
            _outcome_in(record),
        )


def _session_of(record: dict[str, Plain]) -> int | None:
    """Return the number of a session, which is not described if it has no events."""
    return None if record.get("session") is None else _number(record, "session")


def _messages(record: dict[str, Plain], method: str, mark: str, role: str) -> tuple[bytes, bytes]:
    request, reply = _record_in(record, "request"), _record_in(record, "reply")
    is_status = role == Role.CRI and method == CONTAINER_STATUS and not mark
    if is_status and MALFORMED_KEY not in request:
        try:
            content = status_request(_text(request, "container_id"))
        except ValueError as error:
            raise NotPlain(f"request: {error}") from None
        return content, _json_bytes(reply)
    if v01.is_invocation(method, mark):
        return _json_bytes(request), _json_bytes(reply)
    # The bytes of a malformed request need not be those of the method.
    kind = None if mark == MALFORMED else kind_of_request(method, mark)
    try:
        encoded = bytes_from_plain(kind, request)
    except NotPlain as error:
        raise NotPlain(f"request: {error}") from None
    try:
        return encoded, bytes_from_plain(kind_of_reply(method, mark), reply)
    except NotPlain as error:
        raise NotPlain(f"reply: {error}") from None


def _json_bytes(value: dict[str, Plain]) -> bytes:
    malformed = value.get(MALFORMED_KEY)
    if list(value) == [MALFORMED_KEY] and isinstance(malformed, str):
        return bytes_from_plain(None, value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() if value else b""


def _service(role: str, method: str, mark: str) -> str:
    if role == Role.CRI:
        return CRI_SERVICE
    if role == Role.V01:
        return v01.SERVICE
    return _OTHER_SERVICE if mark == MARKED_UNKNOWN and method in METHODS else ""


def _outcome_in(record: dict[str, Plain]) -> OperationOutcome | None:
    """Return the outcome of a creation in a part of a recording; None if there is none."""
    if "outcome" not in record:
        return None
    found = _record_in(record, "outcome")
    numbers = (_number(found, name, default=0) for name in ("event", "session", "after_ns"))
    event, session, after_ns = numbers
    return outcome_of(_text(found, "fate"), event, _text(found, "name"), session, after_ns)


def _metadata(record: dict[str, Plain]) -> Iterator[tuple[str, str]]:
    pairs = record.get("metadata", [])
    if not isinstance(pairs, list):
        raise NotPlain("metadata: not a list")
    for pair in pairs:
        if not isinstance(pair, dict) or not all(isinstance(value, str) for value in pair.values()):
            raise NotPlain("metadata: not a list of pairs")
        yield from ((key, str(value)) for key, value in pair.items())


# -- values -----------------------------------------------------------------------------------


def _record_in(record: dict[str, Plain], key: str) -> dict[str, Plain]:
    found = record.get(key)
    if not isinstance(found, dict):
        raise NotPlain(f"{key}: not a JSON object")
    return found


_NONE: Any = object()


def _text(record: dict[str, Plain], key: str, default: Any = _NONE) -> str:
    found = record.get(key, default)
    if not isinstance(found, str):
        raise NotPlain(f"{key}: not a text")
    return found


def _utf8(record: dict[str, Plain], key: str) -> str:
    return _text(record, key).encode("utf-8", "replace").decode()


def _flag(record: dict[str, Plain], key: str) -> bool:
    found = record.get(key)
    if not isinstance(found, bool):
        raise NotPlain(f"{key}: neither true nor false")
    return found


def _number(
    record: dict[str, Plain], key: str, default: Any = _NONE, *, low: int = 0, high: int = _INT_MAX
) -> int:
    found = record.get(key, default)
    if isinstance(found, bool) or not isinstance(found, int):
        raise NotPlain(f"{key}: not an integer")
    if not low <= found <= high:
        raise NotPlain(f"{key}: not between {low} and {high}")
    return found


def _time(record: dict[str, Plain], key: str) -> int:
    text = _text(record, key)
    found = _TIME.fullmatch(text)
    try:
        if found is None:
            raise ValueError
        whole = datetime.fromisoformat(f"{found[1]}+00:00") - _EPOCH
    except ValueError:
        raise NotPlain(f"{key}: not a time such as 2026-01-31T14:05:07.000000Z") from None
    return (whole.days * 86_400 + whole.seconds) * 10**9 + int(found[2]) * 1000
