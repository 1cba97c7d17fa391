# SPDX-License-Identifier: Apache-2.0
"""Apply merged replies to the world, and record the plugins' changes to OCI specs, by event."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import cast

from google.protobuf.message import Message

from nri_scope import oci, specs
from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.changes import WithUpdates
from nri_scope.nri.events import EventKind
from nri_scope.nri.merging import (
    CreationMerging,
    Dropped,
    IsuladCreation,
    IsuladStopping,
    UpdateMerging,
    unsolicited,
)
from nri_scope.nri.request_subject import container_of, pod_of
from nri_scope.nri.versions import NriVersion
from nri_scope.oci import isulad_spec
from nri_scope.runtime import OperationResult

from .result import Attributed, ContainerResult, PlayedEvent
from .world import World


class Effects:
    """Effects of merged replies on one replay."""

    def __init__(
        self,
        world: World,
        containers: dict[str, ContainerResult],
        rules: oci.RuntimeRules,
        version: NriVersion | None,
        *,
        keep: bool,
    ) -> None:
        """``containers``: receives the results, in the order in which containers first appear.
        ``rules``: those of the emulated runtime. ``version``: the NRI version, which determines
        the requests that a runtime drops. Without ``keep``, containers that are removed unchanged
        are discarded.
        """
        self._world = world
        self._containers = containers
        self._rules = rules
        self._version = version
        self._keep = keep
        self._by_id: dict[str, ContainerResult] = {}
        self._times: Counter[str] = Counter()
        """Number of containers so far, by name."""
        self._start_failures: dict[str, str] = {}
        """Why a created container does not start, by its id."""

    def start_failure(self, event: EventKind, request: Message) -> str:
        """Return why the event's container does not start here; "" if nothing is known."""
        container = container_of(event.name, request)
        return "" if container is None else self._start_failures.get(container.id, "")

    def of(
        self, played: PlayedEvent, event: EventKind, request: Message, outcome: OperationResult
    ) -> Callable[[], None]:
        """Apply ``event``, sent to plugins as ``request``, with this outcome.

        Returns a function with the remaining work, so that the next request is not delayed: call
        it before the next change of the world.
        """
        container = container_of(event.name, request)
        work = _no_work
        voided_by = self._voiding_plugin(outcome, container)
        if event is EventKind.CreateContainer and container is not None:
            work = self._create(played, request, container, outcome)
        elif voided_by:
            self._world.happened(event, api.UpdateContainerRequest(container=container))
        elif not outcome.failure:
            self._world.happened(event, request)
            if event is EventKind.RemoveContainer and container is not None:
                work = partial(self._record_removal, container.id)
        if outcome.failure or outcome.error:
            # The runtime then applies no reply, even if it only logs the error.
            return work
        is_isulads = isinstance(outcome.merged, IsuladCreation | IsuladStopping)
        asked = [] if is_isulads else list(_asked(outcome))
        if not isinstance(outcome.merged, UpdateMerging) or container is None:
            own = []
        else:
            own = [request for request in asked if request[1].container_id == container.id]
            asked = [update for update in asked if update[1].container_id != container.id]
            wanted = cast("api.UpdateContainerRequest", request).linux_resources
            work = partial(
                self._resources, played, container.id, wanted, own, outcome.merged, voided_by
            )
        updates = outcome.updates
        if not own and not asked and not updates:
            return work
        work()
        if own and container is not None and isinstance(outcome.merged, UpdateMerging):
            merged = api.LinuxResources() if voided_by else outcome.merged.resources
            self._world.update(container.id, merged)
        self._update(played, asked, updates, outcome.dropped)
        return _no_work

    def apply_updates(
        self, played: PlayedEvent, plugin: str, updates: Iterable[api.ContainerUpdate]
    ) -> None:
        """Apply unsolicited updates, or those in a reply to Synchronize."""
        applied, dropped = unsolicited(updates, plugin, version=self._version)
        played.dropped += dropped
        self._update(played, [(plugin, update) for update in applied], applied, dropped)

    def refusal(self, request: Message, outcome: OperationResult) -> tuple[str, str]:
        """Return why the runtime rejects the merged adjustments, and the responsible plugin.

        The reason is "" if they are accepted; the plugin is "" if no single adjustment is to blame.
        """
        container = container_of(EventKind.CreateContainer.name, request)
        adjusting = list(_adjusting(outcome))
        if not isinstance(outcome.merged, CreationMerging) or container is None or not adjusting:
            return "", ""
        spec = oci.spec_of(container)
        why = _refused(outcome.merged.adjustment, spec)
        responsible = (
            plugin for plugin, adjustment in adjusting if why and _refused(adjustment, spec)
        )
        return why, next(responsible, "")

    def _create(
        self,
        played: PlayedEvent,
        request: Message,
        container: api.Container,
        outcome: OperationResult,
    ) -> Callable[[], None]:
        world = self._world
        pod = pod_of(EventKind.CreateContainer.name, request)
        wanted = list(_adjusting(outcome))
        adjustment = None
        if isinstance(outcome.merged, IsuladCreation):
            wanted = outcome.merged.applied
        if not outcome.failure and isinstance(outcome.merged, CreationMerging | IsuladCreation):
            adjustment = outcome.merged.adjustment
            world.happened(EventKind.CreateContainer, request)
            world.created(container, adjustment)
        else:
            world.not_created(container, pod)
        self._start_failures.pop(container.id, None)
        start = None
        if adjustment is not None and isinstance(outcome.merged, IsuladCreation):
            start = isulad_spec.start_refusal(outcome.merged)
        if start is not None:
            self._start_failures[container.id] = f"{start.plugin}: {start.reason}"

        def work() -> None:
            played.changes += self._record_creation(container, pod, wanted, adjustment, outcome)
            if wanted and adjustment is not None and isinstance(outcome.merged, CreationMerging):
                spec, path = oci.spec_of(container, pod), self._rules.own_updates
                played.dropped += self._remarks(wanted, outcome.dropped, path, container.id, spec)
            elif adjustment is not None and isinstance(outcome.merged, IsuladCreation):
                played.dropped += [
                    Dropped(plugin, container.id, path, json.dumps(value), reason)
                    for plugin, path, value, reason in isulad_spec.altered(outcome.merged)
                ]

        return work

    def _resources(
        self,
        played: PlayedEvent,
        container_id: str,
        requested: api.LinuxResources,
        own: Sequence[tuple[str, api.ContainerUpdate]],
        merged: UpdateMerging,
        voided_by: str,
    ) -> None:
        """Record an update ``requested`` by the kubelet, which plugins change by ``own`` updates.

        ``voided_by``: the plugin because of which the runtime applies nothing; "" for none.
        """
        path = self._rules.own_updates
        result = self._result_of(container_id)
        if result is not None:
            result.before = oci.update(result.before, requested, path)
            spec = oci.update(result.spec, requested, path)
            if voided_by:
                self._attribute(result, voided_by, spec, result.spec)
            else:
                for plugin, update in own:
                    after = oci.update(spec, update.linux.resources, path)
                    played.changes += self._attribute(result, plugin, spec, after)
                    spec = after
                result.spec = oci.update(result.spec, merged.resources, path)
        if voided_by:
            played.dropped.append(Dropped(voided_by, container_id, "", "", oci.VOIDED))
        played.dropped += self._remarks(own, merged.dropped, path)

    def _voiding_plugin(self, outcome: OperationResult, container: api.Container | None) -> str:
        """Return the plugin whose update makes the runtime apply nothing of an UpdateContainer."""
        merged = outcome.merged
        if (
            container is None
            or outcome.failure
            or not isinstance(merged, UpdateMerging)
            or not (merged.is_emptied and self._rules.voids_empty_updates)
        ):
            return ""
        return next(who for who, update in _asked(outcome) if update.container_id == container.id)

    def _update(
        self,
        played: PlayedEvent,
        asked: Iterable[tuple[str, api.ContainerUpdate]],
        merged: Iterable[api.ContainerUpdate],
        dropped: Iterable[Dropped],
    ) -> None:
        merged = list(merged)
        for update in merged:
            if update.container_id not in self._world.containers:
                reason = "unknown container: runtimes ignore the update"
                id_ = update.container_id
                plugin = next((who for who, update in asked if update.container_id == id_), "")
                played.dropped.append(Dropped(plugin, update.container_id, "", "", reason))
        played.changes += self._record_updates(asked, merged)
        played.dropped += self._remarks(asked, dropped, self._rules.other_updates)
        for update in merged:
            self._world.update(update.container_id, update.linux.resources)

    # -- specs of containers, with and without the changes ------------------------------------

    def _record_creation(
        self,
        container: api.Container,
        pod: api.PodSandbox | None,
        asked: Iterable[tuple[str, api.ContainerAdjustment]],
        merged: api.ContainerAdjustment | None,
        outcome: OperationResult,
    ) -> list[Attributed]:
        """Record a creation; ``merged`` is None if it failed.

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
        result.runtime_died = outcome.killed
        result.start_failure = self._start_failures.get(container.id, "")
        if merged is not None:
            result.spec = rules.written(rules.adjust(result.before, merged))
        else:
            self._by_id.pop(container.id, None)
        return changes

    def _record_removal(self, container_id: str) -> None:
        """Record that a container was removed."""
        result = self._by_id.pop(container_id, None)
        if result is None:
            return
        if not self._keep and not result.changes and result.created:
            del self._containers[result.name]
        else:
            result.pack()

    def _remarks(
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
        reported = {(dropped.plugin, dropped.container_id, dropped.path) for dropped in already}
        return [
            Dropped(plugin, target, dropped.path, json.dumps(dropped.value), dropped.reason)
            for plugin, wanted in asked
            if (target := container_id or getattr(wanted, "container_id", ""))
            in self._world.containers
            for dropped in (
                *oci.remarks(wanted, spec, path, self._rules),
                *oci.empty_cpu_set(wanted.linux.resources),
            )
            if (plugin, target, dropped.path) not in reported
        ]

    def _record_updates(
        self,
        asked: Iterable[tuple[str, api.ContainerUpdate]],
        merged: Iterable[api.ContainerUpdate],
    ) -> list[Attributed]:
        """Record updates that plugins requested for other containers, applied as ``merged``."""
        path = self._rules.other_updates
        changes: list[Attributed] = []
        updated: dict[str, specs.Spec] = {}
        for plugin, update in asked:
            result = self._result_of(update.container_id)
            if result is None:
                continue
            spec = updated.get(update.container_id, result.spec)
            after = oci.update(spec, update.linux.resources, path)
            changes += self._attribute(result, plugin, spec, after)
            updated[update.container_id] = after
        for update in merged:
            result = self._result_of(update.container_id)
            if result is not None:
                result.spec = oci.update(result.spec, update.linux.resources, path)
        return changes

    def _attribute(
        self, result: ContainerResult, plugin: str, before: specs.Spec, after: specs.Spec
    ) -> list[Attributed]:
        changes = [
            Attributed(plugin, result.name, change) for change in specs.changes(before, after)
        ]
        for attributed in changes:
            result.own(attributed.change.path, plugin)
        return changes

    def _result_of(self, container_id: str) -> ContainerResult | None:
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
        earlier = self._by_id.get(container.id)
        name = self._world.name_of(container.id) if earlier is None else earlier.name
        if earlier is None:
            self._times[name] += 1
            name = f"{name}#{self._times[name]}" if self._times[name] > 1 else name
        result = ContainerResult(name, before=spec, spec=spec)
        self._containers[name] = self._by_id[container.id] = result
        return result


def _no_work() -> None:
    """Do nothing."""


def _refused(adjustment: api.ContainerAdjustment, spec: specs.Spec) -> str:
    remarks = oci.remarks(adjustment, spec)
    return next((remark.reason for remark in remarks if remark.kind == "refused"), "")


def _adjusting(outcome: OperationResult) -> Iterator[tuple[str, api.ContainerAdjustment]]:
    """Yield the plugins' adjustments of a new container, in order."""
    for answer in outcome.answers:
        reply = answer.reply
        if isinstance(reply, api.CreateContainerResponse) and reply.HasField("adjust"):
            yield answer.plugin, reply.adjust


def _asked(outcome: OperationResult) -> Iterator[tuple[str, api.ContainerUpdate]]:
    """Yield the updates that plugins requested, in order."""
    for answer in outcome.answers:
        reply = answer.reply
        if reply is not None and "update" in reply.DESCRIPTOR.fields_by_name:
            for update in cast("WithUpdates", reply).update:
                yield answer.plugin, update
