# SPDX-License-Identifier: Apache-2.0
"""Record the plugins' changes to each container's OCI spec, event by event."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable

from nri_scope import oci, specs
from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.merging import Dropped
from nri_scope.runtime import Outcome

from .result import Attributed, ContainerResult
from .world import World


class Ledger:
    """OCI specs of all containers, with and without the plugins' changes."""

    def __init__(
        self,
        world: World,
        containers: dict[str, ContainerResult],
        rules: oci.RuntimeRules,
        *,
        keep: bool = True,
    ) -> None:
        """``containers``: receives the results, in the order in which containers first appear.
        ``rules``: those of the emulated runtime. Without ``keep``, containers that are removed
        unchanged are discarded.
        """
        self._rules = rules
        self._world = world
        self._containers = containers
        self._keep = keep
        self._by_id: dict[str, ContainerResult] = {}
        self._times: Counter[str] = Counter()
        """Number of containers so far, by name."""

    def created(
        self,
        container: api.Container,
        pod: api.PodSandbox | None,
        asked: Iterable[tuple[str, api.ContainerAdjustment]],
        merged: api.ContainerAdjustment | None,
        outcome: Outcome,
        start_failure: str = "",
    ) -> list[Attributed]:
        """Record a creation; ``merged`` is None if it failed.

        ``start_failure``: why the created container does not start; "" if nothing is known.
        Returns the changes that the adjustments ``asked`` make, in their order.
        """
        rules = self._rules
        spec = rules.first(oci.spec_of(container, pod))
        result = self._new(container, spec)
        changes: list[Attributed] = []
        for plugin, adjustment in asked:
            if adjustment.mounts and rules.sorts_mounts:
                # A runtime sorts all mounts if one is adjusted; that is not the plugin's change.
                spec = oci.sort_mounts(spec)
                result.before = oci.sort_mounts(result.before)
            after = rules.adjust(spec, adjustment)
            changes += self._attribute(result, plugin, rules.written(spec), rules.written(after))
            spec = after
        result.created, result.failure = merged is not None, outcome.failure
        result.runtime_died, result.start_failure = outcome.killed, start_failure
        if merged is not None:
            result.spec = rules.written(rules.adjust(result.before, merged))
        else:
            self._by_id.pop(container.id, None)
        return changes

    def removed(self, container_id: str) -> None:
        """Record that a container was removed."""
        result = self._by_id.pop(container_id, None)
        if result is None:
            return
        if not self._keep and not result.changes and result.created:
            del self._containers[result.name]
        else:
            result.pack()

    def remarks(
        self,
        asked: Iterable[tuple[str, api.ContainerAdjustment | api.ContainerUpdate]],
        already: Iterable[Dropped],
        path: oci.UpdatePath,
        container_id: str = "",
        spec: specs.Spec | None = None,
    ) -> list[Dropped]:
        """Return the requests of plugins that the runtime drops or applies differently.

        ``already``: those that merging drops. ``path``: that of updates. ``container_id``,
        ``spec``: the container that is adjusted.
        """
        known = {(one.plugin, one.container_id, one.path) for one in already}
        drops_cdi = self._rules.drops_cdi_devices
        return [
            Dropped(plugin, target, one.path, json.dumps(one.value), one.reason)
            for plugin, wanted in asked
            if (target := container_id or getattr(wanted, "container_id", ""))
            in self._world.containers
            for one in (
                *oci.remarks(wanted, spec, path, drops_cdi),
                *oci.empty_cpu_set(wanted.linux.resources),
            )
            if (plugin, target, one.path) not in known
        ]

    def resources(
        self,
        container_id: str,
        requested: api.LinuxResources,
        asked: Iterable[tuple[str, api.ContainerUpdate]],
        merged: api.LinuxResources,
        voided_by: str = "",
    ) -> list[Attributed]:
        """Record an update ``requested`` by the kubelet and applied as ``merged``.

        Returns the changes that the updates ``asked`` by plugins make to it. ``voided_by``: the
        plugin because of which the runtime applies nothing; "" for none.
        """
        result = self._of(container_id)
        if result is None:
            return []
        path = self._rules.own_updates
        result.before = oci.update(result.before, requested, path)
        spec = oci.update(result.spec, requested, path)
        if voided_by:
            self._attribute(result, voided_by, spec, result.spec)
            return []
        changes: list[Attributed] = []
        for plugin, update in asked:
            after = oci.update(spec, update.linux.resources, path)
            changes += self._attribute(result, plugin, spec, after)
            spec = after
        result.spec = oci.update(result.spec, merged, path)
        return changes

    def updated(
        self,
        asked: Iterable[tuple[str, api.ContainerUpdate]],
        merged: Iterable[api.ContainerUpdate],
    ) -> list[Attributed]:
        """Record updates that plugins requested for other containers, applied as ``merged``."""
        path = self._rules.other_updates
        changes: list[Attributed] = []
        shown: dict[str, specs.Spec] = {}
        for plugin, update in asked:
            result = self._of(update.container_id)
            if result is None:
                continue
            spec = shown.get(update.container_id, result.spec)
            after = oci.update(spec, update.linux.resources, path)
            changes += self._attribute(result, plugin, spec, after)
            shown[update.container_id] = after
        for update in merged:
            result = self._of(update.container_id)
            if result is not None:
                result.spec = oci.update(result.spec, update.linux.resources, path)
        return changes

    def _attribute(
        self, result: ContainerResult, plugin: str, before: specs.Spec, after: specs.Spec
    ) -> list[Attributed]:
        found = [Attributed(plugin, result.name, change) for change in specs.changes(before, after)]
        for one in found:
            result.own(one.change.path, plugin)
        return found

    def _of(self, container_id: str) -> ContainerResult | None:
        """Return the result of a container, created on first use for one of Synchronize."""
        result = self._by_id.get(container_id)
        container = self._world.containers.get(container_id)
        if result is None and container is not None:
            pod = self._world.pods.get(container.pod_sandbox_id)
            result = self._new(container, oci.spec_of(container, pod))
            result.existed = True
        return result

    def _new(self, container: api.Container, spec: specs.Spec) -> ContainerResult:
        # A repeated creation keeps the container's name.
        known = self._by_id.get(container.id)
        name = self._world.name_of(container.id) if known is None else known.name
        if known is None:
            self._times[name] += 1
            name = f"{name}#{self._times[name]}" if self._times[name] > 1 else name
        result = ContainerResult(name, before=spec, spec=spec)
        self._containers[name] = self._by_id[container.id] = result
        return result
