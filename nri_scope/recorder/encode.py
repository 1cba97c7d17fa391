# SPDX-License-Identifier: Apache-2.0
"""Encode captured exchanges as rows of a recording."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass

from google.protobuf.message import Message

from nri_scope._gen.nri.api_pb2 import Container, PodSandbox, SynchronizeRequest
from nri_scope.entries import EarlierState, Exchange
from nri_scope.events import (
    CONTAINER_STATUS,
    CRI_SERVICE,
    NO_ID,
    CapturedCall,
    Event,
    SessionStart,
    Status,
    plugin_title,
    problem_of,
)
from nri_scope.nri import v01
from nri_scope.nri.changes import changes_of, targets_of
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
from nri_scope.recording.blobs import ObjectKind
from nri_scope.recording.creation_outcomes import INSERT_OUTCOME
from nri_scope.recording.event_messages import requested_container_id
from nri_scope.recording.schema import TABLES
from nri_scope.recording.sqlite_text import HIGHEST, LOWEST, int64, listed, named, storable

from .content_store import Names, ObjectStore
from .event_subjects import ContainerRow, PodRow, Subjects

# Methods that can contain changes; replies of other methods need not be decoded.
_CHANGING_METHODS = frozenset(
    {
        "CreateContainer",
        "StopContainer",
        "Synchronize",
        "UpdateContainer",
        "UpdateContainers",
        "ValidateContainerAdjustment",
    }
)
_CREATE = "CreateContainer"
# Rows have all columns, in schema order.
_COLUMNS = next(len(table.columns) for table in TABLES if table.name == "event")
_INSERT_EVENT = f"INSERT INTO event VALUES ({', '.join('?' * _COLUMNS)})"
_INSERT_STATE = "INSERT INTO state VALUES (?, ?, ?, ?, ?, ?)"
_INSERT_EFFECT = "INSERT INTO effect (container, event) VALUES (?, ?)"
INSERT_PLUGIN_CALLS = "INSERT OR REPLACE INTO plugin_calls VALUES (?, ?, ?, ?, ?, ?, ?)"
_INSERT_TAPPED = "INSERT INTO tapped (event, held_ns, metadata) VALUES (?, ?, ?)"
_INSERT_METADATA = "INSERT INTO request_metadata (event, metadata) VALUES (?, ?)"
_INSERT_OMITTED = "INSERT INTO left_out (event, seq, count) VALUES (?, ?, ?)"

METADATA_MAX = 16 << 10
"""Maximum number of characters of a request's metadata; plugins and runtimes send about a hundred.
"""
_PAIR_OVERHEAD = 8
"""Characters of JSON syntax per key-value pair."""

EventRow = tuple[int | str | None, ...]
StateRow = tuple[int | None, ...]


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


def status_of(code: int) -> str:
    """Return the status, in the words of filters, for a google.rpc.Code."""
    if code == 0:
        return Status.OK
    return Status.TIMEOUT if code == 4 else Status.ERROR


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
        empty: bool,
        redact: Callable[[CapturedCall], CapturedCall] | None = None,
    ) -> None:
        """Create an encoder without rows.

        ``empty``: whether the file has no pods and containers. ``redact`` returns the redacted
        form of an event, which is what is written.
        """
        self._connection = connection
        self._redact = redact
        self._names = Names(connection)
        self.subjects = Subjects(connection, empty=empty)
        self.objects = objects
        self.next_event = next_event
        self._events: list[EventRow] = []
        self._states: list[StateRow] = []
        self._effects: list[tuple[int, int]] = []
        self._tapped: list[tuple[int, int, str | None]] = []
        self._metadata: list[tuple[int, str | None]] = []
        self._outcomes: list[tuple[int, str, int, str, int, int]] = []
        self._omitted: list[tuple[int, int, int]] = []

    def encode(
        self,
        session: OpenSession,
        item: CapturedCall,
        *,
        keep: Callable[[Event], bool] | None = None,
        want_event: bool = False,
        known: Exchange | None = None,
    ) -> tuple[bool, Event | None, CapturedCall]:
        """Encode one event into rows, unless ``keep`` rejects it.

        ``known``: what another recording has of it, whose number is higher than those before it.
        Returns whether it was kept, the event (None unless ``want_event``), and the exchange,
        redacted if required.
        """
        session.seq += 1
        size = len(item.request)
        if known is not None:
            size, session.seq = known.event.size, known.event.seq or session.seq
            self.next_event = max(self.next_event, known.event.id)
        decoded = _decoded(item)
        changed, owners, updated = _changes(decoded, item, session.plugin)
        event: Event | None = None
        if want_event or keep is not None:
            event = self._event(session, item, decoded, changed, owners, size)
            if keep is not None and not keep(event):
                return False, None, item
        if self._redact is not None:
            # Only the filter receives the original.
            item = self._redact(item)
            decoded = _decoded(item)
            changed, owners, updated = _changes(decoded, item, session.plugin)
            if want_event:
                event = self._event(session, item, decoded, changed, owners, size)
        event_id = self.next_event
        pod_row: PodRow | None = None
        pod_key: int | None = None
        container_row: ContainerRow | None = None
        pod_object = container_object = rest_object = None
        states: list[StateRow] = []
        message = decoded.message
        put = self.objects.put
        keys = None if known is None else known.keys
        if known is not None and keys is None:
            self._add_names(decoded, known.event)
        if keys is None:
            if decoded.pod is not None:
                pod_row = self.subjects.pod(decoded.pod)
                pod_key = pod_row.key if pod_row is not None else None
            if decoded.container is not None:
                created = (session.id, event_id) if decoded.event == _CREATE else None
                container_row = self.subjects.container(decoded.container, pod_row, created)
                if container_row is not None and pod_key is None and message is None:
                    pod_key = container_row.pod
            container_key = container_row.key if container_row is not None else None
            effects = self._effects_of(event_id, updated, container_row) if updated else ()
            own = container_row.id if container_row is not None else ""
        else:
            pod_key, container_key = keys.pod, keys.container
            effects = [(key, event_id) for key in keys.updated]
            own = "" if known is None else known.event.container_id
        if message is None:
            if item.request:
                rest_object = put(ObjectKind.RAW, item.request, "", item.method)
        else:
            if decoded.pod is not None:
                pod_object = put_pod(self.objects, decoded.pod)
            if decoded.container is not None:
                container_object = put_container(self.objects, decoded.container)
            if isinstance(message, SynchronizeRequest):
                states = self._synchronize(session, event_id, item.wall_ns, message)
            rest = rest_of(decoded, message)
            if rest:
                rest_object = put(ObjectKind.REST, rest, "", item.method)
        # Of all replies, only CRI answers are versions of one object.
        own = own if message is None else ""
        reply_object = put(ObjectKind.REPLY, item.reply, own, item.method) if item.reply else None
        wall_ns, mono_ns, took_ns, timeout_ns = (
            item.wall_ns,
            item.mono_ns,
            item.took_ns,
            item.timeout_ns,
        )
        numbers = (wall_ns, mono_ns, took_ns, timeout_ns)
        if min(numbers) < LOWEST or max(numbers) > HIGHEST:
            wall_ns, mono_ns = int64(wall_ns), int64(mono_ns)
            took_ns, timeout_ns = int64(took_ns), int64(timeout_ns)
        # Update state only here: if anything above fails, no event was encoded.
        self.next_event = event_id + 1
        self._states += states
        self._effects += effects
        if item.held_ns is not None:
            self._tapped.append((event_id, int64(item.held_ns), metadata_json(item.metadata)))
        elif item.metadata:
            self._metadata.append((event_id, metadata_json(item.metadata)))
        if known is not None:
            if known.outcome is not None:
                self._outcomes.append((event_id, *known.outcome.row))
            if known.omitted is not None:
                self._omitted.append((event_id, known.omitted.seq, known.omitted.events))
        self._events.append(
            (
                event_id,
                session.id,
                session.seq,
                wall_ns,
                mono_ns,
                self._names.id(item.method),
                self._names.id(decoded.event),
                self._names.id(item.service) if item.service else None,
                pod_key,
                container_key,
                pod_object,
                container_object,
                rest_object,
                reply_object,
                item.status_code,
                storable(item.status_message) if item.status_message else None,
                took_ns,
                timeout_ns,
                size,
                decoded.mark or None,
                json_list(changed),
                json_list(owners),
            )
        )
        return True, event, item

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
        self._states += self._synchronize(session, state.event, state.at_ns or 0, message)

    def flush(self) -> None:
        """Write the buffered rows. Raises sqlite3.Error."""
        self.subjects.flush()
        self.objects.flush(self._connection)
        if self._states:
            self._connection.executemany(_INSERT_STATE, self._states)
            self._states = []
        if self._events:
            self._connection.executemany(_INSERT_EVENT, self._events)
            self._events = []
        if self._effects:
            self._connection.executemany(_INSERT_EFFECT, self._effects)
            self._effects = []
        if self._tapped:
            self._connection.executemany(_INSERT_TAPPED, self._tapped)
            self._tapped = []
        if self._metadata:
            self._connection.executemany(_INSERT_METADATA, self._metadata)
            self._metadata = []
        if self._outcomes:
            self._connection.executemany(INSERT_OUTCOME, self._outcomes)
            self._outcomes = []
        if self._omitted:
            self._connection.executemany(_INSERT_OMITTED, self._omitted)
            self._omitted = []

    @property
    def buffered(self) -> int:
        """Number of events since the last `flush`."""
        return len(self._events)

    def _synchronize(
        self, session: OpenSession, event_id: int, at_ns: int, message: SynchronizeRequest
    ) -> list[StateRow]:
        position = 0
        rows: list[StateRow] = []
        for pod in message.pods:
            pod_row = self.subjects.pod(pod)
            key = pod_row.key if pod_row is not None else None
            rows.append((session.id, event_id, position, key, None, put_pod(self.objects, pod)))
            position += 1
        for container in message.containers:
            row = self.subjects.container(container, None)
            key, pod_key = (row.key, row.pod) if row is not None else (None, None)
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

    def _effects_of(
        self, event_id: int, updated: Set[str], about: ContainerRow | None
    ) -> list[tuple[int, int]]:
        rows = (
            self.subjects.container(Container(id=container_id), None)
            for container_id in sorted(updated)
            if about is None or container_id != about.id
        )
        return [(row.key, event_id) for row in rows if row is not None]

    def _event(
        self,
        session: OpenSession,
        item: CapturedCall,
        decoded: Decoded,
        changed: tuple[str, ...],
        owners: tuple[str, ...],
        size: int,
    ) -> Event:
        namespace = pod_name = pod_id = container_name = container_id = ""
        if decoded.pod is not None:
            pod = decoded.pod
            namespace, pod_name, pod_id = pod.namespace, name_of_pod(pod), pod.id
            if pod_id and not (namespace and pod_name):
                known = self.subjects.known_pod(pod_id)
                if known is not None:
                    namespace, pod_name = namespace or known.namespace, pod_name or known.name
        if decoded.container is not None:
            container_id = decoded.container.id
            container_name = name_of_container(decoded.container)
        if decoded.message is None and container_id and not container_name:
            container_name, known = self.subjects.known_names(container_id)
            if known is not None:
                namespace, pod_name, pod_id = known.namespace, known.name, known.id
        return Event(
            id=self.next_event,
            session=session.id,
            seq=session.seq,
            at_ns=int64(item.wall_ns),
            mono_ns=int64(item.mono_ns),
            plugin=session.plugin,
            runtime=session.runtime,
            method=named(item.method),
            event=named(decoded.event),
            namespace=namespace,
            pod=pod_name,
            container=container_name,
            pod_id=pod_id,
            container_id=container_id,
            took_ns=int64(item.took_ns),
            timeout_ns=int64(item.timeout_ns),
            size=size,
            status=status_of(item.status_code),
            status_code=item.status_code,
            status_message=storable(item.status_message),
            mark=decoded.mark,
            problem=problem_of(item.status_code, item.took_ns, item.timeout_ns),
            changed=changed,
            owners=owners,
        )


def _decoded(item: CapturedCall) -> Decoded:
    if item.service == CRI_SERVICE:
        return _container_status(item)
    if item.service == v01.SERVICE:
        return _invocation(item)
    return decode_request(item.method, item.request, item.service)


def _container_status(item: CapturedCall) -> Decoded:
    container_id = requested_container_id(item.request) if item.method == CONTAINER_STATUS else None
    if container_id is None:
        return Decoded(item.method, item.method, None, None, None, UNKNOWN)
    # As an NRI message, with the only field that both protocols share.
    return Decoded(item.method, item.method, None, None, Container(id=container_id), "")


def _invocation(item: CapturedCall) -> Decoded:
    request = v01.parse_request(item.request)
    if request is None or request.method != item.method:
        return Decoded(item.method, item.method, None, None, None, MALFORMED)
    return Decoded(item.method, item.method, None, request.pod, request.container, "")


def _changes(
    decoded: Decoded, item: CapturedCall, plugin: str
) -> tuple[tuple[str, ...], tuple[str, ...], Set[str]]:
    """Return changed paths, owners, and the ids of containers to be updated or evicted."""
    if item.method not in _CHANGING_METHODS or decoded.message is None:
        return (), (), frozenset()
    # The runtime ignores a reply with an error, or after the deadline (which only a tap captures).
    reply = decode_reply(item.method, item.reply) if item.reply and not item.status_code else None
    changed, owners = changes_of(item.method, decoded.message, reply, plugin)
    if item.status_code and is_plugins_call(item.method, decoded.mark):
        changed, owners = (), ()
    return changed, owners, targets_of(item.method, decoded.message, reply)


def put_pod(objects: ObjectStore, pod: PodSandbox) -> int:
    """Store a pod; return its object id."""
    # Pods of one workload share a prefix: web-7d9f8b6c5-x2x7k.
    like = f"{pod.namespace}/{name_of_pod(pod).partition('-')[0]}"
    return objects.put(ObjectKind.POD, pod.SerializeToString(deterministic=True), pod.id, like)


def put_container(objects: ObjectStore, container: Container) -> int:
    """Store a container; return its object id."""
    content = container.SerializeToString(deterministic=True)
    return objects.put(ObjectKind.CONTAINER, content, container.id, name_of_container(container))


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
    kept: list[list[str]] = []
    budget = METADATA_MAX
    for key, value in pairs:
        budget -= len(key) + len(value) + _PAIR_OVERHEAD
        if budget < 0:
            left = len(pairs) - len(kept)
            kept.append(["", f"too long to be kept, with what follows: {left} in all"])
            break
        kept.append([storable(key), storable(value)])
    return json.dumps(kept)


def json_list(texts: Sequence[str]) -> str | None:
    """Return a list of paths or owners as JSON for its column; None if empty."""
    if not texts:
        return None
    return json.dumps(listed(texts), ensure_ascii=False, separators=(",", ":"))
