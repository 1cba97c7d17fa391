# SPDX-License-Identifier: Apache-2.0
"""Attribution of updates of every resource: of the event's or another container, unsolicited."""

from __future__ import annotations

import pytest

from nri_scope import specs
from nri_scope.differ.attribution.attributed_changes import Evidence
from tests.interop.attribution_cases import UpdateCase, UpdateTrigger, update_cases
from tests.interop.attribution_expected import expected_of_update, fails
from tests.interop.attribution_found import (
    ALL,
    REPLIES,
    VALIDATED,
    VIEWS,
    findings_for,
    is_counted,
    run_of,
)
from tests.interop.attribution_said import fail_if_any, reported
from tests.interop.attribution_truth import false_claims, of_update, value_or_none
from tests.interop.build import Merger


def container_after(case: UpdateCase) -> specs.Spec:
    """Return the container after the update."""
    return of_update(case).moments[-1].wanted


def test_runs_match_the_update_cases(release: Merger) -> None:
    seen = run_of(release)
    for case in update_cases(seen.version):
        if case.asked is None:
            error = seen.answers[case.name].error
            assert bool(error) == fails(case), (case.name, error)


def test_no_update_has_a_wrong_owner(release: Merger, view: str) -> None:
    seen, found = run_of(release), findings_for(release, view)
    every = update_cases(seen.version)
    wrong = {
        case.name: problems
        for case in every
        if (problems := list(false_claims(found.steps[case.target.id], of_update(case))))
    }
    fail_if_any(wrong)


def test_updates_are_attributed_to_the_requesting_plugin(release: Merger, view: str) -> None:
    seen, found = run_of(release), findings_for(release, view)
    wrong = {}
    for case in update_cases(seen.version):
        subject = case.subject or case.target
        event = (case.trigger, "" if case.trigger is UpdateTrigger.UNSOLICITED else subject.id)
        rounds = [found.about[event]] if event in found.about else []
        if case.trigger is UpdateTrigger.UNSOLICITED:
            rounds = [one for one in found.rounds if one.name == case.trigger]
        if view == VALIDATED and case.trigger is UpdateTrigger.CREATE:
            rounds = [
                one
                for one in found.rounds
                if one.container == subject.id and one.name in (case.trigger, VALIDATE)
            ]
        steps = [
            step
            for one in rounds
            for step in one.steps
            if step.container == case.target.id and is_counted(step)
        ]
        expected = expected_of_update(case, view)
        if reported(steps) != expected:
            wrong[case.name] = (reported(steps), expected)
        elif steps and view in (REPLIES, ALL):
            assert {step.evidence for step in steps} == {(Evidence.TAP,)}, case.name
    fail_if_any(wrong)


VALIDATE = "ValidateContainerAdjustment"


@pytest.mark.parametrize("view", [view for view in VIEWS if view != VALIDATED], indirect=True)
def test_later_events_show_the_updated_container(release: Merger, view: str) -> None:
    seen, found = run_of(release), findings_for(release, view)
    missing = {}
    for case in update_cases(seen.version):
        before, after = of_update(case).moments[0].wanted, container_after(case)
        spec = found.histories[case.target.id].spec
        rest = [
            change
            for change in specs.changes(before, after)
            if value_or_none(spec, change.path) != change.after
        ]
        if rest:
            missing[case.name] = rest
    fail_if_any(missing)


@pytest.mark.parametrize("view", [REPLIES, ALL], indirect=True)
def test_conflicting_updates_have_the_runtimes_error(release: Merger, view: str) -> None:
    seen, found = run_of(release), findings_for(release, view)
    wrong = {}
    for case in update_cases(seen.version):
        if fails(case):
            about = found.about[case.trigger, (case.subject or case.target).id]
            error = seen.answers[case.name].error
            if about.failure != error:
                wrong[case.name] = (about.failure, error)
    fail_if_any(wrong)


def test_updates_that_were_not_applied_are_reported(release: Merger) -> None:
    seen, found = run_of(release), findings_for(release, REPLIES)
    wrong = []
    for case in update_cases(seen.version):
        before, after = of_update(case).moments[0].wanted, container_after(case)
        if fails(case) or not specs.same(before, after):
            continue
        asked = {
            (str(one.owner), one.change.path)
            for one in found.without_effect[case.target.id]
            if one.outcome.reason and one.change.path.startswith(case.entry.field.path)
        }
        if not {(plugin, case.entry.field.path) for plugin in case.plugins} <= asked:
            wrong.append((case.name, asked))
    fail_if_any(dict(wrong))
