# SPDX-License-Identifier: Apache-2.0
"""NRI events, their names, masks and stages, and the methods of both services."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import UsageError, did_you_mean


class EventKind(IntEnum):
    """An NRI event, numbered as in the protocol.

    Members are named like the event's own RPC (NRI 0.12); users type these names, too.
    """

    RunPodSandbox = 1
    StopPodSandbox = 2
    RemovePodSandbox = 3
    CreateContainer = 4
    PostCreateContainer = 5
    StartContainer = 6
    PostStartContainer = 7
    UpdateContainer = 8
    PostUpdateContainer = 9
    StopContainer = 10
    RemoveContainer = 11
    UpdatePodSandbox = 12
    PostUpdatePodSandbox = 13
    ValidateContainerAdjustment = 14

    @property
    def bit(self) -> int:
        """The event's bit in a mask: event n is bit n-1."""
        return 1 << (self.value - 1)

    @property
    def is_pod_event(self) -> bool:
        """Whether the event is about a pod as a whole, without a container."""
        return self in POD_EVENTS


POD_EVENTS = frozenset(
    {
        EventKind.RunPodSandbox,
        EventKind.StopPodSandbox,
        EventKind.RemovePodSandbox,
        EventKind.UpdatePodSandbox,
        EventKind.PostUpdatePodSandbox,
    }
)

PASSIVE_EVENTS = frozenset(EventKind) - {EventKind.ValidateContainerAdjustment}
"""Events that can be observed without risk. A validator that fails, misses its deadline or
disappears makes container creation fail, so ValidateContainerAdjustment is in no group and must be
named.
"""

CONTAINER_EVENTS = PASSIVE_EVENTS - POD_EVENTS

_GROUPS = {
    "all": PASSIVE_EVENTS,
    "pod": POD_EVENTS,
    "podsandbox": POD_EVENTS,
    "container": CONTAINER_EVENTS,
}
_BY_NAME = {event.name.lower(): event for event in EventKind}


def mask_of(events: Iterable[EventKind]) -> int:
    """Return the mask with the bits of `events`.

    Without events the mask is 0, which must never be sent: for a runtime it means "every event,
    including validation".
    """
    mask = 0
    for event in events:
        mask |= event.bit
    return mask


def events_in(mask: int) -> tuple[EventKind, ...]:
    """Return the known events in `mask`, in the order of their numbers, without unknown bits."""
    return tuple(event for event in EventKind if mask & event.bit)


def parse_events(text: str) -> frozenset[EventKind]:
    """Parse a user's selection of events.

    The text is a comma-separated list of event names and of the groups ``all``, ``pod`` and
    ``container``; case, underscores and inner dashes are ignored. Terms with a leading ``-`` are
    removed from the rest of the list, in any order; if the list contains only such terms, they are
    removed from ``all``. ValidateContainerAdjustment is in no group.

    Raises UsageError for an unknown name (suggesting the nearest one) and for an empty selection.
    """
    added: set[EventKind] = set()
    removed: set[EventKind] = set()
    has_additions = False
    for term in text.split(","):
        term = term.strip()
        if term.startswith("-"):
            removed |= _events_named(term[1:])
        elif term:
            added |= _events_named(term)
            has_additions = True
    chosen = frozenset((added if has_additions or not removed else PASSIVE_EVENTS) - removed)
    if not chosen:
        raise UsageError(
            f"the choice of events {text!r} is empty",
            "name events such as CreateContainer, or all, pod or container",
        )
    return chosen


def _events_named(name: str) -> frozenset[EventKind]:
    key = name.strip().lower().replace("_", "").replace("-", "")
    group = _GROUPS.get(key)
    if group is not None:
        return group
    event = _BY_NAME.get(key)
    if event is not None:
        return frozenset({event})
    names = [event.name for event in EventKind]
    hint = did_you_mean(key, [*names, *_GROUPS], cutoff=0.5)
    hint = hint or f"events are {', '.join(names)}, or all, pod, container"
    raise UsageError(f"there is no event {name.strip()!r}", hint)


M = TypeVar("M", bound=Message)

PLUGIN_SERVICE = "nri.pkg.api.v1alpha1.Plugin"
"""ttRPC service that a plugin serves and the runtime calls."""
RUNTIME_SERVICE = "nri.pkg.api.v1alpha1.Runtime"
"""ttRPC service that the runtime serves and a plugin calls."""

PLUGIN_CONN = 1
"""Mux connection id on which the plugin serves `PLUGIN_SERVICE`."""
RUNTIME_CONN = 2
"""Mux connection id on which the runtime serves `RUNTIME_SERVICE`."""

DEFAULT_SOCKET = "/var/run/nri/nri.sock"
DEFAULT_PLUGIN_PATH = "/opt/nri/plugins"
DEFAULT_PLUGIN_CONFIG_PATH = "/etc/nri/conf.d"

