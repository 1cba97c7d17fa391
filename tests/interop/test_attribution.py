# SPDX-License-Identifier: Apache-2.0
"""Every adjustable field through a chain of two Go plugins: who changed what, by each source."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri_scope import oci
from nri_scope.differ.attribution.attributed_changes import Applied, ChangeStep, Evidence
from nri_scope.differ.attribution.owner import OwnerKind
from nri_scope.nri.merging import fields as known
from nri_scope.nri.versions import V0_10, V0_11, V0_12
from tests.amount import EXAMPLES
from tests.interop.attribution_cases import FIRST, SECOND, Case, Did, cases, container_named
from tests.interop.attribution_expected import CHAIN, expected_of, names_in, real_spec
from tests.interop.attribution_fields import ENTRIES, joined
from tests.interop.attribution_found import (
    ALL,
    AROUND,
    BOTH,
    FEW,
    PROBED,
    REPLIES,
    SINGLE,
    VALIDATED,
    Found,
    found_in,
    seen_by,
)
from tests.interop.attribution_run import PLUGINS, PROBES, RUNTIMES, Run, View, write
from tests.interop.attribution_said import none_of, said
from tests.interop.attribution_truth import (
    by_chance,
    lies,
    of_creation,
    refused,
    shown,
    value_or_none,
)
from tests.interop.build import Merger, Unavailable
from tests.interop.merge_rules import FIELDS

EVIDENCE: dict[str, list[tuple[Evidence, ...]]] = {
    PROBED: [(Evidence.PROBES,)],
    SINGLE: [],
    FEW: [(Evidence.PROBES,)],
    VALIDATED: [(Evidence.VALIDATOR,)],
    BOTH: [
        (Evidence.PROBES,),
        (Evidence.VALIDATOR,),
        (Evidence.PROBES, Evidence.VALIDATOR),
    ],
    REPLIES: [(Evidence.TAP,)],
    ALL: [(Evidence.TAP,)],
}


# -- the cases ------------------------------------------------------------------------------


def test_every_field_that_can_be_adjusted_is_in_the_table() -> None:
    assert {entry.field for entry in ENTRIES} == set(known.FIELDS)
    assert sorted(entry.name for entry in ENTRIES) == sorted(FIELDS)


def test_the_cases_happen_as_they_are_written_down(release: Merger) -> None:
    seen = seen_by(release)
    for case in cases(seen.version):
        answer = seen.answers[case.name]
        assert bool(answer.error) == refused(case, seen.version), (case.name, answer.error)
        base = oci.spec_of(container_named(case.name))
        asked = seen.creations[case.name]
        for name, state in zip(AROUND, shown(case), strict=True):
            message = asked.get(name)
            assert message is not None or answer.error, case.name
            if message is not None:
                assert oci.same(oci.spec_of(message.container), joined(base, state)), case.name


def test_the_runtime_names_the_owners_that_were_configured(release: Merger) -> None:
    seen = seen_by(release)
    for case in cases(seen.version):
        told = seen.validations.get(case.name)
        if told is None:
            continue
        assert tuple(f"{one.index}-{one.name}" for one in told.plugins) == CHAIN
        assert set(told.owners.owners) <= {case.container.id}
        names = set(names_in(told.owners.owners[case.container.id]))
        if case.did is Did.IGNORED or case.entry.field is known.DEVICE_RULES:
            assert not names, case.name
        elif case.did is Did.ADD_BOTH:
            # Up to NRI 0.11 only the last one who added a hook is told.
            told_all = seen.version >= V0_12
            assert names == ({FIRST, SECOND} if told_all else {SECOND}), case.name
        elif case.did is Did.REMOVE:
            assert names <= {case.owner}, case.name
        elif by_chance(case):
            assert names == {FIRST}, case.name
        else:
            assert names == {case.owner}, case.name


# -- what the differ says -------------------------------------------------------------------


def test_no_change_is_laid_to_who_did_not_make_it(release: Merger, view: str) -> None:
    seen, found = seen_by(release), found_in(release, view)
    wrong = {
        case.name: problems
        for case in workable(seen)
        if (problems := list(lies(found.steps[case.container.id], of_creation(case, seen))))
    }
    none_of(wrong)


def test_each_source_shows_what_it_can_see(release: Merger, view: str) -> None:
    seen, found = seen_by(release), found_in(release, view)
    wrong = {}
    for case in workable(seen):
        own = [
            step
            for step in _own(found, case)
            # Not what the runtime makes undone of what the chain had agreed on.
            if not _is_rule_for_device(case, step)
            and not (step.owner.who is OwnerKind.RUNTIME and step.note == oci.ONLY_THE_LIMIT)
        ]
        expected = expected_of(case, view, seen)
        if view == REPLIES:
            # Whether the runtime keeps what was removed shows in a later event: without those
            # before the plugin, it is not known whose value that was.
            expected = [one for one in expected if one.owner != "runtime"]
        if said(own) != expected:
            wrong[case.name] = (said(own), expected)
        assert all(
            step.evidence in EVIDENCE[view]
            for step in own
            if step.owner.who is not OwnerKind.RUNTIME
        ), case.name
        assert not any(step.disputed for step in own), case.name
    none_of(wrong)


def workable(seen: Run) -> list[Case]:
    """All cases but those of sysctls in NRI 0.11: there, upstream's adaptation panics when one is
    set, and takes a removal for one of an annotation.
    """
    return [
        case
        for case in cases(seen.version)
        if not (case.entry.field is known.SYSCTL and V0_11 <= seen.version < V0_12)
    ]


def _own(found: Found, case: Case) -> tuple[ChangeStep, ...]:
    about = found.about.get(("CreateContainer", case.container.id)) or found.about.get(
        ("ValidateContainerAdjustment", case.container.id)
    )
    return about.own if about is not None else ()


def _is_rule_for_device(case: Case, step: ChangeStep) -> bool:
    is_rule = step.change.path.startswith("/linux/resources/devices/")
    return is_rule and case.entry.name == "linux.devices"


def test_later_events_show_what_became_of_it(release: Merger, view: str) -> None:
    if view == VALIDATED:
        return
    seen, found = seen_by(release), found_in(release, view)
    missing = {}
    for case in workable(seen):
        truth = of_creation(case, seen)
        begin, real = truth.moments[0].wanted, truth.moments[-1].wanted
        spec = found.histories[case.container.id].spec
        rest = [
            change
            for change in oci.changes(begin, real)
            if value_or_none(spec, change.path) != change.after
            # That no event shows them says nothing: most runtimes never do.
            and not (change.path.startswith("/linux/intelRdt/") and change.after is None)
        ]
        if rest:
            missing[case.name] = rest
    none_of(missing)


def test_a_conflict_names_the_plugins_as_far_as_they_are_known(release: Merger, view: str) -> None:
    if view in (SINGLE, VALIDATED):
        return
    seen, found = seen_by(release), found_in(release, view)
    for case in workable(seen):
        error = seen.answers[case.name].error
        if case.did is not Did.CONFLICT or "both tried to set" not in error:
            continue
        about = found.about["CreateContainer", case.container.id]
        if view in (REPLIES, ALL):
            assert about.failure == error, case.name
            asked = found.asked[case.container.id]
            assert {str(one.owner) for one in asked if one.reason == error} == {SECOND}, case.name
        else:
            after = "00-probe" if view == FEW else "30-probe"
            before = "99-probe" if view == FEW else "50-probe"
            assert about.seen_by[-1] == after and about.missed_by == (before,), case.name


# In CI the oldest and the newest: our recorder, not a version, is what makes a difference here.
@pytest.mark.parametrize(
    "release",
    [*RUNTIMES][:: len(RUNTIMES) - 1] if EXAMPLES else [*RUNTIMES],
    ids=lambda release: release.name,
    indirect=True,
)
def test_a_recording_made_meanwhile_tells_the_same(release: Merger, tmp_path: Path) -> None:
    seen = seen_by(release)
    view = View(probes=PROBES, validator=seen.version >= V0_10)
    assembled = Found.of(write(seen, view, tmp_path / "assembled.nriscope.db"))
    recorded = Found.of(seen.recording)
    assert {one.seen_by for one in recorded.rounds} == {one.seen_by for one in assembled.rounds}
    assert recorded.steps.keys() == assembled.steps.keys()
    for container, steps in recorded.steps.items():
        others = assembled.steps[container]
        assert said(steps) == said(others)
        assert [one.evidence for one in steps] == [one.evidence for one in others]


@pytest.mark.interop
def test_the_cri_tells_what_was_applied(tmp_path: Path) -> None:
    try:
        seen = seen_by(Merger.NRI_0_12)
    except Unavailable as error:
        pytest.skip(f"the Go reference cannot be built: {error}")
    every = {case.name: case for case in cases(seen.version)}
    view = View(
        taps=PLUGINS, real=lambda name: real_spec(every[name], seen) if name in every else None
    )
    found = Found.of(write(seen, view, tmp_path / "cri.nriscope.db"))
    wrong = {}
    for case in every.values():
        if seen.answers[case.name].error or case.did not in (Did.ADD, Did.REPLACE):
            continue
        if case.entry.field is known.RDT_CLASS and case.did is Did.REPLACE:
            # No runtime shows what a container comes with.
            continue
        real = real_spec(case, seen)
        for step in _own(found, case):
            path, after = step.change.path, step.change.after
            if step.owner.who is not OwnerKind.PLUGIN:
                continue
            told = value_or_none(real, path) == after
            # Where a later event shows that it came to nothing, the CRI is not asked any more; and
            # what names stand for is the node's business.
            unsaid = path.startswith("/cdiDevices")
            if (step.applied is Applied.YES) != told or (unsaid and step.applied is not None):
                wrong[f"{case.name} {path}"] = step.applied
    none_of(wrong)
