# SPDX-License-Identifier: Apache-2.0
"""Merge the replies to one request: CreateContainer, UpdateContainer, StopContainer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import deepcopy

from nri_scope._gen.nri import api_pb2 as api

from ..versions import NriVersion
from .field_order import ADJUSTED_RESOURCES, DEVICES, FIRST, LAST, LINUX
from .owners import Dropped, Ownership, Turn, rules_of
from .updates import Updates

EVICTION_IGNORED = "the runtime ignores evictions"


def drop_evictions(
    evictions: Sequence[api.ContainerEviction], plugin: str, dropped: list[Dropped]
) -> None:
    """Record evictions as dropped, as all runtimes ignore them."""
    for eviction in evictions:
        id_, why = eviction.container_id, eviction.reason
        dropped.append(Dropped(plugin, id_, "/evict", why, EVICTION_IGNORED))


class ReplyMerging:
    """Base of the merging of replies to one request of any kind."""

    def __init__(
        self,
        version: NriVersion | None,
        *,
        created: str | None = None,
        request: api.UpdateContainerRequest | None = None,
    ) -> None:
        """Merge as a runtime on NRI ``version`` does (None: the newest). For the other arguments,
        see `Updates`.
        """
        self.dropped: list[Dropped] = []
        """Requests of plugins that the runtime ignores."""
        self._rules = rules_of(version)
        self._ownership = Ownership(self._rules)
        self._updates = Updates(
            self._rules, self._ownership, self.dropped, created=created, request=request
        )

    @property
    def updates(self) -> list[api.ContainerUpdate]:
        """The merged updates of other containers, including unknown ones."""
        return self._updates.others

    def take_updates(self) -> list[api.ContainerUpdate]:
        """Return `updates` and begin them anew, with the same owners."""
        return self._updates.take_others()

    @property
    def owners(self) -> api.OwningPlugins:
        """A new message with the last owner of each field."""
        return self._ownership.message()


class CreationMerging(ReplyMerging):
    """Merge of the replies to one CreateContainer.

    For each plugin in turn, send the current ``request`` and ``apply`` the reply. After
    AdjustmentRefused, the creation has failed and this object can no longer be used.
    """

    def __init__(
        self, request: api.CreateContainerRequest, *, version: NriVersion | None = None
    ) -> None:
        self.request = deepcopy(request)
        """Request for the next plugin, with the container as adjusted so far. Like runtimes, it
        adds some empty messages that the original request may lack.
        """
        container = self.request.container
        container.hooks.SetInParent()
        container.linux.resources.memory.SetInParent()
        container.linux.resources.cpu.SetInParent()
        self._pristine = deepcopy(container)
        self.adjustment = api.ContainerAdjustment()
        """The merged adjustment so far."""
        self.adjustment.hooks.SetInParent()
        self.adjustment.linux.resources.memory.SetInParent()
        self.adjustment.linux.resources.cpu.SetInParent()
        super().__init__(version, created=request.container.id)

    def apply(self, reply: api.CreateContainerResponse, plugin: str) -> None:
        """Merge a reply of `plugin` (``NN-name``). Raises AdjustmentRefused, with the runtime's own
        text, for a conflict and for an update of the container that is being created.
        """
        if reply.HasField("adjust"):
            self._adjust(reply.adjust, plugin)
        self._updates.merge(reply.update, plugin)
        drop_evictions(reply.evict, plugin, self.dropped)

    def _adjust(self, requested: api.ContainerAdjustment, plugin: str) -> None:
        current, merged = self.request.container, self.adjustment
        owners = self._ownership.of(current.id)
        turn = Turn(self._rules, plugin, current.id, owners, self.dropped, merged)
        for step in FIRST:
            step.merge(requested, current, merged, turn)
        if requested.HasField("linux"):
            DEVICES.merge(requested.linux, current.linux, merged.linux, turn)
            if requested.linux.HasField("resources"):
                resources = requested.linux.resources
                into = current.linux.resources, merged.linux.resources
                for step in ADJUSTED_RESOURCES:
                    step.merge(resources, *into, turn)
            for step in LINUX:
                step.merge(requested.linux, current.linux, merged.linux, turn)
        for step in LAST:
            step.merge(requested, current, merged, turn)

    def validation(
        self, plugins: Iterable[api.PluginInstance]
    ) -> api.ValidateContainerAdjustmentRequest:
        """Return the request to validators after the chain. `plugins` are all plugins of the chain,
        in order, including plugins without a subscription to the event.
        """
        return api.ValidateContainerAdjustmentRequest(
            pod=self.request.pod if self.request.HasField("pod") else None,
            container=self._pristine,
            adjust=self.adjustment,
            update=self.updates,
            owners=self.owners,
            plugins=plugins,
        )


class UpdateMerging(ReplyMerging):
    """Merge of the replies to one UpdateContainer.

    For each plugin in turn, send the current ``request`` and ``apply`` the reply.
    """

    def __init__(
        self, request: api.UpdateContainerRequest, *, version: NriVersion | None = None
    ) -> None:
        self.request = deepcopy(request)
        """Request for the next plugin, with the resources as updated so far."""
        self.request.linux_resources.memory.SetInParent()
        self.request.linux_resources.cpu.SetInParent()
        super().__init__(version, request=self.request)

    @property
    def resources(self) -> api.LinuxResources:
        """The request's resources with the plugins' changes."""
        return self.request.linux_resources

    @property
    def is_emptied(self) -> bool:
        """Whether plugins updated the request's container, and none with resources."""
        return self._updates.own is not None and not self._updates.own_started

    def apply(self, reply: api.UpdateContainerResponse, plugin: str) -> None:
        """Merge a reply of `plugin` (``NN-name``). Raises AdjustmentRefused for a conflict."""
        self._updates.merge(reply.update, plugin)
        drop_evictions(reply.evict, plugin, self.dropped)


class StopMerging(ReplyMerging):
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
