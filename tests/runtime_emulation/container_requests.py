# SPDX-License-Identifier: Apache-2.0
"""Requests about one pod and its container, and the plugins that receive them."""

from __future__ import annotations

from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.events import METHODS, EventKind
from nri_scope.runtime import Plugin
from tests.runtime_emulation.runtime import Runtime

from .small_plugin import SmallPlugin

POD = api.PodSandbox(id="pod", namespace="shop", name="web")
CONTAINER = api.Container(id="container", pod_sandbox_id="pod", name="app")
START = api.StartContainerRequest(pod=POD, container=CONTAINER)
CREATE = api.CreateContainerRequest(pod=POD, container=CONTAINER)


def request_of(event: EventKind) -> Message:
    """Return the event's own request about the test's pod and container."""
    parts: dict[str, Message] = {"pod": POD}
    request = METHODS[event.name].request
    if "container" in request.DESCRIPTOR.fields_by_name:
        parts["container"] = CONTAINER
    return request(**parts)


async def joined(runtime: Runtime, *plugins: SmallPlugin) -> list[Plugin]:
    return [await plugin.join(runtime) for plugin in plugins]