DEFAULT_REGISTRATION_TIMEOUT_MS = 5000
DEFAULT_REQUEST_TIMEOUT_MS = 2000


@dataclass(frozen=True, slots=True)
class Method:
    """An RPC."""

    name: str
    request: type[Message]
    reply: type[Message]
    service: str
    event: EventKind | None = None
    """The NRI event of a call of this method; None for StateChange, whose request contains the
    event, and for calls that are not events.
    """


def decode(kind: type[M], payload: bytes) -> M | None:
    """Return the message of type ``kind`` in a payload; None if it is malformed."""
    try:
        return kind.FromString(payload)
    except DecodeError:
        return None


METHODS: dict[str, Method] = {
    method.name: Method(
        method.name,
        getattr(api, method.input_type.name),
        getattr(api, method.output_type.name),
        service,
        EventKind.__members__.get(method.name),
    )
    for service in (PLUGIN_SERVICE, RUNTIME_SERVICE)
    for method in api.DESCRIPTOR.services_by_name[service.rpartition(".")[2]].methods
}
"""All methods of both services by name; names are unique."""

STATE_CHANGE_EVENTS = frozenset(
    {
        EventKind.RunPodSandbox,
        EventKind.StopPodSandbox,
        EventKind.RemovePodSandbox,
        EventKind.PostCreateContainer,
        EventKind.StartContainer,
        EventKind.PostStartContainer,
        EventKind.PostUpdateContainer,
        EventKind.RemoveContainer,
        EventKind.PostUpdatePodSandbox,
    }
)
"""Events sent as StateChange up to NRI 0.11, and from 0.12 on to a plugin that answered one of
their dedicated RPCs with Unimplemented. The other five events always have dedicated RPCs.
"""


RUN_POD = EventKind.RunPodSandbox.name
UPDATE_POD = EventKind.UpdatePodSandbox.name
STOP_POD = EventKind.StopPodSandbox.name
REMOVE_POD = EventKind.RemovePodSandbox.name
CREATE = EventKind.CreateContainer.name
VALIDATE = EventKind.ValidateContainerAdjustment.name
POST_CREATE = EventKind.PostCreateContainer.name
START = EventKind.StartContainer.name
POST_START = EventKind.PostStartContainer.name
UPDATE = EventKind.UpdateContainer.name
POST_UPDATE = EventKind.PostUpdateContainer.name
STOP = EventKind.StopContainer.name
REMOVE = EventKind.RemoveContainer.name
REGISTER = "RegisterPlugin"
"""A plugin's first call, with its name and index."""
CONFIGURE = "Configure"
"""It introduces the runtime; the plugin replies with its events."""
SYNCHRONIZE = "Synchronize"
"""It lists the pods and containers that exist when a plugin connects."""
UNSOLICITED = "UpdateContainers"
"""A plugin's own call, which no event causes."""
SHUTDOWN = "Shutdown"


class EventStage(IntEnum):
    """The stage of a pod or container. An event of an earlier stage does not lead back to it.

    PostStartContainer can come after StopContainer. Only a creation after the removal, under the
    same id, begins anew.
    """

    LISTED = 0
    """Known to exist, from Synchronize or from an event of no stage."""
    CREATING = 1
    """CreateContainer was sent, but no later event confirms the creation."""
    CREATED = 2
    STARTED = 3
    STOPPED = 4
    REMOVED = 5


POD_STAGES = {
    RUN_POD: EventStage.STARTED,
    STOP_POD: EventStage.STOPPED,
    REMOVE_POD: EventStage.REMOVED,
}
CONTAINER_STAGES = {
    CREATE: EventStage.CREATING,
    POST_CREATE: EventStage.CREATED,
    START: EventStage.STARTED,
    POST_START: EventStage.STARTED,
    STOP: EventStage.STOPPED,
    REMOVE: EventStage.REMOVED,
}
"""The stage that each event shows, in the usual order; for starts see `oci.shows_start`."""
POD_ORDER, CONTAINER_ORDER = tuple(POD_STAGES), tuple(CONTAINER_STAGES)

CREATION_EVENTS = frozenset({RUN_POD, CREATE})
"""Events that begin a pod or container. They fail if a plugin returns an error."""
POD_ENDS = (STOP_POD, REMOVE_POD)
CONTAINER_ENDS = (STOP, REMOVE)
"""Events that also follow a failed creation: containerd sends both while it undoes one."""
STARTS = frozenset({START, POST_START})
CREATED_ONLY_EVENTS = frozenset({POST_CREATE, START, POST_START, UPDATE, POST_UPDATE})
"""Events of successfully created containers only. Stop and removal prove nothing."""
POST_EVENT_OF = {
    CREATE: EventKind.PostCreateContainer,
    START: EventKind.PostStartContainer,
    UPDATE: EventKind.PostUpdateContainer,
}
"""Events that follow exactly if the operation succeeded."""
