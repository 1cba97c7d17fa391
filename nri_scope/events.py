# SPDX-License-Identifier: Apache-2.0
"""The content of a recording as immutable values, for the recorder and for readers.

Times are integers in nanoseconds: ``*_ns`` wall-clock values count from the Unix epoch,
``mono_ns`` from an arbitrary point of the recording host's monotonic clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Literal, NamedTuple

from nri_scope.nri.events import (
    CONFIGURE,
    REGISTER,
    SHUTDOWN,
    STATE_CHANGE_EVENTS,
    SYNCHRONIZE,
    UNSOLICITED,
    EventKind,
)
from nri_scope.nri.runtime_setup import NO_POLICY, NOT_INTRODUCED, FailurePolicy, Introduction
from nri_scope.nri.versions import runtime_remark, runtime_words

CONTAINER_STATUS = "ContainerStatus"
CRI_SERVICE = "runtime.v1.RuntimeService"
"""The CRI's method and service that events of a ``cri`` session call."""
ANY_TIME = frozenset({UNSOLICITED, CONTAINER_STATUS, SHUTDOWN})
"""Exchanges between the runtime and one connection that can happen at any time."""
INTRODUCTION = frozenset({REGISTER, CONFIGURE})
SET_UP = INTRODUCTION | {SYNCHRONIZE}
"""Exchanges before a connection joins the chain. They can happen while other plugins handle an
event; the new plugin then receives events from the next chain on (containerd/nri,
pkg/adaptation)."""
ASIDE = SET_UP | ANY_TIME
"""Exchanges between the runtime and one connection, outside any chain. They can also happen during
a round."""

LATE = "answered after the deadline"
"""Status message of an event whose reply came too late, but before the connection ended."""


class Role(StrEnum):
    """The part of nri-scope that recorded a session."""

    LOGGER = "logger"
    PROBE = "probe"
    TAP = "tap"
    REPLAY = "replay"
    CRI = "cri"
    """Not a plugin connection: the CRI's replies about containers."""
    SCENARIO = "scenario"
    """Made from a scenario: no runtime sent the requests, and no plugin received them."""
    V01 = "v0.1"
    """Not a plugin connection: invocations of one plugin by NRI 0.1."""


PASSIVE_ROLES = frozenset({Role.LOGGER, Role.PROBE, Role.SCENARIO})
"""Roles of connections of nri-scope itself, which change nothing."""

OUTSIDE_CHAIN = (Role.CRI, Role.V01)
"""Roles of sessions that are not plugin connections."""


class Status(StrEnum):
    """Result of an event, by its name in filters."""

    OK = "ok"
    ERROR = "error"
    TIMEOUT = "timeout"


class Problem(StrEnum):
    """Problem of an event, by its name in filters."""

    FAILED = "failed"
    """The plugin returned an error or missed its deadline, or the operation failed."""
    SLOW = "slow"
    """The reply took more than half of the deadline, or the time before this event did."""


def status_of(code: int) -> Status:
    """Return the status of an event with this google.rpc.Code."""
    if code == 0:
        return Status.OK
    return Status.TIMEOUT if code == 4 else Status.ERROR


OptionalProblem = Problem | Literal[""]


def problem_of(status_code: int, took_ns: int, timeout_ns: int) -> OptionalProblem:
    """Return the `Problem` that an event shows by itself; "" for none."""
    if status_code:
        return Problem.FAILED
    return Problem.SLOW if 0 < timeout_ns < 2 * took_ns else ""


_UNIMPLEMENTED = 12
"""google.rpc.Code of a call of an RPC that the plugin lacks."""
_WITH_STATE_CHANGE = frozenset(kind.name for kind in STATE_CHANGE_EVENTS)


@lru_cache(maxsize=256)
def plugin_title(index: str, name: str) -> str:
    """Return ``NN-name``, or the name alone for a plugin without an index, outside any chain."""
    return f"{index}-{name}" if index else name


NO_ID = "no-id-"
"""Prefix, before the number of its CreateContainer, that stands for a container's id as long as the
runtime has not assigned it. iSulad does so after CreateContainer, if the creation succeeds."""


