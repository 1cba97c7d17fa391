# SPDX-License-Identifier: Apache-2.0
"""No change is attributed to a wrong owner, for any observed part of a chain."""

from __future__ import annotations

from itertools import groupby
from random import Random

import pytest

from nri_scope import specs
from nri_scope._gen.nri import api_pb2 as api
from nri_scope.differ.attribution.attributed_changes import Evidence
from nri_scope.differ.attribution.differ import Differ
from nri_scope.differ.attribution.hidden_changes import MAPS, PATHS
from nri_scope.differ.attribution.owner import RUNTIME, UNKNOWN
from nri_scope.events import Role
from nri_scope.nri.versions import NriVersion
from tests.amount import amount
from tests.interop.merge_cases import PLUGINS, Case, generated

from .chains import Traffic, play

CASES = [case for case in generated(amount(1_000, 250)) if case.event == "CreateContainer"]
_ODD = "/process/env/X"
"""Some plugins set a variable named "X=Y", which runtimes may treat as that name or as X."""
PROBES = ("00-p", "10-p", "15-p", "20-p", "25-p", "35-p", "40-p", "99-p")
VERSIONS = ("0.6.1", "0.8.0", "0.11.0", "0.12.5")
VALIDATED = ("0.10.0", "0.11.0", "0.12.5")


@pytest.mark.parametrize(
    ("version", "validated"),
    [(version, False) for version in VERSIONS] + [(version, True) for version in VALIDATED],
)
def test_no_owner_is_wrong_and_no_change_is_missing(version: str, validated: bool) -> None:
    checked = 0
    for number, case in enumerate(CASES):
        checked += _check(case, Random(f"{number} {version}"), version, validated=validated)
    assert checked > len(CASES)


def _check(case: Case, random: Random, version: str, *, validated: bool) -> int:
    request = case.request
    assert isinstance(request, api.CreateContainerRequest)
    probes = random.sample(PROBES, random.randint(2, 5))
    chain: list[tuple[str, api.CreateContainerResponse | None]] = [
        (name, reply)
        for name, reply in zip(PLUGINS, case.replies, strict=False)
        if isinstance(reply, api.CreateContainerResponse)
    ]
    chain += [(probe, None) for probe in probes]
    # Plugins with equal indices are called in any order.
    random.shuffle(chain)
    chain.sort(key=lambda one: one[0][:2])
    seen = dict.fromkeys(probes, Role.PROBE)
    seen |= {name: Role.TAP for name in PLUGINS if random.random() < 0.3}
    made = Traffic(Differ())
    for plugin, _ in chain:
        if plugin in seen:
            made.connect(plugin, seen[plugin], version=version)
    validator = random.choice(probes) if validated else ""
    truth = play(made, request, chain, seen, validator=validator, version=NriVersion.parse(version))
    found = made.end()
    if truth is None:
        return 0
    (creation,) = (one for one in found if one.name == "CreateContainer")
    own = [step for step in creation.steps if step.container == request.container.id]
    for step in own:
        assert step.owner != RUNTIME
        if step.change.path.startswith(PATHS) and step.evidence == (Evidence.TAP,):
            # An unobserved plugin may have set it before this one.
            continue
        if step.owner == UNKNOWN or not step.has_effect:
            continue
        path = step.change.path
        if step.change.kind == "moved":
            # A reordering can be described by different moves.
            path = path.rpartition("/")[0]
        assert truth.admits(step.owner, path), (case.name, step, truth.changed)
        assert not step.disputed or _ODD in path, (case.name, step)
    history = made.differ.histories[request.container.id]
    # The steps with an effect are exactly the differences between consecutive observations.
    rebuilt = history.base
    effective = [step for step in own if step.has_effect]
    for _, together in groupby(
        effective, key=lambda step: (step.event, step.evidence[0], step.owner)
    ):
        rebuilt = specs.apply(rebuilt, [step.change for step in together])
    assert not [change for change in specs.changes(rebuilt, history.spec) if change.kind != "moved"]
    if validated:
        assert not specs.changes(truth.before, history.base), case.name
        remaining = [one for one in specs.changes(history.spec, truth.after) if one.kind != "moved"]
        # Changes that runtimes ignore leave the base value; runtimes keep showing removed map keys.
        assert all(
            _ODD in one.path
            or one.path.startswith(MAPS)
            or specs.value_at(history.spec, one.path) == specs.value_at(history.base, one.path)
            for one in remaining
        ), case.name
    for plugin, role in seen.items():
        if role == Role.TAP and truth.changed.get(plugin):
            mine = {step.change.path for step in own if step.owner.plugins == (plugin,)}
            shown = {path for path in truth.changed[plugin] if not path.startswith(PATHS)}
            assert shown <= mine, case.name
    return sum(step.owner != UNKNOWN for step in own)
