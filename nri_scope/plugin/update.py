# SPDX-License-Identifier: Apache-2.0
"""Updates: what a plugin asks for containers that exist already."""

from __future__ import annotations

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import UsageError

from .checks import build
from .resources import AroundMessage, ResourceSettings


class Update(ResourceSettings[api.ContainerUpdate]):
    """New resources for one container that exists, in the methods of `ResourceSettings`.

    With ``ignore_failure`` it does not matter if the runtime cannot apply them.
    """

    def __init__(self, container_id: str, *, ignore_failure: bool = False) -> None:
        if not container_id:
            raise UsageError("an update needs the container's id")
        self.message = build(
            api.ContainerUpdate, container_id=container_id, ignore_failure=ignore_failure
        )
        """What is sent, to look into or to set by hand what has no method."""

    @property
    def resources(self) -> api.LinuxResources:
        """The message behind what the resource methods set."""
        return self.message.linux.resources


class Eviction(AroundMessage[api.ContainerEviction]):
    """The wish that a container be evicted. Runtimes up to NRI 0.12 take it and do nothing."""

    def __init__(self, container_id: str, reason: str) -> None:
        if not container_id:
            raise UsageError("an eviction needs the container's id")
        self.message = build(api.ContainerEviction, container_id=container_id, reason=reason)
        """What is sent."""