@dataclass(frozen=True, slots=True)
class SessionStart:
    """Properties of a plugin connection, known once Configure is answered."""

    role: Role
    plugin_name: str
    plugin_index: str
    runtime_name: str
    runtime_version: str
    nri_version: str
    """Reported by the runtime (NRI 0.12+), or inferred from its name and version; "" if unknown."""
    nri_version_inferred: bool
    mask: int
    registration_timeout_ms: int
    """0 if the runtime does not report it (before NRI 0.7)."""
    request_timeout_ms: int
    started_ns: int

    @classmethod
    def unconfigured(cls, role: Role, index: str, name: str, started_ns: int) -> SessionStart:
        """Return the start of a session without Configure, which names the runtime."""
        return cls.configured(role, index, name, NOT_INTRODUCED, 0, started_ns)

    @classmethod
    def configured(
        cls, role: Role, index: str, name: str, runtime: Introduction, mask: int, started_ns: int
    ) -> SessionStart:
        """Return the start of a session for which the runtime introduced itself in Configure."""
        return cls(
            role=role,
            plugin_name=name,
            plugin_index=index,
            runtime_name=runtime.runtime_name,
            runtime_version=runtime.runtime_version,
            nri_version="" if runtime.version is None else str(runtime.version),
            nri_version_inferred=runtime.inferred,
            mask=mask,
            registration_timeout_ms=runtime.registration_timeout_ms,
            request_timeout_ms=runtime.request_timeout_ms,
            started_ns=started_ns,
        )

    @property
    def runtime(self) -> str:
        """Runtime for display, such as ``containerd v2.1.0 (NRI 0.8.0, inferred)``."""
        title = runtime_words(self.runtime_name, self.runtime_version)
        version = self.nri_version or "unknown"
        inferred = ", inferred" if self.nri_version_inferred else ""
        return f"{title} (NRI {version}{inferred}){runtime_remark(self.runtime_name)}"


EVENT_TEXTS = ("status_message",)
"""Fields of `CapturedCall` and `Event` with free text about the event's container. Redaction learns
secrets from them and replaces secrets in them."""


class CapturedCall(NamedTuple):
    """One request and its reply, exactly as on the wire."""

    wall_ns: int
    mono_ns: int
    method: str
    request: bytes
    reply: bytes
    """Payload of the response; empty when ``status_code`` is not 0."""
    status_code: int
    """google.rpc.Code of the reply; 0 is OK, 4 a reply that is missing or came too late."""
    status_message: str
    took_ns: int
    """Time from the arrival of the request's last byte until the reply is written to the socket.
    For a tap: from forwarding that byte until the arrival of the reply's last byte."""
    timeout_ns: int
    """The deadline sent with the request; 0 if none."""
    service: str = ""
    """The ttRPC service named in the request; empty for the method's usual service."""
    held_ns: int | None = None
    """Time inside a tap, of request and reply, in addition to `took_ns`; None without a tap."""
    metadata: tuple[tuple[str, str], ...] = ()
    """ttRPC metadata of the request: all of it from a tap, otherwise only its trace context."""


@dataclass(frozen=True, slots=True)
class Session:
    """A session as stored in a recording."""

    id: int
    role: str
    """A `Role`; any other text if a later version recorded it, or a forger."""
    plugin_name: str
    plugin_index: str
    runtime_name: str
    runtime_version: str
    nri_version: str
    nri_version_inferred: bool
    mask: int
    registration_timeout_ms: int
    request_timeout_ms: int
    started_ns: int
    ended_ns: int | None
    """None while the session is open, or if its recorder was killed."""
    end_reason: str
    synced_ns: int | None = None
    """Arrival of the newest Synchronize, from which on events are observed; None if there was none,
    or if it is not complete."""
    failure_policy: FailurePolicy | None = NO_POLICY
    """What the runtime does if the plugin does not answer. No column of its own: a reader takes it
    from the reply to Configure; None if that is not in the recording."""

    @property
    def plugin(self) -> str:
        """``NN-name``, as runtimes write it; the name alone without an index."""
        return plugin_title(self.plugin_index, self.plugin_name)

    @property
    def is_connection(self) -> bool:
        """Whether this is a plugin connection, and so a part of NRI's chain."""
        return self.role not in OUTSIDE_CHAIN

    def subscribes_to(self, event: EventKind) -> bool:
        """Return whether the runtime sends `event` to the session: a mask of 0 has all events."""
        return self.mask == 0 or bool(self.mask & event.bit)


