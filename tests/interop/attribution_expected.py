# SPDX-License-Identifier: Apache-2.0
"""ExpectedChange attribution of each case by each source of evidence."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from nri_scope import oci, specs
from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.merging import fields as known
from nri_scope.nri.versions import V0_7, V0_12, NriVersion
from tests.interop.attribution_cases import (
    FIRST,
    SECOND,
    Action,
    Case,
    UpdateCase,
    UpdateTrigger,
    steps_between,
)
from tests.interop.attribution_found import ALL, AROUND, BOTH, FEW, PROBED, REPLIES, VALIDATED
from tests.interop.attribution_run import Run
from tests.interop.attribution_said import ReportedChange
from tests.interop.attribution_truth import (
    is_lost,
    is_order_random,
    is_refused,
    of_update,
    shown_states,
)

CHAIN = ("00-probe", "10-probe", FIRST, "30-probe", SECOND, "50-probe", "99-probe")
ANY_PLUGIN = f"one of {', '.join(CHAIN)}"


def expected_of(case: Case, view: str, seen: Run) -> list[ReportedChange]:
    """ExpectedChange changes in the creation, as seen by a view."""
    over = is_refused(case, seen.version)
    match view:
        case "replies" | "everything":
            steps = [*_by_plugin(case.states, (FIRST, SECOND), case, seen.version)]
            return [*steps, *_beyond_the_chain(case, seen, view)] if _kept(case, seen) else steps
        case "probes":
            owners = ("one of 11–29", "one of 31–49")
            return [*_by_plugin(shown_states(case), owners, case, seen.version)]
        case "probes and validator":
            owners = ("one of 11–29", "one of 31–49") if over else (FIRST, SECOND)
            steps = [*_by_plugin(shown_states(case), owners, case, seen.version)]
            return steps if over else [*steps, *_beyond_the_chain(case, seen, view)]
        case "first and last" if not over:
            before, _, after = shown_states(case)
            return [ReportedChange(*step) for step in steps_between("one of 01–98", before, after)]
        case "validator" if not over and not is_lost(case):
            before, between, after = case.states
            if is_order_random(case):
                after = between
            owner = _validator_owner(case, seen, view)
            return [ReportedChange(*step) for step in steps_between(owner, before, after)]
    return []


def _by_plugin(
    states: tuple[specs.Spec, ...], owners: tuple[str, str], case: Case, version: NriVersion
) -> Iterator[ReportedChange]:
    """ExpectedChange changes by each plugin, up to the end of the chain."""
    culprit = _culprit(case, version) if is_refused(case, version) else ""
    for plugin, owner, (before, after) in zip(
        (FIRST, SECOND), owners, pairwise(states), strict=True
    ):
        if plugin == culprit or (plugin == SECOND and is_order_random(case)):
            return
        yield from (ReportedChange(*step) for step in steps_between(owner, before, after))


def _kept(case: Case, seen: Run) -> bool:
    """Whether the runtime ignores a plugin's removal; before NRI 0.7 also of mounts."""
    mount = case.entry.name == "mounts" and case.action is Action.REMOVE
    return is_lost(case) or (mount and seen.version < V0_7)


def _culprit(case: Case, version: NriVersion) -> str:
    """The plugin whose reply fails to merge."""
    panics = case.entry.name == "linux.sysctl" and version < V0_12
    return min(case.replies) if panics else SECOND


def _beyond_the_chain(case: Case, seen: Run, view: str) -> Iterator[ReportedChange]:
    """Changes that only the request to validators contains."""
    after = shown_states(case)[-1]
    real = case.states[0] if _kept(case, seen) else case.states[2]
    if is_order_random(case):
        return
    if case.entry.name == "linux.resources.hugepage_limits" and case.action is Action.REPLACE:
        return
    owner = "runtime" if _kept(case, seen) else _validator_owner(case, seen, view)
    if not specs.same(after, real):
        yield from (ReportedChange(*step) for step in steps_between(owner, after, real))


def _validator_owner(case: Case, seen: Run, view: str) -> str:
    """The owner in the request to validators, or a range if that is not reliable."""
    if case.entry.field is known.DEVICE_RULES:
        return ANY_PLUGIN
    if case.entry.field is known.HOOKS and seen.version < V0_12:
        return ANY_PLUGIN
    names = sorted({*owner_names(seen.validations[case.name].owners.owners[case.container.id])})
    if not names:
        # The removal of a value from the original container has no owner.
        unseen = [each for each in CHAIN if view == VALIDATED or each not in AROUND]
        return f"one of {', '.join(unseen)}"
    return names[0] if len(names) == 1 else f"one of {', '.join(names)}"


def owner_names(owners: api.FieldOwners) -> Iterator[str]:
    """Names of all owners of a container's fields."""
    texts = [*owners.simple.values()]
    for compound in owners.compound.values():
        texts += compound.owners.values()
    for text in texts:
        yield from (name.removeprefix("-") for name in text.split(","))


def real_spec(case: Case, seen: Run | None) -> specs.Spec:
    """The spec passed to the OCI runtime; without `seen`, the spec without plugins."""
    spec = oci.spec_of(case.container)
    if seen is not None:
        reply = api.CreateContainerResponse.FromString(seen.answers[case.name].reply)
        spec = oci.adjust(spec, reply.adjust)
    # Names of CDI devices and of classes are not part of OCI: the node resolves them.
    real = {key: value for key, value in spec.items() if key not in ("cdiDevices", "nri")}
    linux = real.get("linux")
    resources = linux.get("resources") if isinstance(linux, dict) else None
    if isinstance(linux, dict) and isinstance(resources, dict):
        kept: specs.Spec = {key: value for key, value in resources.items() if key != "blockIO"}
        real["linux"] = (
            {**linux, "resources": kept}
            if kept
            else {key: value for key, value in linux.items() if key != "resources"}
        )
    return real


def fails(case: UpdateCase) -> bool:
    """Whether the event fails because of a conflict."""
    return case.conflict and case.entry.field not in NOT_OWNED


NOT_OWNED = (known.DEVICE_RULES, known.PIDS_LIMIT)
"""Fields that two updates may set: upstream's merging ignores them."""


def expected_of_update(case: UpdateCase, view: str) -> list[ReportedChange]:
    """ExpectedChange changes in the event with the update, as seen by a view."""
    if fails(case):
        return []
    moments = of_update(case).moments
    plugin = case.plugins[0]
    own = case.trigger is UpdateTrigger.UPDATE and case.subject is None
    owner = ""
    if view in (REPLIES, ALL):
        owner = plugin
    elif view in (PROBED, BOTH) and own:
        owner = "one of 11–29" if plugin == FIRST else "one of 31–49"
    elif view == FEW and own:
        owner = "one of 01–98"
    elif view in (VALIDATED, BOTH) and case.trigger is UpdateTrigger.CREATE:
        owner = plugin
    if not owner:
        return []
    return [
        ReportedChange(*step)
        for step in steps_between(owner, moments[0].wanted, moments[-1].wanted)
    ]
