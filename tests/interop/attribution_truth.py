# SPDX-License-Identifier: Apache-2.0
"""What really happened to a container, step by step, and whether what the differ says is true.

"What plugins are shown", "what a plugin asked for" and "what becomes of it" are three things with
upstream's adaptation; where they differ is written down here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from nri_scope import oci
from nri_scope._gen.nri import api_pb2 as api
from nri_scope.differ.attribution.attributed_changes import ChangeStep
from nri_scope.differ.attribution.owner import Owner, OwnerKind
from nri_scope.nri.merging import adjusted
from nri_scope.nri.versions import V0_10, V0_11, V0_12, NriVersion
from nri_scope.oci import Json, Spec
from tests.interop.attribution_cases import FIRST, SECOND, Case, Did, UpdateCase, container_named
from tests.interop.attribution_fields import joined
from tests.interop.attribution_run import Run, updated_by

RUNTIME = "the runtime"

NEVER_SHOWN = frozenset({"/cdiDevices", "/linux/intelRdt", "/linux/memoryPolicy"})
"""What earlier plugins set here, later ones are never shown."""

REMOVAL_NOT_SHOWN = frozenset({"annotations", "linux.sysctl", "linux.net_devices"})
"""What earlier plugins remove of these, later ones are still shown. The runtime does remove it."""

REMOVAL_LOST = frozenset({"env", "linux.devices"})
"""What plugins remove of these from what the container came with, later ones are not shown any
more; but the merged reply does not say it, so that the runtime leaves it as it is."""

_REMOVALS = (Did.REMOVE, Did.REMOVE_OTHERS)


def shown_to_later(case: Case) -> bool:
    """Whether later plugins see what the case does."""
    path = case.entry.field.path
    if case.entry.name != "linux.resources.rdt_class" and any(
        path.startswith(hidden) for hidden in NEVER_SHOWN
    ):
        return False
    return not (case.did in _REMOVALS and case.entry.name in REMOVAL_NOT_SHOWN)


def by_chance(case: Case) -> bool:
    """Whether the merged reply says both, the value and its removal: the runtime does them in the
    random order of a Go map.
    """
    return case.did is Did.REMOVE_OTHERS and case.entry.name in REMOVAL_NOT_SHOWN


def shown(case: Case) -> tuple[Spec, Spec, Spec]:
    """What plugins are shown of the field: the first, those after it, those after the second."""
    before, between, after = case.states
    if case.entry.name == "linux.resources.hugepage_limits" and case.did is Did.REPLACE:
        # Upstream adds the limit to those that are there; the runtime then keeps the last one.
        both = joined(case.entry.spec(0), case.entry.spec(1))
        between, after = (
            both if state == case.entry.spec(1) else state for state in (between, after)
        )
    if shown_to_later(case):
        return before, between, after
    if by_chance(case):
        return before, between, between
    return before, before, before


def lost(case: Case) -> bool:
    """Whether the runtime does not do what the plugin asked for."""
    return case.did is Did.REMOVE and case.entry.name in REMOVAL_LOST


def refused(case: Case, version: NriVersion) -> bool:
    """Whether the creation fails."""
    others = case.did in (Did.REMOVE_OTHERS, Did.REPLACE_OTHERS)
    if case.entry.name == "linux.namespaces" and others and version >= V0_10:
        # Upstream looks for the mark of removal where it has cut it off already.
        return True
    if case.entry.name == "linux.sysctl" and V0_11 <= version < V0_12:
        # It writes to a map that is not there, and takes the whole runtime with it.
        return case.did not in (Did.REMOVE, Did.IGNORED)
    return case.did is Did.CONFLICT


class Moment(NamedTuple):
    """What a container is, and who made it so."""

    actor: str
    wanted: Spec
    """By what was asked for."""
    shown: Spec
    """By what the next plugin is shown."""


@dataclass(frozen=True)
class Truth:
    """A container from its request to its end."""

    moments: tuple[Moment, ...]

    def actors(self, step: ChangeStep) -> frozenset[str]:
        """Who can be meant by a step; nobody: nothing like that ever happened."""
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
        """Who had a device added, whose rule for the cgroup the runtime adds with it."""
        if not path.startswith("/linux/resources/devices/"):
            return frozenset()
        return frozenset(
            now.actor
            for before, now in pairwise(self.moments)
            if value_or_none(before.shown, "/linux/devices")
            != value_or_none(now.shown, "/linux/devices")
        )


def value_or_none(spec: Spec, path: str) -> Json:
    """What is there; None for nothing."""
    value = oci.value_at(spec, path)
    return None if isinstance(value, oci.Absent) else value


def of_creation(case: Case, seen: Run) -> Truth:
    """What happened in one creation, by what was configured and by what the runtime says."""
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
    """What happened to the container that was updated."""
    before, after = oci.spec_of(case.target), oci.spec_of(updated_by(case))
    moments = [Moment(RUNTIME, before, before)]
    if not case.conflict:
        moments += (Moment(plugin, after, after) for plugin in case.plugins)
    return Truth(tuple(moments))


def admits(owner: Owner, actor: str) -> bool:
    """Whether `owner` leaves room for this being the one."""
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


def lies(steps: Sequence[ChangeStep], truth: Truth) -> Iterator[str]:
    """Steps that never were, or whose owner is somebody else."""
    for step in steps:
        actors = truth.actors(step)
        change = step.change
        if not actors:
            yield f"{change.path}: {change.before!r} -> {change.after!r} never was ({step.owner})"
        elif not any(admits(step.owner, actor) for actor in actors):
            yield (
                f"{change.path}: {change.before!r} -> {change.after!r} was {', '.join(actors)}, "
                f"not {step.owner} by {', '.join(step.evidence)}"
            )