class OutcomeKind(StrEnum):
    """What became of a request, as far as evidence shows it."""

    REQUESTED = "requested"
    """A plugin, a CRI client or the runtime asked for it; nothing later shows the result."""
    SEEN = "seen"
    """A later event carries the value, in a field that shows the real state at this runtime."""
    IN_EFFECT = "in effect"
    """The runtime's own spec, config.json or the cgroup has the value."""
    REFUSED = "refused"
    """The operation failed: by an error, a conflict, or because the Post event that must follow did
    not come."""
    DROPPED = "dropped"
    """The operation went on without the value: by a named rule of this runtime and version, or
    because a later state shows the earlier value."""
    SUPERSEDED = "superseded"
    """Another value took its place."""


HAPPENED = frozenset({OutcomeKind.SEEN, OutcomeKind.IN_EFFECT})
"""Outcomes of changes; all others are outcomes of requests."""


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the log: an event without its request and reply."""

    id: int
    session: int
    seq: int
    """Order within the session, from 1."""
    at_ns: int
    mono_ns: int
    plugin: str
    """``NN-name`` of the plugin connection that received it."""
    runtime: str
    method: str
    """The RPC on the wire, e.g. StateChange."""
    event: str
    """The NRI event, e.g. PostStartContainer; the method's name for other calls."""
    namespace: str
    pod: str
    container: str
    pod_id: str
    container_id: str
    """The container's id; `NO_ID` with an event's number if the runtime assigns the id later."""
    took_ns: int
    timeout_ns: int
    size: int
    """Bytes of the request's protobuf payload on the wire."""
    status: Status
    status_code: int
    status_message: str
    mark: str
    """`MALFORMED`, `UNKNOWN` or `OVERSIZED` of `nri.request_subject` for an event stored raw,
    otherwise "". The text is from the recording, so it may be any other."""
    problem: OptionalProblem = ""
    """Problems that only several events show are known after
    `Recording.attach`."""
    changed: tuple[str, ...] = ()
    """OCI paths that plugins asked to change, according to this event, or changed. With `outcomes`,
    one for each request: a path for which two asked is there twice."""
    owners: tuple[str, ...] = ()
    """Plugins (``NN-name``) that asked for these changes. With `outcomes`, the owner of each of the
    requests, which may be another one: ``CRI request``, ``one of 00–19``."""
    outcomes: tuple[str, ...] = ()
    """The `OutcomeKind` of each of these requests; () if later events were not analysed, see
    `Recording.attach`. Requests that evidence shows as changes come first."""
    targets: tuple[str, ...] = ()
    """For each of these requests, ``ns/pod/container`` of another container that it is about, or ""
    for the event's own one; () if `outcomes` is empty."""

    @property
    def is_sent_again(self) -> bool:
        """Whether the plugin lacks the RPC, so that the runtime sends a StateChange next."""
        is_unimplemented = self.status_code == _UNIMPLEMENTED and self.method == self.event
        return is_unimplemented and self.method in _WITH_STATE_CHANGE

    @property
    def changes(self) -> int:
        """Number of requests that evidence shows as changes: the first ones of `changed`."""
        return sum(kind in HAPPENED for kind in self.outcomes)

    @property
    def count(self) -> int:
        """Number of changes; without any, of requests."""
        return self.changes or len(self.changed)

    @property
    def main_owners(self) -> tuple[str, ...]:
        """The owners of the changes, each once; without changes, of the requests."""
        return self.owners_of(slice(self.changes or None))

    @property
    def is_alone(self) -> bool:
        """Whether it is about a container in no pod.

        Docker Engine sends each container also as a pod with the same id.
        """
        return self.pod_id == self.container_id and bool(self.pod_id)

    @property
    def pod_prefix(self) -> str:
        """``ns/pod/``, which precedes its container's name; "" without a pod."""
        return f"{self.namespace}/{self.pod}/" if self.pod and not self.is_alone else ""

    def owners_of(self, some: slice) -> tuple[str, ...]:
        """Return the owners of some requests, each once; all owners if outcomes are not known."""
        return tuple(dict.fromkeys(self.owners[some] if self.outcomes else self.owners))


LEFT_OUT = "this is a part of a recording: these events were recorded, and are not in it"
"""Reason of gaps in a part of a recording that stand for omitted events."""

RING_REMOVED = "older events were removed to keep the recording small (--max-size, --max-age)"
"""Reason of the single gap that stands for all events removed by a recorder's ring."""

REDACTED = "secret and personal values were replaced by tokens"
"""Text of a note in every redacted recording."""

NOT_CONNECTED = "not connected to the runtime"
NO_SESSION = "no session was recorded"
STALLED = "the recorder stalled"
LATE_SYNCHRONIZE = "no event came after the late reply to Synchronize"
"""Beginnings of the reasons of gaps: nothing observed the runtime, or events were answered late."""

