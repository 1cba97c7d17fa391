# SPDX-License-Identifier: Apache-2.0
"""What each source of evidence has to say of each case."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from nri_scope import oci
from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.merging import fields as known
from nri_scope.nri.versions import V0_7, V0_12, NriVersion
from tests.interop.attribution_cases import (
    FIRST,
    SECOND,
    Asker,
    Case,
    Did,
    UpdateCase,
    steps_between,
)
from tests.interop.attribution_found import ALL, AROUND, BOTH, FEW, PROBED, REPLIES, VALIDATED
from tests.interop.attribution_run import Run
from tests.interop.attribution_said import Said
from tests.interop.attribution_truth import by_chance, lost, of_update, refused, shown

CHAIN = ("00-probe", "10-probe", FIRST, "30-probe", SECOND, "50-probe", "99-probe")
ANYBODY = f"one of {', '.join(CHAIN)}"


def expected_of(case: Case, view: str, seen: Run) -> list[Said]:
    """What this view has to say of the creation itself."""
    over = refused(case, seen.version)
    match view:
        case "replies" | "everything":
            steps = [*_by_plugin(case.states, (FIRST, SECOND), case, seen.version)]
            return [*steps, *_beyond_the_chain(case, seen, view)] if _kept(case, seen) else steps
        case "probes":
            owners = ("one of 11–29", "one of 31–49")
            return [*_by_plugin(shown(case), owners, case, seen.version)]
        case "probes and validator":
            owners = ("one of 11–29", "one of 31–49") if over else (FIRST, SECOND)
            steps = [*_by_plugin(shown(case), owners, case, seen.version)]
            return steps if over else [*steps, *_beyond_the_chain(case, seen, view)]
        case "first and last" if not over:
            before, _, after = shown(case)
            return [Said(*step) for step in steps_between("one of 01–98", before, after)]
        case "validator" if not over and not lost(case):
            before, between, after = case.states
            if by_chance(case):
                after = between
            owner = _told(case, seen, view)
            return [Said(*step) for step in steps_between(owner, before, after)]
    return []


def _by_plugin(
    states: tuple[oci.Spec, ...], owners: tuple[str, str], case: Case, version: NriVersion
) -> Iterator[Said]:
    """From one plugin to the next, as far as the chain went."""
    culprit = _culprit(case, version) if refused(case, version) else ""
    for plugin, owner, (before, after) in zip(
        (FIRST, SECOND), owners, pairwise(states), strict=True
    ):
        if plugin == culprit or (plugin == SECOND and by_chance(case)):
            return
        yield from (Said(*step) for step in steps_between(owner, before, after))


def _kept(case: Case, seen: Run) -> bool:
    """Whether the container keeps what a plugin removed; before NRI 0.7 mounts, too."""
    mount = case.entry.name == "mounts" and case.did is Did.REMOVE
    return lost(case) or (mount and seen.version < V0_7)


def _culprit(case: Case, version: NriVersion) -> str:
    """The plugin whose reply the runtime cannot merge."""
    panics = case.entry.name == "linux.sysctl" and version < V0_12
    return min(case.replies) if panics else SECOND


def _beyond_the_chain(case: Case, seen: Run, view: str) -> Iterator[Said]:
    """What validators are told that no connection was shown."""
    after = shown(case)[-1]
    real = case.states[0] if _kept(case, seen) else case.states[2]
    if by_chance(case):
        return
    if case.entry.name == "linux.resources.hugepage_limits" and case.did is Did.REPLACE:
        return
    owner = "runtime" if _kept(case, seen) else _told(case, seen, view)
    if not oci.same(after, real):
        yield from (Said(*step) for step in steps_between(owner, after, real))


def _told(case: Case, seen: Run, view: str) -> str:
    """The owner that validators are told of, as far as the word can be taken."""
    if case.entry.field is known.DEVICE_RULES:
        return ANYBODY
    if case.entry.field is known.HOOKS and seen.version < V0_12:
        return ANYBODY
    names = sorted({*names_in(seen.validations[case.name].owners.owners[case.container.id])})
    if not names:
        # The removal of what the container came with has no owner.
        unseen = [each for each in CHAIN if view == VALIDATED or each not in AROUND]
        return f"one of {', '.join(unseen)}"
    return names[0] if len(names) == 1 else f"one of {', '.join(names)}"


def names_in(owners: api.FieldOwners) -> Iterator[str]:
    """Whoever is named as an owner of anything."""
    texts = [*owners.simple.values()]
    for compound in owners.compound.values():
        texts += compound.owners.values()
    for text in texts:
        yield from (name.removeprefix("-") for name in text.split(","))


def real_spec(case: Case, seen: Run | None) -> oci.Spec:
    """What the OCI runtime is given in the end; without `seen`, were there no plugins."""
    spec = oci.spec_of(case.container)
    if seen is not None:
        reply = api.CreateContainerResponse.FromString(seen.answers[case.name].reply)
        spec = oci.adjust(spec, reply.adjust)
    # Names of CDI devices and of classes are not OCI's: the node says what they stand for.
    real = {key: value for key, value in spec.items() if key not in ("cdiDevices", "nri")}
    linux = real.get("linux")
    resources = linux.get("resources") if isinstance(linux, dict) else None
    if isinstance(linux, dict) and isinstance(resources, dict):
        kept: oci.Spec = {key: value for key, value in resources.items() if key != "blockIO"}
        real["linux"] = (
            {**linux, "resources": kept}
            if kept
            else {key: value for key, value in linux.items() if key != "resources"}
        )
    return real


def fails(case: UpdateCase) -> bool:
    """Whether the runtime refuses the event."""
    return case.conflict and case.entry.field not in NOT_OWNED


NOT_OWNED = (known.DEVICE_RULES, known.PIDS_LIMIT)
"""What updates may set twice: upstream's merging does not look at these at all."""


def expected_of_update(case: UpdateCase, view: str) -> list[Said]:
    """What this view has to say of the event in whose reply the update was."""
    if fails(case):
        return []
    moments = of_update(case).moments
    plugin = case.plugins[0]
    own = case.asker is Asker.UPDATE and case.subject is None
    owner = ""
    if view in (REPLIES, ALL):
        owner = plugin
    elif view in (PROBED, BOTH) and own:
        owner = "one of 11–29" if plugin == FIRST else "one of 31–49"
    elif view == FEW and own:
        owner = "one of 01–98"
    elif view in (VALIDATED, BOTH) and case.asker is Asker.CREATE:
        owner = plugin
    if not owner:
        return []
    return [Said(*step) for step in steps_between(owner, moments[0].wanted, moments[-1].wanted)]
