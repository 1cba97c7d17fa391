# SPDX-License-Identifier: Apache-2.0
"""Updates: a plugin's changes to existing containers."""

from __future__ import annotations

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import UsageError

from .checks import build
from .resources import AroundMessage, ResourceSettings


class Update(ResourceSettings[api.ContainerUpdate]):
    """New resources for one existing container, set by the methods of `ResourceSettings`.

    With ``ignore_failure`` the runtime continues if it cannot apply them.
    """

    def __init__(self, container_id: str, *, ignore_failure: bool = False) -> None:
        if not container_id:
            raise UsageError("an update needs the container's id")
        self.message = build(
            api.ContainerUpdate, container_id=container_id, ignore_failure=ignore_failure
        )
        """The message to send, for inspection and for fields without a method."""

    @property
    def resources(self) -> api.LinuxResources:
        """The message that the methods for resources fill."""
        return self.message.linux.resources


class Eviction(AroundMessage[api.ContainerEviction]):
    """Request to evict a container. containerd and CRI-O accept it and do nothing."""

    def __init__(self, container_id: str, reason: str) -> None:
        if not container_id:
            raise UsageError("an eviction needs the container's id")
        self.message = build(api.ContainerEviction, container_id=container_id, reason=reason)
        """The message to send."""
