# SPDX-License-Identifier: Apache-2.0
"""Merge the replies to one CreateContainer."""

from __future__ import annotations

from collections.abc import Iterable

from nri_scope._gen.nri import api_pb2 as api

from ..versions import NriVersion
from .field_order import ADJUSTED_RESOURCES, DEVICES, FIRST, LAST, LINUX
from .reply_context import Turn
from .updates import ReplyMerging, drop_evictions


class Creation(ReplyMerging):
    """Merge of the replies to one CreateContainer.

    For each plugin in turn, send the current ``request`` and ``apply`` the reply. After
    AdjustmentRefused, the creation has failed and this object can no longer be used.
    """

    def __init__(
        self, request: api.CreateContainerRequest, *, version: NriVersion | None = None
    ) -> None:
        self.request = api.CreateContainerRequest()
        """Request for the next plugin, with the container as adjusted so far. Like runtimes, it
        adds some empty messages that the original request may lack.
        """
        self.request.CopyFrom(request)
        container = self.request.container
        container.hooks.SetInParent()
        container.linux.resources.memory.SetInParent()
        container.linux.resources.cpu.SetInParent()
        self._pristine = api.Container()
        self._pristine.CopyFrom(container)
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
        shown, merged = self.request.container, self.adjustment
        owners = self._ownership.of(shown.id)
        turn = Turn(self._rules, plugin, shown.id, owners, self.dropped, merged)
        for step in FIRST:
            step.merge(requested, shown, merged, turn)
        if requested.HasField("linux"):
            DEVICES.merge(requested.linux, shown.linux, merged.linux, turn)
            if requested.linux.HasField("resources"):
                resources = requested.linux.resources
                into = shown.linux.resources, merged.linux.resources
                for step in ADJUSTED_RESOURCES:
                    step.merge(resources, *into, turn)
            for step in LINUX:
                step.merge(requested.linux, shown.linux, merged.linux, turn)
        for step in LAST:
            step.merge(requested, shown, merged, turn)

    def response(self) -> api.CreateContainerResponse:
        """Return a copy of the response that upstream's adaptation passes to the runtime."""
        return api.CreateContainerResponse(adjust=self.adjustment, update=self.updates)

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
