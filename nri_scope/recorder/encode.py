# SPDX-License-Identifier: Apache-2.0
"""Encode captured exchanges as rows of a recording."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass

from google.protobuf.message import Message

from nri_scope._gen.nri.api_pb2 import Container, PodSandbox, SynchronizeRequest
from nri_scope.entries import EarlierState, RecordedCall, SubjectKeys
from nri_scope.events import (
    CONTAINER_STATUS,
    CRI_SERVICE,
    NO_ID,
    CapturedCall,
    Event,
    SessionStart,
    plugin_title,
    problem_of,
    status_of,
)
from nri_scope.nri import v01
from nri_scope.nri.changes import changes_of, targets_of
from nri_scope.nri.events import CREATE, STOP, SYNCHRONIZE, UNSOLICITED, UPDATE, VALIDATE
from nri_scope.nri.request_subject import (
    MALFORMED,
    UNKNOWN,
    Decoded,
    decode_reply,
    decode_request,
    is_plugins_call,
    name_of_container,
    name_of_pod,
)
from nri_scope.recording.file.blobs import ObjectKind
from nri_scope.recording.file.schema import insert_sql
from nri_scope.recording.file.sqlite_text import HIGHEST, LOWEST, int64, listed, named, storable
from nri_scope.recording.query.creation_outcomes import INSERT_OUTCOME
from nri_scope.recording.reading.event_messages import requested_container_id

from .shared_rows import ContainerRow, NameTable, ObjectStore, SubjectTables, put_container, put_pod

# Methods that can contain changes; replies of other methods need not be decoded.
_CHANGING_METHODS = frozenset({CREATE, STOP, SYNCHRONIZE, UPDATE, UNSOLICITED, VALIDATE})
_INSERT_EVENT, _INSERT_STATE = insert_sql("event"), insert_sql("state")
_INSERT_EFFECT = "INSERT INTO effect (container, event) VALUES (?, ?)"
INSERT_PLUGIN_CALLS = insert_sql("plugin_calls", "INSERT OR REPLACE")
_INSERT_TAPPED = "INSERT INTO tapped (event, held_ns, metadata) VALUES (?, ?, ?)"
_INSERT_METADATA = "INSERT INTO request_metadata (event, metadata) VALUES (?, ?)"
_INSERT_OMITTED = "INSERT INTO left_out (event, seq, count) VALUES (?, ?, ?)"

_STATEMENTS = (
    _INSERT_STATE,
    _INSERT_EVENT,
    _INSERT_EFFECT,
    _INSERT_TAPPED,
    _INSERT_METADATA,
    INSERT_OUTCOME,
    _INSERT_OMITTED,
)
"""In the order in which buffered rows are written."""

METADATA_MAX = 16 << 10
"""Maximum number of characters of a request's metadata; plugins and runtimes send about a hundred.
"""
_PAIR_OVERHEAD = 8
"""Characters of JSON syntax per key-value pair."""

_Row = tuple[int | str | None, ...]
_ObjectIds = tuple[int | None, int | None, int | None, int | None]
"""Ids of the objects of a call: pod, container, rest of the request, reply."""


@dataclass(slots=True)
class OpenSession:
    """State of the encoder for one open session."""

    id: int
    plugin: str
    runtime: str
    seq: int = 0
    """Number of events so far, recorded or not."""
    sync_event: int | None = None
    """Event with the first part of an unfinished Synchronize; None if there is none."""

    @classmethod
    def begin(cls, session_id: int, start: SessionStart) -> OpenSession:
        """Return the state of a session that has no events yet."""
        plugin = named(plugin_title(start.plugin_index, start.plugin_name))
        return cls(session_id, plugin, named(start.runtime_name))

    def copy(self) -> OpenSession:
        """Return the current state, for a rollback."""
        # Called for each batch; dataclasses.replace takes five times as long.
        return OpenSession(self.id, self.plugin, self.runtime, self.seq, self.sync_event)


@dataclass(slots=True)
class EncodedCall:
    """A captured call, and what its messages contain."""

    call: CapturedCall
    """The call as it is written, redacted if required."""
    size: int
    """Number of bytes of the captured request; of a copied event, of the original request."""
    decoded: Decoded
    changed: tuple[str, ...] = ()
    """Changed paths."""
    owners: tuple[str, ...] = ()
    updated: Set[str] = frozenset()
    """Ids of the containers to be updated or evicted."""
    event: Event | None = None
    """None unless it was requested."""


class Encoder:
    """Encoder of captured events into rows, which are buffered until `flush`.

    It caches the file's content, so create a new one after a rollback. Raises sqlite3.Error if
    reading the file fails.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        objects: ObjectStore,
        *,
        next_event: int,
        redact: Callable[[CapturedCall], CapturedCall] | None = None,
    ) -> None:
        """Create an encoder without rows.

        ``redact`` returns the redacted form of an event, which is what is written.
        """
        self._connection = connection
        self._redact = redact
        self._names = NameTable(connection)
        self.subjects = SubjectTables(connection)
        self.objects = objects
        self.next_event = next_event
        self._rows: dict[str, list[_Row]] = {statement: [] for statement in _STATEMENTS}
        """Buffered rows by the statement that writes them."""

    def encode(
        self,
        session: OpenSession,
        call: CapturedCall,
        *,
        keep: Callable[[Event], bool] | None = None,
        want_event: bool = False,
        recorded: RecordedCall | None = None,
    ) -> EncodedCall | None:
        """Encode one call into rows; return None if ``keep`` rejects its event.

        ``recorded``: the same event of another recording, with a higher number than all earlier
        events. Raises LimitReached if a table is full.
        """
        session.seq += 1
        size = len(call.request)
        if recorded is not None:
            size, session.seq = recorded.event.size, recorded.event.seq or session.seq
            self.next_event = max(self.next_event, recorded.event.id)
        encoded = _decode(call, session.plugin, size)
        if want_event or keep is not None:
            event = self._event(session, encoded)
            if keep is not None and not keep(event):
                return None
            if want_event:
                encoded.event = event
        if self._redact is not None:
            # Only the filter receives the original.
            encoded = _decode(self._redact(call), session.plugin, size)
            if want_event:
                encoded.event = self._event(session, encoded)
        event_id = self.next_event
        keys = None if recorded is None else recorded.keys
        if keys is None:
            if recorded is not None:
                self._add_names(encoded.decoded, recorded.event)
            keys = self._subject_keys(session, event_id, encoded)
        states: list[_Row] = []
        if isinstance(message := encoded.decoded.message, SynchronizeRequest):
            states = self._synchronize(session, event_id, encoded.call.wall_ns, message)
        objects = self._put_objects(encoded)
        # Update state only here: if anything above fails, no event was encoded.
        self.next_event = event_id + 1
        rows = self._rows
        if states:
            rows[_INSERT_STATE] += states
        if keys.updated:
            rows[_INSERT_EFFECT] += [(key, event_id) for key in keys.updated]
        if recorded is not None:
            self._append_recorded(event_id, recorded)
        self._append_row(session, event_id, encoded, keys, objects)
        return encoded

    def _append_recorded(self, event_id: int, recorded: RecordedCall) -> None:
        """Append what another recording stores about an event besides its call."""
        if recorded.outcome is not None:
            fate, evidence = recorded.outcome.fate, recorded.outcome[1:]
            self._rows[INSERT_OUTCOME].append((event_id, fate.value, *evidence))
        if recorded.omitted is not None:
            self._rows[_INSERT_OMITTED].append((event_id, *recorded.omitted))

    def _subject_keys(
        self, session: OpenSession, event_id: int, encoded: EncodedCall
    ) -> SubjectKeys:
        """Return the keys of the pods and containers of a call, whose rows are created if new."""
        decoded = encoded.decoded
        pod = None if decoded.pod is None else self.subjects.pod(decoded.pod)
        pod_key = None if pod is None else pod.key
        container: ContainerRow | None = None
        if decoded.container is not None:
            created = (session.id, event_id) if decoded.event == CREATE else None
            container = self.subjects.container(decoded.container, pod, created)
            if container is not None and pod_key is None and decoded.message is None:
                pod_key = container.pod
        updated = self._updated_keys(encoded.updated, container) if encoded.updated else ()
        return SubjectKeys(pod_key, None if container is None else container.key, updated)

    def _put_objects(self, encoded: EncodedCall) -> _ObjectIds:
        """Store the parts of a call; return their object ids."""
        call, decoded = encoded.call, encoded.decoded
        pod = container = remainder = None
        own = ""
        if decoded.message is None:
            if call.request:
                remainder = self.objects.put(ObjectKind.RAW, call.request, "", call.method)
            if decoded.container is not None:
                # Of all replies, only CRI answers are versions of one object.
                own = named(decoded.container.id)
        else:
            if decoded.pod is not None:
                pod = put_pod(self.objects, decoded.pod)
            if decoded.container is not None:
                container = put_container(self.objects, decoded.container)
            if serialized := rest_of(decoded, decoded.message):
                remainder = self.objects.put(ObjectKind.REST, serialized, "", call.method)
        reply = None
        if call.reply:
            reply = self.objects.put(ObjectKind.REPLY, call.reply, own, call.method)
        return pod, container, remainder, reply

    def _append_row(
        self,
        session: OpenSession,
        event_id: int,
        encoded: EncodedCall,
        keys: SubjectKeys,
        objects: _ObjectIds,
    ) -> None:
        call, decoded = encoded.call, encoded.decoded
        times = (call.wall_ns, call.mono_ns, call.took_ns, call.timeout_ns)
        wall_ns, mono_ns, took_ns, timeout_ns = times
        if min(times) < LOWEST or max(times) > HIGHEST:
            wall_ns, mono_ns, took_ns, timeout_ns = map(int64, times)
        if call.held_ns is not None:
            row = event_id, int64(call.held_ns), metadata_json(call.metadata)
            self._rows[_INSERT_TAPPED].append(row)
        elif call.metadata:
            self._rows[_INSERT_METADATA].append((event_id, metadata_json(call.metadata)))
        self._rows[_INSERT_EVENT].append(
            (
                event_id,
                session.id,
                session.seq,
                wall_ns,
                mono_ns,
                self._names.id(call.method),
                self._names.id(decoded.event),
                self._names.id(call.service) if call.service else None,
                keys.pod,
                keys.container,
                *objects,
                call.status_code,
                storable(call.status_message) if call.status_message else None,
                took_ns,
                timeout_ns,
                encoded.size,
                decoded.mark or None,
                json_list(encoded.changed),
                json_list(encoded.owners),
            )
        )

    def _add_names(self, decoded: Decoded, event: Event) -> None:
        """Create the rows of the event's subjects, with names that its messages lack."""
        pod = None
        if event.pod_id and not (decoded.pod is not None and decoded.pod.name):
            pod = self.subjects.pod(
                PodSandbox(id=event.pod_id, namespace=event.namespace, name=event.pod)
            )
        container_id = "" if event.container_id.startswith(NO_ID) else event.container_id
        if container_id and not (decoded.container is not None and decoded.container.name):
            self.subjects.container(Container(id=container_id, name=event.container), pod)

    def add_state(self, session: OpenSession, state: EarlierState) -> None:
        """Encode a part of Synchronize without its event. Raises DecodeError."""
        message = SynchronizeRequest.FromString(state.request)
        message.more = state.at_ns is None
        rows = self._synchronize(session, state.event, state.at_ns or 0, message)
        self._rows[_INSERT_STATE] += rows

    def flush(self) -> None:
        """Write the buffered rows. Raises sqlite3.Error."""
        self.subjects.flush()
        self.objects.flush(self._connection)
        for statement, rows in self._rows.items():
            if rows:
                self._connection.executemany(statement, rows)
                rows.clear()

    @property
    def buffered(self) -> int:
        """Number of events since the last `flush`."""
        return len(self._rows[_INSERT_EVENT])

    def _synchronize(
        self, session: OpenSession, event_id: int, at_ns: int, message: SynchronizeRequest
    ) -> list[_Row]:
        position = 0
        rows: list[_Row] = []
        for pod in message.pods:
            pod_row = self.subjects.pod(pod)
            key = pod_row.key if pod_row is not None else None
            rows.append((session.id, event_id, position, key, None, put_pod(self.objects, pod)))
            position += 1
        for container in message.containers:
            row = self.subjects.container(container, None)
            key = row.key if row is not None else None
            # Only the pod that the message names: a copy already knows those of later messages.
            pod_key = row.pod if row is not None and container.pod_sandbox_id else None
            content = put_container(self.objects, container)
            rows.append((session.id, event_id, position, pod_key, key, content))
            position += 1
        if session.sync_event is None:
            session.sync_event = event_id
            self._connection.execute(
                "UPDATE session SET sync_event = ?, synced_ns = NULL WHERE id = ?",
                (event_id, session.id),
            )
        if not message.more:
            session.sync_event = None
            self._connection.execute(
                "UPDATE session SET synced_ns = ? WHERE id = ?", (int64(at_ns), session.id)
            )
        return rows

    def _updated_keys(self, updated: Set[str], about: ContainerRow | None) -> tuple[int, ...]:
        rows = (
            self.subjects.container(Container(id=container_id), None)
            for container_id in sorted(updated)
            if about is None or container_id != about.id
        )
        return tuple(row.key for row in rows if row is not None)

    def _event(self, session: OpenSession, encoded: EncodedCall) -> Event:
        call, decoded = encoded.call, encoded.decoded
        namespace = pod_name = pod_id = container_name = container_id = ""
        if decoded.pod is not None:
            pod = decoded.pod
            namespace, pod_name, pod_id = pod.namespace, name_of_pod(pod), pod.id
            if pod_id and not (namespace and pod_name):
                cached = self.subjects.known_pod(pod_id)
                if cached is not None:
                    namespace, pod_name = namespace or cached.namespace, pod_name or cached.name
        if decoded.container is not None:
            container_id = decoded.container.id
            container_name = name_of_container(decoded.container)
        if decoded.message is None and container_id and not container_name:
            container_name, cached = self.subjects.known_names(container_id)
            if cached is not None:
                namespace, pod_name, pod_id = cached.namespace, cached.name, cached.id
        return Event(
            id=self.next_event,
            session=session.id,
            seq=session.seq,
            at_ns=int64(call.wall_ns),
            mono_ns=int64(call.mono_ns),
            plugin=session.plugin,
            runtime=session.runtime,
            method=named(call.method),
            event=named(decoded.event),
            namespace=namespace,
            pod=pod_name,
            container=container_name,
            pod_id=pod_id,
            container_id=container_id,
            took_ns=int64(call.took_ns),
            timeout_ns=int64(call.timeout_ns),
            size=encoded.size,
            status=status_of(call.status_code),
            status_code=call.status_code,
            status_message=storable(call.status_message),
            mark=decoded.mark,
            problem=problem_of(call.status_code, call.took_ns, call.timeout_ns),
            changed=encoded.changed,
            owners=encoded.owners,
        )


