# SPDX-License-Identifier: Apache-2.0
"""The content of a recording, as plain immutable values: what is written and what is read.

Times are integers in nanoseconds: ``*_ns`` wall-clock values count from the Unix epoch,
``mono_ns`` from an arbitrary point of the recording host's monotonic clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

CONTAINER_STATUS = "ContainerStatus"
CRI_SERVICE = "runtime.v1.RuntimeService"
"""The CRI's method, and its service, that events of a ``cri`` session are calls of."""

LATE = "answered after the deadline"
"""The message of such an event, where the runtime has waited for it all the same."""


class Role(StrEnum):
    """The writer of a session."""

    LOGGER = "logger"
    PROBE = "probe"
    TAP = "tap"
    REPLAY = "replay"
    CRI = "cri"
    """No plugin connection: the CRI's answers about containers."""


class Status(StrEnum):
    """The result of an event, as filters name it."""

    OK = "ok"
    ERROR = "error"
    TIMEOUT = "timeout"


def plugin_title(index: str, name: str) -> str:
    """Return ``NN-name``, or the name alone for a plugin without an index, which is in no chain."""
    return f"{index}-{name}" if index else name


@dataclass(frozen=True, slots=True)
class SessionStart:
    """One plugin connection, as known once Configure was answered."""

    role: Role
    plugin_name: str
    plugin_index: str
    runtime_name: str
    runtime_version: str
    nri_version: str
    """As the runtime said (NRI 0.12+), or as inferred from its name and version; "" if unknown."""
    nri_version_inferred: bool
    mask: int
    registration_timeout_ms: int
    """0 where the runtime does not say (before NRI 0.7)."""
    request_timeout_ms: int
    started_ns: int


class CapturedCall(NamedTuple):
    """One request from the runtime and our answer, exactly as they were on the wire."""

    wall_ns: int
    mono_ns: int
    method: str
    request: bytes
    reply: bytes
    """Payload of the response; empty when ``status_code`` is not 0."""
    status_code: int
    """google.rpc.Code of the answer; 0 is OK, 4 means that the answer came too late."""
    status_message: str
    took_ns: int
    """From the arrival of the request's last byte to the hand-over of the reply to the socket. Of a
    tap: from the hand-over of that byte to the plugin to the arrival of the reply's last one."""
    timeout_ns: int
    """The deadline the runtime sent with the request; 0 if none."""
    service: str = ""
    """Empty for the usual service of the method; else the ttRPC service that was named."""
    held_ns: int | None = None
    """Time in a tap, on both ways, beside `took_ns`; None where there was no tap."""
    metadata: tuple[tuple[str, str], ...] = ()
    """What came along with the request, as a tap saw it."""


@dataclass(frozen=True, slots=True)
class Session:
    """A session as stored."""

    id: int
    role: str
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
    """None while it is open, or when the recorder was killed."""
    end_reason: str

    @property
    def plugin(self) -> str:
        """``NN-name``, as runtimes write it; the name alone where there is no index."""
        return plugin_title(self.plugin_index, self.plugin_name)


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the log: an event without its messages."""

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
    """What happened, e.g. PostStartContainer; the method's name where there is no NRI event."""
    namespace: str
    pod: str
    container: str
    pod_id: str
    container_id: str
    took_ns: int
    timeout_ns: int
    size: int
    """Bytes of the request's protobuf payload on the wire."""
    status: str
    status_code: int
    status_message: str
    mark: str
    """"" for an ordinary event; "malformed", "unknown" or "oversized" where it is stored raw."""
    changed: tuple[str, ...] = ()
    """OCI paths that plugins changed, where this event says so."""
    owners: tuple[str, ...] = ()
    """Plugins (``NN-name``) that made these changes."""


LEFT_OUT = "this is a part of a recording: these events were recorded, and are not in it"
"""The reason of gaps that stand for what a part of a recording was made without."""

RING_REMOVED = "older events were removed to keep the recording small (--max-size, --max-age)"
"""The reason of the one gap that stands for all that a recorder's ring removed."""

KILLED = "its recorder ended without closing it"
"""Why a session ended, and what is said of the time until the file was continued."""


@dataclass(frozen=True, slots=True)
class Gap:
    """An interval that was not (or not wholly) observed."""

    id: int
    session: int | None
    from_ns: int
    to_ns: int
    reason: str
    lost: int | None
    """How many events were lost; None where that is unknown."""

    @property
    def is_left_out(self) -> bool:
        """Whether this stands for events that a part of a recording omits: nothing was lost."""
        return self.reason == LEFT_OUT


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


@dataclass(frozen=True, slots=True)
class Note:
    """A remark of the program that wrote the recording."""

    id: int
    session: int | None
    at_ns: int
    text: str


class Printed(NamedTuple):
    """A line that a plugin printed which the tap had launched."""

    id: int
    session: int
    at_ns: int
    """When it began."""
    stream: str
    """stdout or stderr."""
    text: str


class Tapped(NamedTuple):
    """A tap's record of an event."""

    event: int
    held_ns: int
    metadata: tuple[tuple[str, str], ...] = ()


MAX_MARKS = 10_000
"""Of one recording."""
MAX_COMMENT = 2_000
"""Characters."""

MarkKey = tuple[int, int]
"""What a mark is of: number and time of an event. Together they name it, so that marks of a file
that had this name before match nothing."""


class Mark(NamedTuple):
    """An event that a user marked, or that is not marked any more."""

    event: int
    at_ns: int
    """Wall clock of the event."""
    comment: str = ""
    made_ns: int = 0
    """Wall clock when this was made; of two marks of one event the newer one counts."""
    gone: bool = False
    """Whether this takes back an older mark, which may be where it cannot be written now."""

    @property
    def key(self) -> MarkKey:
        """The event that it marks."""
        return self.event, self.at_ns


@dataclass(frozen=True, slots=True)
class State:
    """The pods and containers that existed when a session began, as in Synchronize."""

    pods: tuple[bytes, ...]
    """Serialised PodSandbox messages, in the order in which they were told."""
    containers: tuple[bytes, ...]
    """Serialised Container messages."""
    complete: bool
    """False where the last part of Synchronize never came."""
