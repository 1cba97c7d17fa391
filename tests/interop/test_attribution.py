# SPDX-License-Identifier: Apache-2.0
"""Attribution of every adjustable field in a chain of two Go plugins, by source of evidence."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri_scope import oci, specs
from nri_scope.differ.attribution.attributed_changes import ChangeStep, Evidence, OutcomeKind
from nri_scope.differ.attribution.owner import OwnerKind
from nri_scope.nri.merging import fields as known
from nri_scope.nri.versions import V0_10, V0_11, V0_12
from tests.amount import EXAMPLES
from tests.interop.attribution_cases import FIRST, SECOND, Action, Case, cases, container_named
from tests.interop.attribution_expected import CHAIN, expected_of, owner_names, real_spec
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
    VIEWS,
    Found,
    findings_for,
    run_of,
)
from tests.interop.attribution_run import PLUGINS, PROBES, RUNTIMES, Run, View, write
from tests.interop.attribution_said import fail_if_any, reported
from tests.interop.attribution_truth import (
    false_claims,
    is_order_random,
    is_refused,
    of_creation,
    shown_states,
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


def test_the_table_contains_every_adjustable_field() -> None:
    assert {entry.field for entry in ENTRIES} == set(known.FIELDS)
    assert sorted(entry.name for entry in ENTRIES) == sorted(FIELDS)


def test_runs_match_the_cases(release: Merger) -> None:
    seen = run_of(release)
    for case in cases(seen.version):
        answer = seen.answers[case.name]
        assert bool(answer.error) == is_refused(case, seen.version), (case.name, answer.error)
        base = oci.spec_of(container_named(case.name))
        asked = seen.creations[case.name]
        for name, state in zip(AROUND, shown_states(case), strict=True):
            message = asked.get(name)
            assert message is not None or answer.error, case.name
            if message is not None:
                assert specs.same(oci.spec_of(message.container), joined(base, state)), case.name


def test_the_validator_request_names_the_configured_owners(release: Merger) -> None:
    seen = run_of(release)
    for case in cases(seen.version):
        validation = seen.validations.get(case.name)
        if validation is None:
            continue
        assert tuple(f"{plugin.index}-{plugin.name}" for plugin in validation.plugins) == CHAIN
        assert set(validation.owners.owners) <= {case.container.id}
        names = set(owner_names(validation.owners.owners[case.container.id]))
        if case.action is Action.IGNORED or case.entry.field is known.DEVICE_RULES:
            assert not names, case.name
        elif case.action is Action.ADD_BOTH:
            # Up to NRI 0.11 only the last plugin that added a hook is an owner.
            has_all_owners = seen.version >= V0_12
            assert names == ({FIRST, SECOND} if has_all_owners else {SECOND}), case.name
        elif case.action is Action.REMOVE:
            assert names <= {case.owner}, case.name
        elif is_order_random(case):
            assert names == {FIRST}, case.name
        else:
            assert names == {case.owner}, case.name


# -- results of the differ ------------------------------------------------------------------


def test_no_change_has_a_wrong_owner(release: Merger, view: str) -> None:
    seen, found = run_of(release), findings_for(release, view)
    wrong = {
        case.name: problems
        for case in usable_cases(seen)
        if (problems := list(false_claims(found.steps[case.container.id], of_creation(case, seen))))
    }
    fail_if_any(wrong)


def test_each_view_reports_exactly_its_visible_changes(release: Merger, view: str) -> None:
    seen, found = run_of(release), findings_for(release, view)
    wrong = {}
    for case in usable_cases(seen):
        own = [
            step
            for step in _own_steps(found, case)
            # Ignore changes of the merged result by the runtime.
            if not _is_rule_for_device(case, step)
            and not (step.owner.who is OwnerKind.RUNTIME and step.note == oci.ONLY_THE_LIMIT)
        ]
        # A removal that NRI does not pass on is dropped; the runtime changes nothing.
        expected = [one for one in expected_of(case, view, seen) if one.owner != "runtime"]
        if reported(own) != expected:
            wrong[case.name] = (reported(own), expected)
        assert all(
            step.evidence in EVIDENCE[view]
            for step in own
            if step.owner.who is not OwnerKind.RUNTIME
        ), case.name
        assert not any(step.disputed for step in own), case.name
    fail_if_any(wrong)


def usable_cases(seen: Run) -> list[Case]:
    """All cases except sysctls in NRI 0.11.

    There, upstream's adaptation panics when a sysctl is set, and treats its removal as that of an
    annotation.
    """
    return [
        case
        for case in cases(seen.version)
        if not (case.entry.field is known.SYSCTL and V0_11 <= seen.version < V0_12)
    ]


def _own_steps(found: Found, case: Case) -> tuple[ChangeStep, ...]:
    about = found.about.get(("CreateContainer", case.container.id)) or found.about.get(
        ("ValidateContainerAdjustment", case.container.id)
    )
    own = () if about is None else about.own
    return tuple(one for one in own if one.is_expected)


def _is_rule_for_device(case: Case, step: ChangeStep) -> bool:
    is_rule = step.change.path.startswith("/linux/resources/devices/")
    return is_rule and case.entry.name == "linux.devices"


@pytest.mark.parametrize("view", [view for view in VIEWS if view != VALIDATED], indirect=True)
def test_later_events_show_the_final_container(release: Merger, view: str) -> None:
    seen, found = run_of(release), findings_for(release, view)
    missing = {}
    for case in usable_cases(seen):
        truth = of_creation(case, seen)
        begin, real = truth.moments[0].wanted, truth.moments[-1].wanted
        spec = found.histories[case.container.id].spec
        rest = [
            change
            for change in specs.changes(begin, real)
            if value_or_none(spec, change.path) != change.after
            # Absence is no evidence here: most runtimes never send these fields.
            and not (change.path.startswith("/linux/intelRdt/") and change.after is None)
        ]
        if rest:
            missing[case.name] = rest
    fail_if_any(missing)


@pytest.mark.parametrize(
    "view", [view for view in VIEWS if view not in (SINGLE, VALIDATED)], indirect=True
)
def test_a_conflict_names_the_known_plugins(release: Merger, view: str) -> None:
    seen, found = run_of(release), findings_for(release, view)
    for case in usable_cases(seen):
        error = seen.answers[case.name].error
        if case.action is not Action.CONFLICT or "both tried to set" not in error:
            continue
        about = found.about["CreateContainer", case.container.id]
        if view in (REPLIES, ALL):
            assert about.failure == error, case.name
            refused = [
                one
                for one in found.without_effect[case.container.id]
                if one.outcome.reason == error and not one.is_expected
            ]
            assert {str(one.owner) for one in refused} == {SECOND}, case.name
        else:
            after = "00-probe" if view == FEW else "30-probe"
            before = "99-probe" if view == FEW else "50-probe"
            assert about.seen_by[-1] == after and about.missed_by == (before,), case.name


# In CI only the oldest and the newest version: the result depends mainly on the recorder.
@pytest.mark.parametrize(
    "release",
    [*RUNTIMES][:: len(RUNTIMES) - 1] if EXAMPLES else [*RUNTIMES],
    ids=lambda release: release.name,
    indirect=True,
)
def test_a_live_recording_gives_the_same_result(release: Merger, tmp_path: Path) -> None:
    seen = run_of(release)
    view = View(probes=PROBES, validator=seen.version >= V0_10)
    assembled = Found.of(write(seen, view, tmp_path / "assembled.nriscope.db"))
    recorded = Found.of(seen.recording)
    assert {one.seen_by for one in recorded.rounds} == {one.seen_by for one in assembled.rounds}
    assert recorded.steps.keys() == assembled.steps.keys()
    for container, steps in recorded.steps.items():
        others = assembled.steps[container]
        assert reported(steps) == reported(others)
        assert [step.evidence for step in steps] == [one.evidence for one in others]


@pytest.mark.interop
def test_the_cri_spec_shows_whether_a_change_was_applied(tmp_path: Path) -> None:
    try:
        seen = run_of(Merger.NRI_0_12)
    except Unavailable as error:
        pytest.skip(f"the Go reference cannot be built: {error}")
    every = {case.name: case for case in cases(seen.version)}
    view = View(
        taps=PLUGINS, real=lambda name: real_spec(every[name], seen) if name in every else None
    )
    found = Found.of(write(seen, view, tmp_path / "cri.nriscope.db"))
    wrong = {}
    for case in every.values():
        if seen.answers[case.name].error or case.action not in (Action.ADD, Action.REPLACE):
            continue
        if case.entry.field is known.RDT_CLASS and case.action is Action.REPLACE:
            # No runtime shows the container's original class.
            continue
        real = real_spec(case, seen)
        for step in _own_steps(found, case):
            path, after = step.change.path, step.change.after
            if step.owner.who is not OwnerKind.PLUGIN:
                continue
            is_applied = value_or_none(real, path) == after
            # If a later event shows that a change was not applied, the CRI's spec is not used. The
            # node resolves CDI device names, so the spec cannot confirm them.
            is_unknown = path.startswith("/cdiDevices")
            kind = step.outcome.kind
            if is_unknown:
                is_right = kind is OutcomeKind.REQUESTED
            else:
                is_right = (kind is OutcomeKind.IN_EFFECT) == is_applied
            if not is_right:
                wrong[f"{case.name} {path}"] = kind
    fail_if_any(wrong)
