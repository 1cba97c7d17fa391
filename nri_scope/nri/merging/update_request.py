# SPDX-License-Identifier: Apache-2.0
"""The merging of one UpdateContainer or StopContainer along the chain, and unsolicited updates."""

from __future__ import annotations

from collections.abc import Iterable

from nri_scope._gen.nri import api_pb2 as api

from ..versions import NriVersion
from .fields import PIDS_LIMIT
from .turn import Dropped, text_of
from .updates import ReplyMerging, drop_evictions
from .version_rules import rules_of


class Updating(ReplyMerging):
    """Merges the replies to one UpdateContainer.

    Send ``request`` in its current state to each plugin, and ``apply`` its reply before the next.
    """

    def __init__(
        self, request: api.UpdateContainerRequest, *, version: NriVersion | None = None
    ) -> None:
        self.request = api.UpdateContainerRequest()
        """Request for the next plugin: the resources as updated so far."""
        self.request.CopyFrom(request)
        self.request.linux_resources.memory.SetInParent()
        self.request.linux_resources.cpu.SetInParent()
        super().__init__(version, request=self.request)

    @property
    def resources(self) -> api.LinuxResources:
        """The resulting resources of the container: those of the request, with the plugins'
        changes.
        """
        return self.request.linux_resources

    def apply(self, reply: api.UpdateContainerResponse, plugin: str) -> None:
        """Merge a reply of `plugin` (``NN-name``). Raises AdjustmentRefused at a conflict."""
        self._updates.merge(reply.update, plugin)
        drop_evictions(reply.evict, plugin, self.dropped)

    def response(self) -> api.UpdateContainerResponse:
        """Return a copy of the response that upstream's adaptation passes to the runtime.

        The last update is the container's own, an empty message if no plugin requested one.
        """
        own = self._updates.own
        if own is None:
            own = api.ContainerUpdate()
        return api.UpdateContainerResponse(update=[*self.updates, own])


class Stopping(ReplyMerging):
    """Merges the replies to one StopContainer.

    Every plugin sees the same request. An update may concern the container that is stopped.
    """

    def __init__(
        self, request: api.StopContainerRequest, *, version: NriVersion | None = None
    ) -> None:
        self.request = request
        """Request for every plugin."""
        super().__init__(version)

    def apply(self, reply: api.StopContainerResponse, plugin: str) -> None:
        """Merge a reply of `plugin` (``NN-name``). Raises AdjustmentRefused at a conflict."""
        self._updates.merge(reply.update, plugin)

    def response(self) -> api.StopContainerResponse:
        """Return a copy of the response that upstream's adaptation passes to the runtime."""
        return api.StopContainerResponse(update=self.updates)


def unsolicited(
    updates: Iterable[api.ContainerUpdate], plugin: str, *, version: NriVersion | None = None
) -> tuple[list[api.ContainerUpdate], list[Dropped]]:
    """Return the updates that a runtime applies for an UpdateContainers request or a Synchronize
    reply, one after the other, without merging and without owners.

    The updates are copies without fields that its NRI `version` lacks, which are returned, too.
    """
    rules = rules_of(version)
    dropped: list[Dropped] = []
    kept = []
    for update in updates:
        copy = api.ContainerUpdate()
        copy.CopyFrom(update)
        resources = copy.linux.resources
        if PIDS_LIMIT in rules.unknown and resources.HasField("pids"):
            reason = f"NRI {version} has no such field"
            value = text_of(resources.pids.limit)
            dropped.append(Dropped(plugin, copy.container_id, PIDS_LIMIT.path, value, reason))
            resources.ClearField("pids")
        kept.append(copy)
    return kept, dropped
