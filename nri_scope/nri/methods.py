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
    """One RPC."""

    name: str
    request: type[Message]
    reply: type[Message]
    service: str
    event: Event | None = None
    """The NRI event that a call of this method is; None for StateChange, whose request says which,
    and for calls that are not events."""


def _plugin(
    name: str, request: type[Message], reply: type[Message], event: Event | None = None
) -> Method:
    return Method(name, request, reply, PLUGIN_SERVICE, event)


def _event(event: Event, request: type[Message], reply: type[Message]) -> Method:
    return _plugin(event.name, request, reply, event)


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        _plugin("Configure", api.ConfigureRequest, api.ConfigureResponse),
        _plugin("Synchronize", api.SynchronizeRequest, api.SynchronizeResponse),
        _plugin("Shutdown", api.Empty, api.Empty),
        _plugin("StateChange", api.StateChangeEvent, api.Empty),
        _event(Event.RunPodSandbox, api.RunPodSandboxRequest, api.RunPodSandboxResponse),
        _event(Event.StopPodSandbox, api.StopPodSandboxRequest, api.StopPodSandboxResponse),
        _event(Event.RemovePodSandbox, api.RemovePodSandboxRequest, api.RemovePodSandboxResponse),
        _event(Event.CreateContainer, api.CreateContainerRequest, api.CreateContainerResponse),
        _event(
            Event.PostCreateContainer,
            api.PostCreateContainerRequest,
            api.PostCreateContainerResponse,
        ),
        _event(Event.StartContainer, api.StartContainerRequest, api.StartContainerResponse),
        _event(
            Event.PostStartContainer, api.PostStartContainerRequest, api.PostStartContainerResponse
        ),
        _event(Event.UpdateContainer, api.UpdateContainerRequest, api.UpdateContainerResponse),
        _event(
            Event.PostUpdateContainer,
            api.PostUpdateContainerRequest,
            api.PostUpdateContainerResponse,
        ),
        _event(Event.StopContainer, api.StopContainerRequest, api.StopContainerResponse),
        _event(Event.RemoveContainer, api.RemoveContainerRequest, api.RemoveContainerResponse),
        _event(Event.UpdatePodSandbox, api.UpdatePodSandboxRequest, api.UpdatePodSandboxResponse),
        _event(
            Event.PostUpdatePodSandbox,
            api.PostUpdatePodSandboxRequest,
            api.PostUpdatePodSandboxResponse,
        ),
        _event(
            Event.ValidateContainerAdjustment,
            api.ValidateContainerAdjustmentRequest,
            api.ValidateContainerAdjustmentResponse,
        ),
        Method("RegisterPlugin", api.RegisterPluginRequest, api.Empty, RUNTIME_SERVICE),
        Method(
            "UpdateContainers",
            api.UpdateContainersRequest,
            api.UpdateContainersResponse,
            RUNTIME_SERVICE,
        ),
    )
}
"""Every method of both services by its name; no name is used twice."""

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
"""Events that travel as StateChange up to NRI 0.11, and from 0.12 on to a plugin that answered one
of their own RPCs with Unimplemented. The other five always are RPCs of their own."""