def _decode(call: CapturedCall, plugin: str, size: int) -> EncodedCall:
    method, service = call.method, call.service
    if service == CRI_SERVICE:
        decoded = _container_status(call)
    elif service == v01.SERVICE:
        decoded = _invocation(call)
    else:
        decoded = decode_request(method, call.request, service)
    encoded = EncodedCall(call, size, decoded)
    if method in _CHANGING_METHODS and decoded.message is not None:
        _decode_changes(encoded, decoded.message, plugin)
    return encoded


def _container_status(call: CapturedCall) -> Decoded:
    container_id = requested_container_id(call.request) if call.method == CONTAINER_STATUS else None
    if container_id is None:
        return Decoded(call.method, call.method, None, None, None, UNKNOWN)
    # As an NRI message, with the only field that both protocols share.
    return Decoded(call.method, call.method, None, None, Container(id=container_id), "")


def _invocation(call: CapturedCall) -> Decoded:
    request = v01.parse_request(call.request)
    if request is None or request.method != call.method:
        return Decoded(call.method, call.method, None, None, None, MALFORMED)
    return Decoded(call.method, call.method, None, request.pod, request.container, "")


def _decode_changes(encoded: EncodedCall, message: Message, plugin: str) -> None:
    call = encoded.call
    # The runtime ignores a reply with an error, or after the deadline (which only a tap captures).
    reply = decode_reply(call.method, call.reply) if call.reply and not call.status_code else None
    if not (call.status_code and is_plugins_call(call.method, encoded.decoded.mark)):
        encoded.changed, encoded.owners = changes_of(call.method, message, reply, plugin)
    encoded.updated = targets_of(call.method, message, reply)


def rest_of(decoded: Decoded, message: Message) -> bytes:
    """Remove the parts that have their own objects from the request ``message``; return the rest,
    serialized.
    """
    if decoded.pod is not None:
        message.ClearField("pod")
    if decoded.container is not None:
        message.ClearField("container")
    if isinstance(message, SynchronizeRequest):
        del message.pods[:]
        del message.containers[:]
    return message.SerializeToString(deterministic=True)


def metadata_json(pairs: tuple[tuple[str, str], ...]) -> str | None:
    """Return metadata as JSON for its column; None if empty. Pairs above `METADATA_MAX` are
    replaced by one with their number.
    """
    if not pairs:
        return None
    stored: list[list[str]] = []
    budget = METADATA_MAX
    for key, value in pairs:
        budget -= len(key) + len(value) + _PAIR_OVERHEAD
        if budget < 0:
            stored.append(["", f"pairs omitted, as too long: {len(pairs) - len(stored)}"])
            break
        stored.append([storable(key), storable(value)])
    return json.dumps(stored)


def json_list(texts: Sequence[str]) -> str | None:
    """Return a list of paths or owners as JSON for its column; None if empty."""
    if not texts:
        return None
    return json.dumps(listed(texts), ensure_ascii=False, separators=(",", ":"))
