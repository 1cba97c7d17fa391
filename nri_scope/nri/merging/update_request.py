# SPDX-License-Identifier: Apache-2.0
"""Merge the replies to one UpdateContainer or StopContainer; filter unsolicited updates."""

from __future__ import annotations

from collections.abc import Iterable

from nri_scope._gen.nri import api_pb2 as api

from ..versions import NriVersion
from .fields import PIDS_LIMIT
from .reply_context import Dropped, text_of
from .updates import ReplyMerging, drop_evictions
from .version_rules import rules_of


class Updating(ReplyMerging):
    """Merge of the replies to one UpdateContainer.

    For each plugin in turn, send the current ``request`` and ``apply`` the reply.
    """

    def __init__(
        self, request: api.UpdateContainerRequest, *, version: NriVersion | None = None
    ) -> None:
        self.request = api.UpdateContainerRequest()
        """Request for the next plugin, with the resources as updated so far."""
        self.request.CopyFrom(request)
        self.request.linux_resources.memory.SetInParent()
        self.request.linux_resources.cpu.SetInParent()
        super().__init__(version, request=self.request)

    @property
    def resources(self) -> api.LinuxResources:
        """The request's resources with the plugins' changes."""
        return self.request.linux_resources

    def apply(self, reply: api.UpdateContainerResponse, plugin: str) -> None:
        """Merge a reply of `plugin` (``NN-name``). Raises AdjustmentRefused for a conflict."""
        self._updates.merge(reply.update, plugin)
        drop_evictions(reply.evict, plugin, self.dropped)

    def response(self) -> api.UpdateContainerResponse:
        """Return a copy of the response that upstream's adaptation passes to the runtime.

        The last update is that of the request's container, empty if no plugin requested one.
        """
        own = self._updates.own
        if own is None:
            own = api.ContainerUpdate()
        return api.UpdateContainerResponse(update=[*self.updates, own])


class Stopping(ReplyMerging):
    """Merge of the replies to one StopContainer.

    All plugins get the same request. Replies may also update the container that is being stopped.
    """

    def __init__(
        self, request: api.StopContainerRequest, *, version: NriVersion | None = None
    ) -> None:
        self.request = request
        """Request for every plugin."""
        super().__init__(version)

    def apply(self, reply: api.StopContainerResponse, plugin: str) -> None:
        """Merge a reply of `plugin` (``NN-name``). Raises AdjustmentRefused for a conflict."""
        self._updates.merge(reply.update, plugin)

    def response(self) -> api.StopContainerResponse:
        """Return a copy of the response that upstream's adaptation passes to the runtime."""
        return api.StopContainerResponse(update=self.updates)


def unsolicited(
    updates: Iterable[api.ContainerUpdate], plugin: str, *, version: NriVersion | None = None
) -> tuple[list[api.ContainerUpdate], list[Dropped]]:
    """Return the updates that a runtime applies for an UpdateContainers request or a Synchronize
    reply, and the dropped requests.

    A runtime applies these updates one after the other, without merging them and without owners.
    The returned copies lack the fields that its NRI `version` does not have.
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
