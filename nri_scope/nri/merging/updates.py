# SPDX-License-Identifier: Apache-2.0
"""Merge the updates of containers in the replies to one request, and filter unsolicited updates."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import AdjustmentRefused

from ..versions import NriVersion
from .applied_reply import replace_members
from .field_order import UPDATED_RESOURCES
from .fields import DEVICE_RULES, PIDS_LIMIT
from .owners import Dropped, MergingRules, Ownership, Turn, quoted, rules_of, text_of


class Updates:
    """The merged updates of one request, in the order of each container's first update.

    `created` is the id of the container that the request creates; plugins may not update it.
    `request` is an UpdateContainer in progress: the merged update of its container starts with the
    request's resources, and is written to the request for later plugins.
    """

    def __init__(
        self,
        rules: MergingRules,
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
        self.own_started = False
        """Whether the merged update of the request's container contains the request's resources."""
        self._by_id: dict[str, api.ContainerUpdate] = {}

    @property
    def others(self) -> list[api.ContainerUpdate]:
        """The updates of all containers except the request's container."""
        return [update for id_, update in self._by_id.items() if id_ != self._updated]

    def take_others(self) -> list[api.ContainerUpdate]:
        """Return `others` and remove them; their fields keep their owners."""
        taken = self.others
        for update in taken:
            del self._by_id[update.container_id]
        return taken

    @property
    def own(self) -> api.ContainerUpdate | None:
        """The update of the request's container; None if no plugin requested one."""
        return None if self._updated is None else self._by_id.get(self._updated)

    def merge(self, updates: Iterable[api.ContainerUpdate], plugin: str) -> None:
        """Merge the updates of one reply. Raises AdjustmentRefused."""
        for update in updates:
            merged = self._merged_for(update, plugin)
            if not update.linux.HasField("resources"):
                continue
            try:
                self._merge_resources(update, merged, plugin)
            except AdjustmentRefused as refused:
                if not update.ignore_failure:
                    raise
                # Fields claimed before the refusal stay claimed, as in upstream.
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
        empty = api.ContainerAdjustment()
        return Turn(self._rules, plugin, id_, owners, self._dropped, empty)

    def _merge_resources(
        self, update: api.ContainerUpdate, merged: api.ContainerUpdate, plugin: str
    ) -> None:
        turn = self._turn(update, plugin)
        requested = update.linux.resources
        request = self._request if update.container_id == self._updated else None
        # A separate message, so that a conflict changes nothing. A copy of the merged update would
        # be too slow: one reply can have 100,000 updates of one container.
        changes = api.LinuxResources()
        for step in UPDATED_RESOURCES:
            step.merge(requested, changes, None, turn)
        limits_pids = request is not None and request.linux_resources.HasField("pids")
        if limits_pids and PIDS_LIMIT not in self._rules.unknown:
            # As in upstream, a plugin that updates the request's container claims the pids limit of
            # the request, so that a second such plugin is in conflict.
            turn.claim(PIDS_LIMIT)
        _note_dropped(requested, turn)
        if request is not None:
            if not self.own_started:
                self.own_started = True
                self._drop_unknown(request.linux_resources)
                merged.linux.resources.CopyFrom(request.linux_resources)
            _add(changes, request.linux_resources)
        _add(changes, merged.linux.resources)

    def _drop_unknown(self, resources: api.LinuxResources) -> None:
        if DEVICE_RULES in self._rules.unknown:
            resources.ClearField("devices")
        if PIDS_LIMIT in self._rules.unknown:
            resources.ClearField("pids")


def _add(changes: api.LinuxResources, resources: api.LinuxResources) -> None:
    """Merge the fields in ``UPDATED_RESOURCES``. MergeFrom would ignore fields set to 0."""
    replace_members(resources.memory, changes.memory)
    replace_members(resources.cpu, changes.cpu)
    resources.hugepage_limits.extend(changes.hugepage_limits)
    resources.unified.update(changes.unified)
    if changes.HasField("blockio_class"):
        resources.blockio_class.CopyFrom(changes.blockio_class)
    if changes.HasField("rdt_class"):
        resources.rdt_class.CopyFrom(changes.rdt_class)


def _note_dropped(requested: api.LinuxResources, turn: Turn) -> None:
    if requested.HasField("pids"):
        reason = "the runtime drops pids from the updates of plugins"
        turn.drop(PIDS_LIMIT.path, requested.pids.limit, reason)
    for rule in requested.devices:
        reason = "the runtime drops device rules from the updates of plugins"
        turn.drop(DEVICE_RULES.path, rule, reason)


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
    applied = []
    for update in updates:
        copy = deepcopy(update)
        resources = copy.linux.resources
        if PIDS_LIMIT in rules.unknown and resources.HasField("pids"):
            reason = f"NRI {version} has no such field"
            value = text_of(resources.pids.limit)
            dropped.append(Dropped(plugin, copy.container_id, PIDS_LIMIT.path, value, reason))
            resources.ClearField("pids")
        applied.append(copy)
    return applied, dropped