UNRESPONSIVE = "the recorder does not respond"
"""Reason of a gap up to now: the recorder is stopped, or its disk does not answer."""

UNWRITTEN = "the recorder cannot write"
"""Beginning of the reason of a gap up to now: events wait in the recorder's memory."""

FILTERED = "only events that match a filter were recorded"
"""Beginning of a note about the session of a recorder that writes only some events."""

UNREADABLE = "the recording cannot be read"
"""Beginning of the reason of a gap that an agent sends in place of a recording, or of its rest."""

KILLED = "its recorder ended without closing it"
"""Reason for the end of a session whose recorder was killed, and of the gap until recording to the
file continued."""


@dataclass(frozen=True, slots=True)
class Gap:
    """An interval that was not observed, or only partly."""

    id: int
    """0 until it is stored, as in `Note` and `Printed`."""
    session: int | None
    from_ns: int
    to_ns: int
    reason: str
    lost: int | None
    """Number of events lost; None if unknown."""
    dropped: int = 0
    """Number of the session's events, received and then lost, which a recorder is still to count;
    0 in a recording."""

    @property
    def is_left_out(self) -> bool:
        """Whether this stands for events omitted from a part of a recording, not for lost ones."""
        return self.reason == LEFT_OUT

    @property
    def losses(self) -> dict[str, int | None]:
        """Number of ``lost`` events, and in a part of a recording of those ``left_out``."""
        return {"lost": 0, "left_out": self.lost} if self.is_left_out else {"lost": self.lost}


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod sandbox seen in a recording."""

    key: int
    id: str
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Container:
    """A container seen in a recording."""

    key: int
    id: str
    name: str
    pod: Pod | None

    @property
    def is_alone(self) -> bool:
        """Whether it is in no pod; see `Event.is_alone`."""
        return self.pod is None or (self.pod.id == self.id and bool(self.id))


@dataclass(frozen=True, slots=True)
class Note:
    """A remark by the program that wrote the recording; it may quote one by the user."""

    id: int
    session: int | None
    at_ns: int
    text: str


@dataclass(frozen=True, slots=True)
class Printed:
    """A line of output of a plugin launched by a tap."""

    id: int
    session: int
    at_ns: int
    """Wall clock at the beginning of the line."""
    stream: str
    """``stdout`` or ``stderr``."""
    text: str


class Tapped(NamedTuple):
    """Data about the transport of an event: a tap's, or the trace context in its metadata."""

    event: int
    held_ns: int | None
    """Time in the tap; None if no tap recorded the event."""
    metadata: tuple[tuple[str, str], ...] = ()


MAX_MARKS = 10_000
"""Maximum number of marks in a recording."""
MAX_COMMENT = 2_000
"""Maximum length of a comment in characters."""

MarkKey = tuple[int, int]
"""Number and time of the marked event. Because of the time, marks of an earlier file of the same
name do not match."""


@dataclass(frozen=True, order=True, slots=True)
class UserMark:
    """A user's mark on an event, or the removal of one."""

    event: int
    at_ns: int
    """Wall clock of the event."""
    comment: str = ""
    made_ns: int = 0
    """Wall clock when the user made the mark; the newest mark of an event counts."""
    gone: bool = False
    """Whether this removes an older mark, which may be in a file that cannot be written now."""

    @property
    def key(self) -> MarkKey:
        """Number and time of the marked event."""
        return self.event, self.at_ns


@dataclass(frozen=True, slots=True)
class InitialState:
    """Pods and containers that existed when a session began, as reported by Synchronize."""

    pods: tuple[bytes, ...]
    """Serialised PodSandbox messages, in the order of Synchronize."""
    containers: tuple[bytes, ...]
    """Serialised Container messages."""
    complete: bool
    """False if the last part of Synchronize never arrived."""


def is_set_up(events: Sequence[Event]) -> bool:
    """Return whether a plugin joined its runtime by these events of an operation."""
    return len(events) > 1 and events[0].method in SET_UP


class SetUps:
    """The events of `SET_UP` in order: which of them are adjacent, and of one session."""

    def __init__(self) -> None:
        self._newest = (0, 0, 0)
        """First, last and session of the newest ones."""

    def first_of(self, number: int, session: int) -> int:
        """Return the first one of those to which the next one belongs."""
        first, last, earlier_session = self._newest
        if (last + 1, earlier_session) != (number, session):
            first = number
        self._newest = (first, number, session)
        return first
