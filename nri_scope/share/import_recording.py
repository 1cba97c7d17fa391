# SPDX-License-Identifier: Apache-2.0
"""Make a recording of a bundle or of JSON lines.

JSON lines are read as `formats.jsonl` writes them. What they do not have is lost: fractions of a
microsecond, and the monotonic clock.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, TypeVar

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import RecordingCut, RecordingError, UsageError
from nri_scope.events import (
    CONTAINER_STATUS,
    CRI_SERVICE,
    NO_ID,
    CapturedCall,
    Role,
    SessionStart,
)
from nri_scope.nri import invocation
from nri_scope.nri.methods import METHODS
from nri_scope.nri.plain import MALFORMED, NotPlain, Plain, bytes_from_plain
from nri_scope.nri.request_subject import (
    MALFORMED as MARKED_MALFORMED,
)
from nri_scope.nri.request_subject import (
    UNKNOWN,
    kind_of_reply,
    kind_of_request,
)
from nri_scope.nri.runtime_setup import parse_subscription
from nri_scope.nri.versions import NriVersion
from nri_scope.recorder.complete_recording import complete_recording
from nri_scope.recorder.inbox import Begin, End, Entry, EventFacts, GapEntry, NoteEntry, PluginLine
from nri_scope.recording.bundle.manifest import Manifest
from nri_scope.recording.bundle.unpack import read_manifest, unpack
from nri_scope.recording.creation_outcomes import Outcome, outcome_of
from nri_scope.recording.cri_answers import status_request
from nri_scope.recording.file_errors import error_words
from nri_scope.recording.reader import Recording
from nri_scope.recording.records import SCHEMA_VERSION
from nri_scope.recording.rows import number_of
from nri_scope.recording.schema_check import repair_hint
from nri_scope.text.escape import safe

from .output_files import Outputs

LINE_MAX = 64 << 20
"""Maximum bytes of a line. A message of 4 MiB has at most 24 MiB as JSON with escapes."""
VALUES_MAX = 1_000_000
"""Maximum number of values in a line, each of which can take a hundred bytes of memory."""

_CONFIGURE = "Configure"
_OTHER_SERVICE = "unknown"
"""In place of the service of a call with a known method of another service, which is not written.
"""
_INDEXED = re.compile(r"([0-9]{2})-(.+)", re.DOTALL)
_TIME = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})\.([0-9]{6})Z")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INT_MAX = 2**63 - 1
T = TypeVar("T")


class JsonLines:
    """A file of JSON lines. Every method raises UsageError with the file and the line."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._line = 0
        self._masks: dict[int, int] = {}
        self._roles: dict[int, str] = {}
        """Roles of the described sessions."""
        self._ends: list[End] = []
        self._last_event = 0
        self.events = 0
        """Number of events read."""

    def entries(self) -> Iterator[Entry]:
        """Yield the entries in the order of a recorder."""
        try:
            with self._path.open("rb") as file:
                self._masks = dict(self._subscriptions(file))
                file.seek(0)
                for record in self._records(file):
                    yield from self._checked(self._entries, record)
        except OSError as error:
            raise UsageError(f"{self._name}: cannot be read: {error_words(error)}") from error
        if not self._roles and not self.events:
            raise UsageError(f"{self._name}: has no events", "export with --format jsonl")
        yield from self._ends

    # -- lines --------------------------------------------------------------------------------

    @property
    def _name(self) -> str:
        return safe(str(self._path))

    def _error(self, problem: str, hint: str = "") -> UsageError:
        return UsageError(f"{self._name}:{self._line}: {safe(problem)}", hint)

    def _records(
        self, file: IO[bytes], wanted: Callable[[bytes], bool] = lambda line: True
    ) -> Iterator[dict[str, Plain]]:
        self._line = 0
        while line := file.readline(LINE_MAX + 1):
            self._line += 1
            if len(line) > LINE_MAX:
                raise self._error(f"longer than {LINE_MAX >> 20} MiB")
            if line.strip() and wanted(line):
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

    def _checked(
        self, read: Callable[[dict[str, Plain]], Iterator[T]], record: dict[str, Plain]
    ) -> Iterator[T]:
        try:
            yield from list(read(record))
        except NotPlain as error:
            raise self._error(str(error)) from None

    def _subscriptions(self, file: IO[bytes]) -> Iterator[tuple[int, int]]:
        """Yield the masks of sessions, from the replies to Configure."""
        for record in self._records(file, lambda line: b'"Configure"' in line):
            yield from self._checked(_subscription, record)

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
            yield GapEntry(_session_of(gap), begin, end, _text(gap, "reason"), lost)
        elif "note" in record:
            note = _record_in(record, "note")
            yield NoteEntry(_session_of(note), _time(note, "at"), _text(note, "text"))
        elif "output" in record:
            line = _record_in(record, "output")
            session = self._described(line)
            yield PluginLine(session, _time(line, "at"), _text(line, "stream"), _text(line, "text"))
        else:
            raise NotPlain("neither an event nor a session, gap, note or output")

    def _described(self, record: dict[str, Plain]) -> int:
        """Return the number of a record's session, which an earlier line describes."""
        number = _number(record, "session")
        if number not in self._roles:
            raise NotPlain(f"session {number} is not described in an earlier line")
        return number

    def _session(self, session: dict[str, Plain]) -> Begin:
        number = _number(session, "id", low=1)
        if number in self._roles:
            raise NotPlain(f"session {number} is described twice")
        role = self._roles[number] = _text(session, "role")
        if role not in list(Role):
            raise NotPlain(f"role {role[:80]!r} is unknown")
        ended = None if session.get("ended") is None else _time(session, "ended")
        reason = _text(session, "end_reason")
        if ended is not None or reason:
            self._ends.append(End(number, reason, ended))
        plugin = _text(session, "plugin")
        indexed = _INDEXED.fullmatch(plugin)
        index, name = (indexed[1], indexed[2]) if indexed else ("", plugin)
        version = _text(session, "nri_version")
        mask = self._masks.get(number, 0)
        if number in self._masks and not mask:
            mask = parse_subscription(b"", NriVersion.parse(version))
        start = SessionStart(
            role=Role(role),
            plugin_name=name,
            plugin_index=index,
            runtime_name=_text(session, "runtime"),
            runtime_version=_text(session, "runtime_version"),
            nri_version=version,
            nri_version_inferred=_flag(session, "nri_version_inferred"),
            mask=mask,
            registration_timeout_ms=_number(session, "registration_timeout_ms"),
            request_timeout_ms=_number(session, "request_timeout_ms"),
            started_ns=_time(session, "started"),
        )
        return Begin(number, start)

    def _event(self, record: dict[str, Plain]) -> Iterator[Entry]:
        event = _record_in(record, "event")
        session = self._described(event)
        number = _number(event, "id", low=1)
        if number <= self._last_event:
            raise NotPlain(f"event {number} follows event {self._last_event}")
        self._last_event = number
        self.events += 1
        role = self._roles[session]
        method, mark = _text(event, "method"), _text(event, "mark", default="")
        request, reply = _messages(record, method, mark, role)
        yield _facts(event, number, _outcome(record))
        tap = _record_in(record, "tap") if "tap" in record else {}
        deadline = event.get("deadline_ms")
        yield (
            session,
            CapturedCall(
                wall_ns=_time(event, "at"),
                mono_ns=_time(event, "at"),
                method=method,
                request=request,
                reply=reply,
                status_code=_number(event, "status_code", default=0, low=-_INT_MAX),
                status_message=_text(event, "status_message", default=""),
                took_ns=0
                if event.get("took_us", 0) is None
                else _number(event, "took_us", low=-_INT_MAX, high=_INT_MAX // 1000) * 1000,
                timeout_ns=0 if deadline is None else _milliseconds(event, "deadline_ms"),
                service=_service(role, method, mark),
                held_ns=_number(tap, "held_us", high=_INT_MAX // 1000) * 1000 if tap else None,
                metadata=tuple(_metadata(tap or record)),
            ),
        )


def _session_of(record: dict[str, Plain]) -> int | None:
    """Return the number of a session, which is not described if it has no events."""
    return None if record.get("session") is None else _number(record, "session")


def _subscription(record: dict[str, Plain]) -> Iterator[tuple[int, int]]:
    event = record.get("event")
    if isinstance(event, dict) and event.get("method") == _CONFIGURE:
        reply = _record_in(record, "reply")
        content = bytes_from_plain(api.ConfigureResponse, reply)
        yield _number(event, "session"), api.ConfigureResponse.FromString(content).events


def _messages(record: dict[str, Plain], method: str, mark: str, role: str) -> tuple[bytes, bytes]:
    request, reply = _record_in(record, "request"), _record_in(record, "reply")
    is_status = role == Role.CRI and method == CONTAINER_STATUS and not mark
    if is_status and MALFORMED not in request:
        try:
            content = status_request(_text(request, "container_id"))
        except ValueError as error:
            raise NotPlain(f"request: {error}") from None
        return content, _json_bytes(reply)
    if invocation.is_invocation(method, mark):
        return _json_bytes(request), _json_bytes(reply)
    # The bytes of a malformed request need not be those of the method.
    kind = None if mark == MARKED_MALFORMED else kind_of_request(method, mark)
    try:
        encoded = bytes_from_plain(kind, request)
    except NotPlain as error:
        raise NotPlain(f"request: {error}") from None
    try:
        return encoded, bytes_from_plain(kind_of_reply(method, mark), reply)
    except NotPlain as error:
        raise NotPlain(f"reply: {error}") from None


def _json_bytes(value: dict[str, Plain]) -> bytes:
    malformed = value.get(MALFORMED)
    if list(value) == [MALFORMED] and isinstance(malformed, str):
        return bytes_from_plain(None, value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() if value else b""


def _service(role: str, method: str, mark: str) -> str:
    if role == Role.CRI:
        return CRI_SERVICE
    if role == Role.V01:
        return invocation.SERVICE
    return _OTHER_SERVICE if mark == UNKNOWN and method in METHODS else ""


def _outcome(record: dict[str, Plain]) -> Outcome | None:
    """Return the outcome of a creation in a part of a recording; None if there is none."""
    if "outcome" not in record:
        return None
    found = _record_in(record, "outcome")
    numbers = (_number(found, name, default=0) for name in ("event", "session", "after_ns"))
    event, session, after_ns = numbers
    return outcome_of(_text(found, "fate"), event, _text(found, "name"), session, after_ns)


def _facts(event: dict[str, Plain], number: int, outcome: Outcome | None) -> EventFacts:
    """Return what is known about an event's subjects, even if its messages do not have it."""
    container_id = _utf8(event, "container_id")
    return EventFacts(
        number,
        _number(event, "size"),
        _utf8(event, "pod_id"),
        _utf8(event, "namespace"),
        _utf8(event, "pod"),
        "" if container_id.startswith(NO_ID) else container_id,
        _utf8(event, "container"),
        outcome,
    )


def _metadata(record: dict[str, Plain]) -> Iterator[tuple[str, str]]:
    pairs = record.get("metadata", [])
    if not isinstance(pairs, list):
        raise NotPlain("metadata: not a list")
    for pair in pairs:
        if not isinstance(pair, dict) or not all(isinstance(one, str) for one in pair.values()):
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


def _milliseconds(record: dict[str, Plain], key: str) -> int:
    return _number(record, key, high=_INT_MAX // 1_000_000) * 1_000_000


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


def import_bundle(path: Path, output: Path, *, force: bool = False) -> Manifest:
    """Write the recording of the bundle ``path`` to the new file ``output``.

    The file is a complete and valid recording, or is not created. Raises RecordingError and
    UsageError.
    """
    manifest = read_manifest(path)
    with Outputs(output, path, force=force) as outputs:
        draft = unpack(path, outputs.folder)
        try:
            with warnings.catch_warnings():
                # The limits are those of a display; the import copies everything.
                warnings.simplefilter("ignore", RecordingCut)
                recording = Recording.open(draft)
        except RecordingError as error:
            hint = repair_hint(path) if error.hint == repair_hint(draft) else error.hint
            raise RecordingError(path, error.problem, hint) from error
        with closing(recording):
            events = number_of(recording.rows("SELECT count(*) FROM event")[0])
        listed = manifest.counts.events + manifest.counts.context
        if events != listed:
            raise RecordingError(
                path,
                f"its manifest lists {listed:,} events, but its recording has {events:,}",
                "ask for it again, or do not trust it",
            )
        outputs.place([draft])
    return manifest


def is_json_lines(path: Path) -> bool:
    """Return whether a file begins as JSON lines do; False if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(64).lstrip().startswith(b"{")
    except (OSError, ValueError):
        return False


def import_json_lines(path: Path, output: Path, *, force: bool = False) -> int:
    """Write the recording in the JSON lines ``path`` to the new file ``output``.

    Returns the number of events. The file is complete, or is not created. Raises UsageError and
    RecordingError.
    """
    lines = JsonLines(path)
    with Outputs(output, path, force=force) as outputs:
        draft = outputs.new(output.suffix)
        with complete_recording(draft) as recording:
            for entry in lines.entries():
                recording.put(entry)
        outputs.place([draft])
    return lines.events
