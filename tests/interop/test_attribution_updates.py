# SPDX-License-Identifier: Apache-2.0
"""Every resource updated by plugins: its own container's, another's, unasked; who did it."""

from __future__ import annotations

from nri_scope import oci
from nri_scope.differ.attribution.attributed_changes import Evidence
from tests.interop.attribution_cases import Asker, UpdateCase, update_cases
from tests.interop.attribution_expected import expected_of_update, fails
from tests.interop.attribution_found import ALL, REPLIES, VALIDATED, found_in, seen_by
from tests.interop.attribution_said import none_of, said
from tests.interop.attribution_truth import lies, of_update, value_or_none
from tests.interop.build import Merger


def changes_of(case: UpdateCase) -> oci.Spec:
    """The container as the update leaves it; as it was where nothing comes of it."""
    return of_update(case).moments[-1].wanted


def test_the_updates_happen_as_they_are_written_down(release: Merger) -> None:
    seen = seen_by(release)
    for case in update_cases(seen.version):
        if case.asked is None:
            error = seen.answers[case.name].error
            assert bool(error) == fails(case), (case.name, error)


def test_no_update_is_laid_to_who_did_not_ask_for_it(release: Merger, view: str) -> None:
    seen, found = seen_by(release), found_in(release, view)
    every = update_cases(seen.version)
    wrong = {
        case.name: problems
        for case in every
        if (problems := list(lies(found.steps[case.target.id], of_update(case))))
    }
    none_of(wrong)


def test_updates_are_told_with_the_plugin_that_asked_for_them(release: Merger, view: str) -> None:
    seen, found = seen_by(release), found_in(release, view)
    wrong = {}
    for case in update_cases(seen.version):
        subject = case.subject or case.target
        event = (case.asker, "" if case.asker is Asker.UNASKED else subject.id)
        rounds = [found.about[event]] if event in found.about else []
        if case.asker is Asker.UNASKED:
            rounds = [one for one in found.rounds if one.name == case.asker]
        if view == VALIDATED and case.asker is Asker.CREATE:
            rounds = [
                one
                for one in found.rounds
                if one.container == subject.id and one.name in (case.asker, VALIDATE)
            ]
        steps = [step for one in rounds for step in one.steps if step.container == case.target.id]
        expected = expected_of_update(case, view)
        if said(steps) != expected:
            wrong[case.name] = (said(steps), expected)
        elif steps and view in (REPLIES, ALL):
            assert {step.evidence for step in steps} == {(Evidence.TAP,)}, case.name
    none_of(wrong)


VALIDATE = "ValidateContainerAdjustment"


def test_what_comes_of_updates_shows_in_later_events(release: Merger, view: str) -> None:
    if view == VALIDATED:
        return
    seen, found = seen_by(release), found_in(release, view)
    missing = {}
    for case in update_cases(seen.version):
        before, after = of_update(case).moments[0].wanted, changes_of(case)
        spec = found.histories[case.target.id].spec
        rest = [
            change
            for change in oci.changes(before, after)
            if value_or_none(spec, change.path) != change.after
        ]
        if rest:
            missing[case.name] = rest
    none_of(missing)


def test_updates_in_conflict_are_told_with_the_runtimes_own_words(
    release: Merger, view: str
) -> None:
    if view not in (REPLIES, ALL):
        return
    seen, found = seen_by(release), found_in(release, view)
    wrong = {}
    for case in update_cases(seen.version):
        if fails(case):
            about = found.about[case.asker, (case.subject or case.target).id]
            error = seen.answers[case.name].error
            if about.failure != error:
                wrong[case.name] = (about.failure, error)
    none_of(wrong)


def test_what_updates_ask_for_in_vain_is_told(release: Merger) -> None:
    seen, found = seen_by(release), found_in(release, REPLIES)
    wrong = []
    for case in update_cases(seen.version):
        before, after = of_update(case).moments[0].wanted, changes_of(case)
        if fails(case) or not oci.same(before, after):
            continue
        asked = {
            (str(one.owner), one.path)
            for one in found.asked[case.target.id]
            if one.reason and one.path.startswith(case.entry.field.path)
        }
        if not {(plugin, case.entry.field.path) for plugin in case.plugins} <= asked:
            wrong.append((case.name, asked))
    none_of(dict(wrong))
