# SPDX-License-Identifier: Apache-2.0
"""The methods of NRI's two services, their messages and their events."""

from __future__ import annotations

from dataclasses import dataclass

from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api

from .events import Event

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
    event: Event | None = None
    """The NRI event of a call of this method; None for StateChange, whose request contains the
    event, and for calls that are not events.
    """


METHODS: dict[str, Method] = {
    method.name: Method(
        method.name,
        getattr(api, method.input_type.name),
        getattr(api, method.output_type.name),
        service,
        Event.__members__.get(method.name),
    )
    for service in (PLUGIN_SERVICE, RUNTIME_SERVICE)
    for method in api.DESCRIPTOR.services_by_name[service.rpartition(".")[2]].methods
}
"""All methods of both services by name; names are unique."""

STATE_CHANGE_EVENTS = frozenset(
    {
        Event.RunPodSandbox,
        Event.StopPodSandbox,
        Event.RemovePodSandbox,
        Event.PostCreateContainer,
        Event.StartContainer,
        Event.PostStartContainer,
        Event.PostUpdateContainer,
        Event.RemoveContainer,
        Event.PostUpdatePodSandbox,
    }
)
"""Events sent as StateChange up to NRI 0.11, and from 0.12 on to a plugin that answered one of
their dedicated RPCs with Unimplemented. The other five events always have dedicated RPCs.
"""
