# SPDX-License-Identifier: Apache-2.0
"""The merging of one CreateContainer along the chain."""

from __future__ import annotations

from collections.abc import Iterable

from nri_scope._gen.nri import api_pb2 as api

from ..versions import NriVersion
from .field_order import ADJUSTED_RESOURCES, DEVICES, FIRST, LAST, LINUX
from .turn import Turn
from .updates import ReplyMerging, drop_evictions


class Creation(ReplyMerging):
    """Merges the replies to one CreateContainer.

    Send ``request`` in its current state to each plugin, and ``apply`` its reply before the next.
    After AdjustmentRefused the runtime gives up, and this object can no longer be used.
    """

    def __init__(
        self, request: api.CreateContainerRequest, *, version: NriVersion | None = None
    ) -> None:
        self.request = api.CreateContainerRequest()
        """Request for the next plugin: the container as adjusted so far. It has some empty messages
        that the given request may not have, as runtimes send them.
        """
        self.request.CopyFrom(request)
        container = self.request.container
        container.hooks.SetInParent()
        container.linux.resources.memory.SetInParent()
        container.linux.resources.cpu.SetInParent()
        self._pristine = api.Container()
        self._pristine.CopyFrom(container)
        self.adjustment = api.ContainerAdjustment()
        """All adjustments so far, merged."""
        self.adjustment.hooks.SetInParent()
        self.adjustment.linux.resources.memory.SetInParent()
        self.adjustment.linux.resources.cpu.SetInParent()
        super().__init__(version, created=request.container.id)

    def apply(self, reply: api.CreateContainerResponse, plugin: str) -> None:
        """Merge a reply of `plugin` (``NN-name``). Raises AdjustmentRefused, in the runtime's own
        words, at a conflict and for an update of the container that is being created.
        """
        if reply.HasField("adjust"):
            self._adjust(reply.adjust, plugin)
        self._updates.merge(reply.update, plugin)
        drop_evictions(reply.evict, plugin, self.dropped)

    def _adjust(self, wanted: api.ContainerAdjustment, plugin: str) -> None:
        shown, merged = self.request.container, self.adjustment
        owners = self._ownership.of(shown.id)
        turn = Turn(self._rules, plugin, shown.id, owners, self.dropped, merged)
        for step in FIRST:
            step.merge(wanted, shown, merged, turn)
        if wanted.HasField("linux"):
            DEVICES.merge(wanted.linux, shown.linux, merged.linux, turn)
            if wanted.linux.HasField("resources"):
                resources = wanted.linux.resources
                into = shown.linux.resources, merged.linux.resources
                for step in ADJUSTED_RESOURCES:
                    step.merge(resources, *into, turn)
            for step in LINUX:
                step.merge(wanted.linux, shown.linux, merged.linux, turn)
        for step in LAST:
            step.merge(wanted, shown, merged, turn)

    def response(self) -> api.CreateContainerResponse:
        """Return a copy of the response that upstream's adaptation passes to the runtime."""
        return api.CreateContainerResponse(adjust=self.adjustment, update=self.updates)

    def validation(
        self, plugins: Iterable[api.PluginInstance]
    ) -> api.ValidateContainerAdjustmentRequest:
        """Return the request to validators after the chain; `plugins` are those of the chain, in
        order, whether they subscribed to the event or not.
        """
        return api.ValidateContainerAdjustmentRequest(
            pod=self.request.pod if self.request.HasField("pod") else None,
            container=self._pristine,
            adjust=self.adjustment,
            update=self.updates,
            owners=self.owners,
            plugins=plugins,
        )
