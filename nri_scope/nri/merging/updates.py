# SPDX-License-Identifier: Apache-2.0
"""Updates of containers that plugins ask for in their replies, merged per container."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import AdjustmentRefused

from .fields import DEVICE_RULES, PIDS_LIMIT
from .golang import quoted
from .order import UPDATED_RESOURCES
from .ownership import Ownership
from .rules import Rules
from .turn import Dropped, Turn


class Updates:
    """The merged updates of one request, in the order in which containers came up.

    `created` is the id of the container that the request creates: nobody may update that one.
    `request` is the UpdateContainer that is being merged: the update of its own container starts
    from the resources asked for there, and later plugins see it there.
    """

    def __init__(
        self,
        rules: Rules,
        ownership: Ownership,
        dropped: list[Dropped],
        *,
        created: str | None = None,
        request: api.UpdateContainerRequest | None = None,
    ) -> None:
        self._rules = rules
        self._ownership = ownership
        self._dropped = dropped
        self._created = created
        self._request = request
        self._updated = None if request is None else request.container.id
        self._by_id: dict[str, api.ContainerUpdate] = {}

    @property
    def others(self) -> list[api.ContainerUpdate]:
        """Of containers other than the one that the request updates."""
        return [update for id_, update in self._by_id.items() if id_ != self._updated]

    @property
    def own(self) -> api.ContainerUpdate | None:
        """Of the container that the request updates, if a plugin asked for one."""
        return None if self._updated is None else self._by_id.get(self._updated)

    def merge(self, updates: Iterable[api.ContainerUpdate], plugin: str) -> None:
        """Merge those of one reply. Raises AdjustmentRefused."""
        for update in updates:
            merged = self._merged_for(update, plugin)
            if not update.linux.HasField("resources"):
                continue
            try:
                self._merge_resources(update, merged, plugin)
            except AdjustmentRefused as refused:
                if not update.ignore_failure:
                    raise
                # What it claimed on the way there stays claimed, as upstream.
                reason = f"ignore_failure is set, and {refused}"
                self._turn(update, plugin).drop("/linux/resources", update.linux.resources, reason)

    def _merged_for(self, update: api.ContainerUpdate, plugin: str) -> api.ContainerUpdate:
        id_ = update.container_id
        if id_ == self._created:
            raise AdjustmentRefused(
                f"plugin {quoted(plugin)} asked update of {quoted(id_)} during creation"
            )
        merged = self._by_id.get(id_)
        if merged is None:
            merged = api.ContainerUpdate(container_id=id_, ignore_failure=update.ignore_failure)
            merged.linux.resources.memory.SetInParent()
            merged.linux.resources.cpu.SetInParent()
            self._by_id[id_] = merged
        else:
            merged.ignore_failure = merged.ignore_failure and update.ignore_failure
        return merged

    def _turn(self, update: api.ContainerUpdate, plugin: str) -> Turn:
        id_ = update.container_id
        owners = self._ownership.of(id_)
        nothing = api.ContainerAdjustment()
        return Turn(self._rules, plugin, id_, owners, self._dropped, nothing)

    def _merge_resources(
        self, update: api.ContainerUpdate, merged: api.ContainerUpdate, plugin: str
    ) -> None:
        turn = self._turn(update, plugin)
        wanted = update.linux.resources
        request = self._request if update.container_id == self._updated else None
        before = merged.linux.resources if request is None else request.linux_resources
        # A copy, so that a conflict leaves no trace.
        resources = api.LinuxResources()
        resources.CopyFrom(before)
        if DEVICE_RULES in self._rules.unknown:
            resources.ClearField("devices")
        if PIDS_LIMIT in self._rules.unknown:
            resources.ClearField("pids")
        for step in UPDATED_RESOURCES:
            step.merge(wanted, resources, None, turn)
        if resources.HasField("pids"):
            # Not the limit that the plugin asks for, but the one of the update that is going on:
            # the first plugin that sets anything owns it, and a second one is in conflict.
            turn.claim(PIDS_LIMIT)
        _note_dropped(wanted, turn)
        merged.linux.resources.CopyFrom(resources)
        if request is not None:
            request.linux_resources.CopyFrom(resources)


def _note_dropped(wanted: api.LinuxResources, turn: Turn) -> None:
    if wanted.HasField("pids"):
        reason = "the runtime drops pids from the updates of plugins"
        turn.drop(PIDS_LIMIT.path, wanted.pids.limit, reason)
    for rule in wanted.devices:
        reason = "the runtime drops device rules from the updates of plugins"
        turn.drop(DEVICE_RULES.path, rule, reason)


def drop_evictions(
    evictions: Sequence[api.ContainerEviction], plugin: str, dropped: list[Dropped]
) -> None:
    """Note that no runtime evicts a container because a reply asks for it."""
    for eviction in evictions:
        reason = "the runtime ignores evictions"
        dropped.append(Dropped(plugin, eviction.container_id, "/evict", eviction.reason, reason))
