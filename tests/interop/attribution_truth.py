# SPDX-License-Identifier: Apache-2.0
"""Actual changes of a container, step by step, and the check of the differ's claims.

In upstream's adaptation, the container shown to later plugins, the requested adjustment and the
final container can differ; this module defines where.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from nri_scope import oci, specs
from nri_scope._gen.nri import api_pb2 as api
from nri_scope.differ.attribution.attributed_changes import ChangeStep
from nri_scope.differ.attribution.owner import Owner, OwnerKind
from nri_scope.nri.merging import adjusted
from nri_scope.nri.versions import V0_10, V0_11, V0_12, NriVersion
from nri_scope.specs import Json, Spec
from tests.interop.attribution_cases import FIRST, SECOND, Action, Case, UpdateCase, container_named
from tests.interop.attribution_fields import joined
from tests.interop.attribution_run import Run, updated_by

RUNTIME = "the runtime"

NEVER_SHOWN = frozenset({"/cdiDevices", "/linux/intelRdt", "/linux/memoryPolicy"})
"""Paths whose values from earlier plugins are never shown to later ones."""

REMOVAL_NOT_SHOWN = frozenset({"annotations", "linux.sysctl", "linux.net_devices"})
"""Fields that are still shown to later plugins after a removal; the runtime does remove them."""

REMOVAL_LOST = frozenset({"env", "linux.devices"})
"""Fields whose removal from the original container is shown to later plugins, but is missing from
the merged reply, so that the runtime keeps the values."""

_REMOVALS = (Action.REMOVE, Action.REMOVE_OTHERS)


def shown_to_later(case: Case) -> bool:
    """Whether later plugins see the change."""
    path = case.entry.field.path
    if case.entry.name != "linux.resources.rdt_class" and any(
        path.startswith(hidden) for hidden in NEVER_SHOWN
    ):
        return False
    return not (case.action in _REMOVALS and case.entry.name in REMOVAL_NOT_SHOWN)


def is_order_random(case: Case) -> bool:
    """Whether the merged reply has both the value and its removal, which the runtime applies in the
    random order of a Go map.
    """
    return case.action is Action.REMOVE_OTHERS and case.entry.name in REMOVAL_NOT_SHOWN


def shown_states(case: Case) -> tuple[Spec, Spec, Spec]:
    """The field as shown to the first plugin, after the first, and after the second."""
    before, between, after = case.states
    if case.entry.name == "linux.resources.hugepage_limits" and case.action is Action.REPLACE:
        # Upstream appends the limit to the existing ones; the runtime then keeps the last one.
        both = joined(case.entry.spec(0), case.entry.spec(1))
        between, after = (
            both if state == case.entry.spec(1) else state for state in (between, after)
        )
    if shown_to_later(case):
        return before, between, after
    if is_order_random(case):
        return before, between, between
    return before, before, before


def is_lost(case: Case) -> bool:
    """Whether the runtime ignores the request."""
    return case.action is Action.REMOVE and case.entry.name in REMOVAL_LOST


def is_refused(case: Case, version: NriVersion) -> bool:
    """Whether the creation fails."""
    others = case.action in (Action.REMOVE_OTHERS, Action.REPLACE_OTHERS)
    if case.entry.name == "linux.namespaces" and others and version >= V0_10:
        # Upstream looks for the removal mark after having removed it.
        return True
    if case.entry.name == "linux.sysctl" and V0_11 <= version < V0_12:
        # Upstream writes to a nil map and panics, which ends the runtime.
        return case.action not in (Action.REMOVE, Action.IGNORED)
    return case.action is Action.CONFLICT


class Moment(NamedTuple):
    """State of a container after a plugin or the runtime."""

    actor: str
    wanted: Spec
    """As requested."""
    shown: Spec
    """As shown to the next plugin."""


@dataclass(frozen=True)
class Truth:
    """States of a container in order."""

    moments: tuple[Moment, ...]

    def actors(self, step: ChangeStep) -> frozenset[str]:
        """Return the possible authors of a step; empty if the change never happened."""
        path, change = step.change.path, step.change
        for kind in ("wanted", "shown"):
            values = [value_or_none(getattr(moment, kind), path) for moment in self.moments]
            found = frozenset(
                self.moments[number].actor
                for number in range(1, len(values))
                if values[number] == change.after
                and values[number - 1] != change.after
                and change.before in values[:number]
            )
            if found:
                return found | self._of_device(path)
        return frozenset()

    def _of_device(self, path: str) -> frozenset[str]:
        """Return the plugins that added a device: the runtime adds its cgroup rule."""
        if not path.startswith("/linux/resources/devices/"):
            return frozenset()
        return frozenset(
            now.actor
            for before, now in pairwise(self.moments)
            if value_or_none(before.shown, "/linux/devices")
            != value_or_none(now.shown, "/linux/devices")
        )


def value_or_none(spec: Spec, path: str) -> Json:
    """The value at a path; None if it is absent."""
    value = specs.value_at(spec, path)
    return None if isinstance(value, specs.Absent) else value


def of_creation(case: Case, seen: Run) -> Truth:
    """The states of a created container, from the configured replies and the runtime's result."""
    base = oci.spec_of(container_named(case.name))
    asked = seen.creations[case.name]
    shown = {plugin: oci.spec_of(message.container) for plugin, message in asked.items()}
    begin = oci.spec_of(case.container)
    moments = [Moment(RUNTIME, begin, begin)]
    answer = seen.answers[case.name]
    for plugin, after, state in ((FIRST, "30-probe", 1), (SECOND, "50-probe", 2)):
        if after in shown:
            wanted = joined(base, case.states[state])
            moments.append(Moment(plugin, wanted, shown[after]))
    if answer.error:
        return Truth((*moments, Moment(RUNTIME, begin, begin)))
    reply = api.CreateContainerResponse.FromString(answer.reply)
    real = oci.spec_of(adjusted(case.container, reply.adjust))
    return Truth((*moments, Moment(RUNTIME, real, real)))


def of_update(case: UpdateCase) -> Truth:
    """The states of the updated container."""
    before, after = oci.spec_of(case.target), oci.spec_of(updated_by(case))
    moments = [Moment(RUNTIME, before, before)]
    if not case.conflict:
        moments += (Moment(plugin, after, after) for plugin in case.plugins)
    return Truth(tuple(moments))


def admits(owner: Owner, actor: str) -> bool:
    """Whether `owner` includes an actor."""
    if owner.who is OwnerKind.UNKNOWN:
        return True
    if actor == RUNTIME:
        return owner.who is OwnerKind.RUNTIME or owner.or_runtime
    if owner.plugins:
        return actor in owner.plugins
    if owner.who is not OwnerKind.ONE_OF or not "00" <= owner.first <= owner.last <= "99":
        return False
    within = owner.first <= actor[:2] <= owner.last and len(owner.first) == len(owner.last) == 2
    return within or actor[:2] in owner.ties


def false_claims(steps: Sequence[ChangeStep], truth: Truth) -> Iterator[str]:
    """Yield a description of each step that never happened or has a wrong owner."""
    for step in steps:
        actors = truth.actors(step)
        change = step.change
        if not actors:
            yield (
                f"{change.path}: {change.before!r} -> {change.after!r} by {step.owner} "
                "never happened"
            )
        elif not any(admits(step.owner, actor) for actor in actors):
            yield (
                f"{change.path}: {change.before!r} -> {change.after!r} by {', '.join(actors)}, "
                f"not {step.owner} (evidence: {', '.join(step.evidence)})"
            )
