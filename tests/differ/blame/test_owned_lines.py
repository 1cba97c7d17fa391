# SPDX-License-Identifier: Apache-2.0
"""Owners of the spec's lines."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from nri_scope.differ.attribution.attributed_changes import ChangeStep, Claim, Evidence, OutcomeKind
from nri_scope.differ.attribution.history import History
from nri_scope.differ.attribution.later_changes import ANY_OWNER
from nri_scope.differ.attribution.owner import REQUEST, RUNTIME, SPEC, UNKNOWN, plugin
from nri_scope.differ.blame.owned_lines import FinalOwners, OwnedLine, lines
from nri_scope.specs import ABSENT, Json, Spec, same, value_at
from nri_scope.specs.json_spec import KEYED
from tests.differ.render.samples import CPU, ENV
from tests.specs.spec_lines import walk

from .histories import FEW, HISTORIES, history, history_of_turns, requested, step, with_cri_spec

OTHER = plugin("40-other")


def by_path(found: History) -> dict[str, OwnedLine]:
    return {line.path: line for line in lines(found)}


def at(found: History, path: str) -> OwnedLine:
    return by_path(found)[path]


@FEW
@given(HISTORIES)
def test_every_line_of_the_final_spec_has_an_owner(found: History) -> None:
    spec = found.final_spec
    owned = {line.path for line in lines(found) if line.exists and line.owner is not None}
    for line in walk(spec):
        is_leaf = line.form == "scalar" or not line.value
        # Members of an atomic value belong to that value's line.
        path = line.path
        while is_leaf and path not in owned:
            path = path.rpartition("/")[0]
            assert path, f"nobody owns {line.path}"
            assert path not in KEYED or not isinstance(value_at(spec, path), dict)


@FEW
@given(HISTORIES)
def test_lines_have_the_values_of_the_spec(found: History) -> None:
    spec = found.final_spec
    for line in lines(found):
        value = value_at(spec, line.path)
        if line.exists and not line.heading:
            assert value is not ABSENT and same(value, line.value)
        assert line.exists == (value is not ABSENT)


@pytest.mark.exhaustive
@FEW
@given(HISTORIES)
def test_lines_have_the_owners_of_the_history(found: History) -> None:
    if found.real is not None:
        return
    for line in lines(found):
        owner, evidence, newest = FinalOwners(found).by_events(line.path)
        assert line.step is newest
        if not line.heading or newest is not None:
            assert (line.owner, line.evidence) == (owner, evidence)


@FEW
@given(HISTORIES)
def test_lines_without_a_step_have_no_change_mark(found: History) -> None:
    for line in lines(found):
        if line.mark in "+-~":
            assert line.step is not None and line.step.owner == line.owner
        if line.mark == "?":
            assert line.step is not None and line.step.outcome.kind is OutcomeKind.REQUESTED
        if line.mark == "!":
            assert line.step is not None and not line.step.is_change


def test_a_changed_line_shows_its_previous_value() -> None:
    found = history_of_turns(
        {"process": {"env": ["FOO=bar", "A=1"]}},
        (ENV, {"process": {"env": ["FOO=x y", "A=1"]}}),
        (CPU, {"process": {"env": ["FOO=baz", "A=1"]}}),
    )
    line = at(found, "/process/env/FOO")
    assert (line.mark, line.owner, line.value, line.written) == ("~", CPU, "baz", "FOO=baz")
    assert line.before == "x y"
    assert line.remarks == ("was x y by 30-env-injector",)
    assert at(found, "/process/env/A").owner == RUNTIME


def test_a_removed_line_is_placed_among_its_siblings() -> None:
    found = history_of_turns(
        {"process": {"env": ["A=1", "FOO=bar", "B=2"]}, "root": {"path": "x"}},
        (ENV, {"process": {"env": ["A=1", "B=2"]}, "root": {"path": "x"}}),
    )
    shown_lines = [(line.mark, line.written) for line in lines(found) if not line.heading]
    assert shown_lines == [(" ", "A=1"), (" ", "B=2"), ("-", "FOO=bar"), (" ", "x")]
    gone = at(found, "/process/env/FOO")
    assert not gone.exists and gone.owner == ENV


def test_a_removed_subtree_is_placed_at_its_former_position() -> None:
    found = history_of_turns(
        {"linux": {"devices": [{"path": "/dev/x", "type": "c"}]}, "mounts": []},
        (ENV, {"mounts": []}),
    )
    parent, gone = at(found, "/linux/devices"), at(found, "/linux/devices/~1dev~1x")
    assert parent.heading and not parent.exists and parent.owner is None
    assert gone.value == {"path": "/dev/x", "type": "c"} and gone.member and gone.mark == "-"


def test_a_restored_value_names_the_plugin_that_removed_it() -> None:
    found = history_of_turns(
        {"annotations": {"a": "1"}}, (ENV, {}), (CPU, {"annotations": {"a": "2"}})
    )
    line = at(found, "/annotations/a")
    assert (line.mark, line.owner) == ("+", CPU)
    assert line.remarks == ("was '1', which was removed by 30-env-injector",)


def test_fields_of_an_added_object_belong_to_the_plugin_that_added_it() -> None:
    mount: Json = {"type": "bind", "destination": "/d"}
    later: Json = {"type": "bind", "destination": "/d", "options": ["ro"]}
    found = history_of_turns({}, (ENV, {"mounts": [mount]}), (CPU, {"mounts": [later]}))
    shown_lines = [(line.dash, line.label, line.owner) for line in lines(found) if not line.heading]
    # The key of a mount comes first.
    assert shown_lines == [
        (True, "destination", ENV),
        (False, "type", ENV),
        (False, "options", CPU),
    ]


def test_a_move_is_a_remark_on_the_first_line() -> None:
    one: Json = {"destination": "/a", "type": "bind"}
    two: Json = {"destination": "/b", "type": "bind"}
    found = history_of_turns({"mounts": [one, two]}, (ENV, {"mounts": [two, one]}))
    moved = [line for line in lines(found) if line.mark == ">"]
    assert len(moved) == 1
    assert moved[0].dash and moved[0].owner == RUNTIME and moved[0].mover is not None
    assert moved[0].mover.owner == ENV
    assert moved[0].remarks == ("moved from 2nd to 1st place",) or moved[0].remarks == (
        "moved from 1st to 2nd place",
    )


def test_a_value_from_before_the_recording_has_an_unknown_owner() -> None:
    found = history({"process": {"oomScoreAdj": 1}}, base_owner=UNKNOWN)
    assert at(found, "/process/oomScoreAdj").owner == UNKNOWN


def test_disputes_and_notes_are_remarks() -> None:
    one = replace(
        step("/annotations/a", None, "1", "added"),
        disputed=(Claim(Evidence.VALIDATOR, OTHER, "1"),),
        note="so it is",
    )
    line = at(history({}, one), "/annotations/a")
    assert line.remarks == ("but validator says: by 40-other", "so it is")


# -- with the spec reported over CRI --------------------------------------------------------

LIMITS: Spec = {"linux": {"resources": {"cpu": {"shares": 10}, "memory": {"limit": 5}}}}


def _requested_changes() -> History:
    return history_of_turns(
        {"linux": {"resources": {"memory": {"limit": 5}}}},
        (ENV, {**LIMITS, "annotations": {"a": "1"}}),
    )


def test_values_only_the_cri_reports_belong_to_no_plugin() -> None:
    real: Spec = {**LIMITS, "annotations": {"a": "1", "b": "2"}, "ociVersion": "1.1.0"}
    found = with_cri_spec(_requested_changes(), real)
    # Requests contain all annotations, but not the version.
    for path, owner in (("/ociVersion", SPEC), ("/annotations/b", RUNTIME)):
        line = at(found, path)
        assert (line.owner, line.evidence, line.mark) == (owner, (Evidence.CRI,), " ")
    assert at(found, "/annotations/a").owner == ENV
    assert at(found, "/linux/resources/memory/limit").owner == RUNTIME


def test_a_request_missing_from_the_real_spec_is_no_line() -> None:
    found = with_cri_spec(_requested_changes(), LIMITS)
    assert "/annotations/a" not in by_path(found)
    (asked,) = found.without_effect
    assert (asked.change.path, asked.owner, asked.outcome.kind) == (
        "/annotations/a",
        ENV,
        OutcomeKind.DROPPED,
    )


def test_another_value_belongs_to_whoever_was_not_observed_and_names_the_request() -> None:
    found = with_cri_spec(_requested_changes(), {**LIMITS, "annotations": {"a": "2"}})
    assert [one.outcome.kind for one in found.steps_at("/annotations/a")] == [
        OutcomeKind.SUPERSEDED,
        OutcomeKind.IN_EFFECT,
    ]
    line = at(found, "/annotations/a")
    assert (line.owner, line.value, line.evidence) == (RUNTIME, "2", (Evidence.CRI,))
    assert line.remarks == ("'1' was asked for by 30-env-injector",)


def _shares(value: int) -> Spec:
    return {"linux": {"resources": {"cpu": {"shares": value}}}}


def test_an_unexpected_value_that_any_plugin_may_update_has_no_single_owner() -> None:
    found = history_of_turns(_shares(7), (ENV, _shares(10)))
    line = at(with_cri_spec(found, _shares(2)), "/linux/resources/cpu/shares")
    assert (line.owner, line.evidence, line.mark) == (ANY_OWNER, (Evidence.CRI,), "~")
    assert line.remarks == ("10 was asked for by 30-env-injector",)


def test_a_dropped_change_leaves_the_first_state() -> None:
    found = with_cri_spec(history_of_turns(_shares(7), (ENV, _shares(10))), _shares(7))
    line = at(found, "/linux/resources/cpu/shares")
    assert (line.owner, line.value, line.mark, line.remarks) == (RUNTIME, 7, " ", ())


def test_a_dropped_change_leaves_the_previous_owner_whose_value_is_in_effect() -> None:
    found = history_of_turns(
        {}, (ENV, {"annotations": {"a": "1"}}), (CPU, {"annotations": {"a": "2"}})
    )
    found = with_cri_spec(found, {"annotations": {"a": "1"}})
    assert [(one.owner, one.outcome.kind) for one in found.steps_at("/annotations/a")] == [
        (ENV, OutcomeKind.IN_EFFECT),
        (CPU, OutcomeKind.DROPPED),
    ]
    line = at(found, "/annotations/a")
    assert (line.owner, line.value, line.mark, line.remarks) == (ENV, "1", "+", ())
    assert CPU not in [each.owner for each in lines(found)]


def test_a_dropped_removal_leaves_the_value() -> None:
    found = with_cri_spec(
        history_of_turns({"annotations": {"a": "1"}}, (ENV, {})), {"annotations": {"a": "1"}}
    )
    line = at(found, "/annotations/a")
    assert (line.owner, line.exists, line.mark) == (RUNTIME, True, " ")
    assert [one.owner for one in found.without_effect] == [ENV]


def test_another_value_after_a_removal_is_an_addition() -> None:
    found = history_of_turns(
        {"annotations": {"a": "x", "b": "1"}}, (ENV, {"annotations": {"b": "1"}})
    )
    line = at(with_cri_spec(found, {"annotations": {"a": "z", "b": "1"}}), "/annotations/a")
    assert (line.owner, line.value, line.mark) == (RUNTIME, "z", "+")
    assert line.remarks == ("removal was asked for by 30-env-injector",)


def test_a_value_that_nothing_shows_is_marked_as_asked_for() -> None:
    line = at(requested(_requested_changes()), "/annotations/a")
    assert (line.owner, line.exists, line.mark) == (ENV, True, "?")
    assert line.remarks == ("asked for; nothing shows whether it took effect",)


def test_changes_after_the_cri_report_are_part_of_the_spec() -> None:
    found = with_cri_spec(_requested_changes(), {**LIMITS, "annotations": {"a": "1"}}, event=20)
    later: ChangeStep = step("/linux/resources/cpu/shares", 10, 99, owner=REQUEST, event=30)
    found.add([later], {**found.spec})
    found.spec = found.final_spec
    line = at(found, "/linux/resources/cpu/shares")
    assert (line.value, line.owner) == (99, REQUEST)


@pytest.mark.parametrize("real", [None, {}])
def test_an_empty_container_has_no_lines(real: Spec | None) -> None:
    assert lines(replace(history({}), real=real)) == []


def test_thousands_of_lines_and_steps_are_handled_quickly() -> None:
    many: Spec = {"process": {"env": [f"V{number}=1" for number in range(5_000)]}}
    found = history_of_turns({}, (ENV, many))
    assert len(lines(found)) == 5_002
