# SPDX-License-Identifier: Apache-2.0
"""Apply merged replies to the world, the containers' specs and the result."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Protocol, cast

from google.protobuf.message import Message

from nri_scope import oci, specs
from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.events import Event
from nri_scope.nri.merging import (
    Creation,
    Dropped,
    IsuladCreation,
    IsuladStopping,
    Updating,
    unsolicited,
)
from nri_scope.nri.request_subject import container_of, pod_of
from nri_scope.nri.versions import NriVersion
from nri_scope.oci import isulad_spec
from nri_scope.runtime import Outcome

from .ledger import Ledger
from .result import PlayedEvent
from .world import World


class _ReplyWithUpdates(Protocol):
    """Reply that may request updates of containers."""

    @property
    def update(self) -> Iterable[api.ContainerUpdate]: ...


class Effects:
    """Effects of merged replies on one replay."""

    def __init__(
        self,
        world: World,
        ledger: Ledger,
        rules: oci.RuntimeRules,
        version: NriVersion | None,
    ) -> None:
        """``rules``: those of the emulated runtime. ``version``: the NRI version, which determines
        the requests that a runtime drops.
        """
        self._world = world
        self._rules = rules
        self._ledger = ledger
        self._version = version
        self._start_failures: dict[str, str] = {}
        """Why a created container does not start, by its id."""

    def start_failure(self, event: Event, request: Message) -> str:
        """Return why the event's container does not start here; "" if nothing is known."""
        container = container_of(event.name, request)
        return "" if container is None else self._start_failures.get(container.id, "")

    def of(
        self, played: PlayedEvent, event: Event, request: Message, outcome: Outcome
    ) -> Callable[[], None]:
        """Apply ``event``, sent to plugins as ``request``, with this outcome.

        Returns a function with the remaining work, so that the next request is not delayed: call
        it before the next change of the world.
        """
        container = container_of(event.name, request)
        rest = _no_work
        voided_by = self._voiding_plugin(outcome, container)
        if event is Event.CreateContainer and container is not None:
            rest = self._create(played, request, container, outcome)
        elif voided_by:
            self._world.happened(event, api.UpdateContainerRequest(container=container))
        elif not outcome.failure:
            self._world.happened(event, request)
            if event is Event.RemoveContainer and container is not None:
                rest = partial(self._ledger.removed, container.id)
        if outcome.failure or outcome.error:
            # The runtime then applies no reply, even if it only logs the error.
            return rest
        is_isulads = isinstance(outcome.merged, IsuladCreation | IsuladStopping)
        asked = [] if is_isulads else list(_asked(outcome))
        if not isinstance(outcome.merged, Updating) or container is None:
            own = []
        else:
            own = [one for one in asked if one[1].container_id == container.id]
            asked = [one for one in asked if one[1].container_id != container.id]
            wanted = cast("api.UpdateContainerRequest", request).linux_resources
            rest = partial(
                self._resources, played, container.id, wanted, own, outcome.merged, voided_by
            )
        updates = outcome.updates
        if not own and not asked and not updates:
            return rest
        rest()
        if own and container is not None and isinstance(outcome.merged, Updating):
            merged = api.LinuxResources() if voided_by else outcome.merged.resources
            self._world.update(container.id, merged)
        self._update(played, asked, updates, outcome.dropped)
        return _no_work

    def apply_updates(
        self, played: PlayedEvent, plugin: str, updates: Iterable[api.ContainerUpdate]
    ) -> None:
        """Apply unsolicited updates, or those in a reply to Synchronize."""
        kept, dropped = unsolicited(updates, plugin, version=self._version)
        played.dropped += dropped
        self._update(played, [(plugin, one) for one in kept], kept, dropped)

    def refusal(self, request: Message, outcome: Outcome) -> tuple[str, str]:
        """Return why the runtime rejects the merged adjustments, and the responsible plugin.

        The reason is "" if they are accepted; the plugin is "" if no single adjustment is to blame.
        """
        container = container_of(Event.CreateContainer.name, request)
        adjusting = list(_adjusting(outcome))
        if not isinstance(outcome.merged, Creation) or container is None or not adjusting:
            return "", ""
        spec = oci.spec_of(container)
        why = _refused(outcome.merged.adjustment, spec)
        responsible = (plugin for plugin, one in adjusting if why and _refused(one, spec))
        return why, next(responsible, "")

    def _create(
        self, played: PlayedEvent, request: Message, container: api.Container, outcome: Outcome
    ) -> Callable[[], None]:
        world, ledger = self._world, self._ledger
        pod = pod_of(Event.CreateContainer.name, request)
        wanted = list(_adjusting(outcome))
        adjustment = None
        if isinstance(outcome.merged, IsuladCreation):
            wanted = outcome.merged.applied
        if not outcome.failure and isinstance(outcome.merged, Creation | IsuladCreation):
            adjustment = outcome.merged.adjustment
            world.happened(Event.CreateContainer, request)
            world.created(container, adjustment)
        else:
            world.not_created(container, pod)
        self._start_failures.pop(container.id, None)
        start = None
        if adjustment is not None and isinstance(outcome.merged, IsuladCreation):
            start = isulad_spec.start_refusal(outcome.merged)
        if start is not None:
            self._start_failures[container.id] = f"{start.plugin}: {start.reason}"

        def rest() -> None:
            played.changes += ledger.created(
                container,
                pod,
                wanted,
                adjustment,
                outcome,
                self._start_failures.get(container.id, ""),
            )
            if wanted and adjustment is not None and isinstance(outcome.merged, Creation):
                spec, path = oci.spec_of(container, pod), self._rules.own_updates
                played.dropped += ledger.remarks(wanted, outcome.dropped, path, container.id, spec)
            elif adjustment is not None and isinstance(outcome.merged, IsuladCreation):
                played.dropped += [
                    Dropped(one.plugin, container.id, one.path, json.dumps(one.value), one.reason)
                    for one in isulad_spec.altered(outcome.merged)
                ]

        return rest

    def _resources(
        self,
        played: PlayedEvent,
        container_id: str,
        wanted: api.LinuxResources,
        own: Sequence[tuple[str, api.ContainerUpdate]],
        merged: Updating,
        voided_by: str,
    ) -> None:
        ledger, resources = self._ledger, merged.resources
        played.changes += ledger.resources(container_id, wanted, own, resources, voided_by)
        if voided_by:
            played.dropped.append(Dropped(voided_by, container_id, "", "", oci.VOIDED))
        played.dropped += ledger.remarks(own, merged.dropped, self._rules.own_updates)

    def _voiding_plugin(self, outcome: Outcome, container: api.Container | None) -> str:
        """Return the plugin whose update makes the runtime apply nothing of an UpdateContainer."""
        merged = outcome.merged
        if (
            container is None
            or outcome.failure
            or not isinstance(merged, Updating)
            or not (merged.is_emptied and self._rules.voids_empty_updates)
        ):
            return ""
        return next(who for who, one in _asked(outcome) if one.container_id == container.id)

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
                plugin = next((who for who, one in asked if one.container_id == id_), "")
                played.dropped.append(Dropped(plugin, update.container_id, "", "", reason))
        played.changes += self._ledger.updated(asked, merged)
        played.dropped += self._ledger.remarks(asked, dropped, self._rules.other_updates)
        for update in merged:
            self._world.update(update.container_id, update.linux.resources)


def _no_work() -> None:
    """Do nothing."""


def _refused(adjustment: api.ContainerAdjustment, spec: specs.Spec) -> str:
    found = oci.remarks(adjustment, spec)
    return next((one.reason for one in found if one.kind == "refused"), "")


def _adjusting(outcome: Outcome) -> Iterator[tuple[str, api.ContainerAdjustment]]:
    """Yield the plugins' adjustments of a new container, in order."""
    for answer in outcome.answers:
        reply = answer.reply
        if isinstance(reply, api.CreateContainerResponse) and reply.HasField("adjust"):
            yield answer.plugin, reply.adjust


def _asked(outcome: Outcome) -> Iterator[tuple[str, api.ContainerUpdate]]:
    """Yield the updates that plugins requested, in order."""
    for answer in outcome.answers:
        reply = answer.reply
        if reply is not None and "update" in reply.DESCRIPTOR.fields_by_name:
            for update in cast("_ReplyWithUpdates", reply).update:
                yield answer.plugin, update
