# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given

from nri_scope.differ.attribution import later_changes
from nri_scope.differ.attribution.applied_spec import judge, judge_cgroup
from nri_scope.differ.attribution.attributed_changes import (
    REQUESTED,
    ChangeStep,
    Evidence,
    OutcomeKind,
    RequestOutcome,
    Shows,
)
from nri_scope.differ.attribution.history import History
from nri_scope.differ.attribution.later_changes import ANY_OWNER
from nri_scope.differ.attribution.owner import RUNTIME, plugin
from nri_scope.oci import sort_mounts
from nri_scope.specs import ABSENT, Change, Json, Spec, apply, changes, same, value_at
from tests.differ.render.samples import answer
from tests.specs.generated import SPECS, put

DATA = Path(__file__).parents[2] / "data" / "specs"
OPEN, SEEN = OutcomeKind.REQUESTED, OutcomeKind.SEEN
YES, NO, DIFFERENTLY = OutcomeKind.IN_EFFECT, OutcomeKind.DROPPED, OutcomeKind.SUPERSEDED
CREATED, UPDATED, ANSWERED = 1, 5, 9
"""Events of the creation, of an update, and of the CRI's answer."""


def step(change: Change, event: int = CREATED, outcome: RequestOutcome = REQUESTED) -> ChangeStep:
    return ChangeStep(
        "c", change, plugin("10-p"), (Evidence.TAP,), event=event, at_ns=1, outcome=outcome
    )


def steps(before: Spec, after: Spec) -> list[ChangeStep]:
    return [step(change) for change in changes(before, after)]


def history(base: Spec, asked: list[ChangeStep]) -> History:
    spec = apply(base, [one.change for one in asked])
    known = {"base_owner": RUNTIME, "created_event": CREATED, "created_until": CREATED}
    return History("c", "ns/p/c", base, spec=spec, steps=asked, **known)  # type: ignore[arg-type]


def judged(
    base: Spec, asked: list[ChangeStep], real: Spec, shown_by: Shows = Shows.CRI
) -> list[ChangeStep]:
    """Return the steps that `real` adds; the outcomes of `asked` change in place."""
    return [*judge(history(base, asked), real, answer(ANSWERED), shown_by).steps]


def spec(path: str, value: Json) -> Spec:
    built: Spec = {"ociVersion": "1.2.0"}
    if value is not None:
        put(built, path, value)
    return built


def outcome(path: str, before: Json, after: Json, real: Json) -> list[tuple[OutcomeKind, Json]]:
    """Return the outcome of each change at `path`, and the value that is there instead.

    A None argument means absent.
    """
    base = spec(path, before)
    asked = steps(base, spec(path, after))
    judged(base, asked, spec(path, real))
    return [(one.outcome.kind, one.outcome.actual) for one in asked]


NEVER_REPORTED = "/cdiDevices", "/nri", "/linux/resources/blockIO"
SHARES = "/linux/resources/cpu/shares"
DEVICE: Spec = {"path": "/dev/x", "type": "c", "major": 1, "minor": 3}
HOOK: Spec = {"path": "/h", "args": ["h", "a"]}
OTHER_HOOK: Spec = {"path": "/h", "args": ["h", "b"]}
RULE: Spec = {"allow": True, "type": "c", "major": 1, "minor": 3, "access": "rw"}


@pytest.mark.parametrize(
    ("path", "before", "after", "real", "expected"),
    [
        (SHARES, None, 700, 700, YES),
        (SHARES, None, 700, None, NO),
        (SHARES, None, 700, 2, DIFFERENTLY),
        (SHARES, 2, 700, 700, YES),
        (SHARES, 2, 700, 2, NO),
        (SHARES, 2, 700, None, NO),
        (SHARES, 2, 700, 5, DIFFERENTLY),
        (SHARES, 2, None, None, YES),
        (SHARES, 2, None, 2, NO),
        (SHARES, 2, None, 5, DIFFERENTLY),
        (SHARES, None, 0, None, NO),
        (SHARES, None, 0, False, DIFFERENTLY),
        ("/process/env", None, ["A=1"], ["B=2", "A=1"], YES),
        ("/process/env", None, ["A="], ["B=2"], NO),
        ("/process/env", ["A=1", "B=1"], ["A=2", "B=1"], ["B=1", "A=2"], YES),
        ("/process/args", ["a"], ["b"], ["b"], YES),
        ("/annotations/a", None, "", "", YES),
        ("/annotations/a", None, "", None, NO),
        # The runtime fills in unset fields and omits zeros.
        ("/linux/devices", None, [DEVICE], [{**DEVICE, "fileMode": 438, "uid": 0, "gid": 5}], YES),
        ("/linux/devices", None, [DEVICE], [{**DEVICE, "major": 2}], DIFFERENTLY),
        ("/linux/devices", None, [{**DEVICE, "fileMode": 384}], [DEVICE], DIFFERENTLY),
        (
            "/mounts",
            None,
            [{"destination": "/d", "source": "/s", "options": []}],
            [{"destination": "/d", "source": "/s", "type": ""}],
            YES,
        ),
        (
            "/mounts",
            None,
            [{"destination": "/d", "source": "/s"}],
            [{"destination": "/d", "source": "/s", "options": ["ro"]}],
            DIFFERENTLY,
        ),
        # The numbering of equal keys depends on the other elements of the list.
        ("/hooks/prestart", None, [HOOK], [OTHER_HOOK, HOOK], YES),
        ("/hooks/prestart", [HOOK], [HOOK, OTHER_HOOK], [OTHER_HOOK], YES),
        ("/hooks/prestart", [HOOK], [HOOK, OTHER_HOOK], [HOOK], NO),
        ("/linux/resources/devices", None, [RULE], [{**RULE, "access": "m"}, RULE], YES),
        # Sets have no order, in an atomic value too.
        (
            "/linux/seccomp",
            None,
            {"defaultAction": "a", "architectures": ["x", "y"]},
            {"defaultAction": "a", "architectures": ["y", "x"]},
            YES,
        ),
        ("/linux/resources/pids", None, {}, None, YES),
        ("/linux/netDevices/eth0", None, {}, {}, YES),
        ("/linux/netDevices/eth0", None, {}, None, NO),
        # nri-scope's own fields are in no runtime's spec.
        ("/cdiDevices", None, [{"name": "v.com/gpu=0"}], None, OPEN),
        ("/nri/seccompProfile", None, {"profileType": "UNCONFINED"}, None, OPEN),
        ("/linux/resources/blockIO", None, {"unresolvedClass": "slow"}, None, NO),
        ("/linux/resources/blockIO", None, {"unresolvedClass": "slow"}, {"weight": 9}, OPEN),
        ("/linux/resources/blockIO", {"unresolvedClass": "slow"}, None, {"weight": 9}, NO),
        ("/linux/resources/blockIO", {"unresolvedClass": "slow"}, None, None, YES),
    ],
)
def test_a_change_is_judged_by_the_real_value(
    path: str, before: Json, after: Json, real: Json, expected: OutcomeKind
) -> None:
    ((found, actual),) = outcome(path, before, after, real)
    assert found is expected
    assert (actual is not None) is (expected is DIFFERENTLY)


def test_a_change_applied_differently_has_the_actual_value() -> None:
    assert outcome(SHARES, 2, 700, 5) == [(DIFFERENTLY, 5)]
    assert outcome("/process/env", ["A=1"], ["A=2"], ["A=3"]) == [(DIFFERENTLY, "3")]


@pytest.mark.parametrize(
    ("before", "after", "real", "kind"),
    [(1, 2, 5, "changed"), (1, None, 5, "added"), (None, 2, 5, "changed")],
)
def test_another_value_is_a_change_of_its_own(
    before: Json, after: Json, real: Json, kind: str
) -> None:
    base = spec(SHARES, before)
    found = history(base, steps(base, spec(SHARES, after)))
    (other,) = judge(found, spec(SHARES, real), answer(ANSWERED)).steps
    assert other.change == Change(SHARES, after, real, kind)  # type: ignore[arg-type]
    assert (other.owner, other.outcome.kind, other.event) == (ANY_OWNER, YES, ANSWERED)
    assert value_at(found.spec, SHARES) == real


def test_a_dropped_change_leaves_the_expected_state() -> None:
    base = spec(SHARES, 2)
    found = history(base, steps(base, spec(SHARES, 700)))
    assert not judge(found, base, answer(ANSWERED)).steps
    assert same(found.spec, base)


@pytest.mark.parametrize(
    ("before", "after", "real", "reason"),
    [
        (1, 2, 1, "the earlier value is there"),
        (1, None, 1, "the earlier value is there"),
        (1, 2, None, "no value is there"),
        (None, 2, None, "no value is there"),
    ],
)
def test_the_reason_says_what_is_there(before: Json, after: Json, real: Json, reason: str) -> None:
    base = spec(SHARES, before)
    (one,) = asked = steps(base, spec(SHARES, after))
    found = history(base, asked)
    assert not judge(found, spec(SHARES, real), answer(ANSWERED)).steps
    assert (one.outcome.kind, one.outcome.reason) == (NO, reason)
    assert value_at(found.spec, SHARES) == (ABSENT if real is None else real)


def test_a_value_of_which_later_steps_changed_a_part_is_in_effect() -> None:
    mount: Spec = {"destination": "/d", "source": "/s"}
    stages: list[Spec] = [{}, {"mounts": [mount]}, {"mounts": [{**mount, "source": "/t"}]}]
    asked = [each for pair in pairwise(stages) for each in steps(*pair)]
    judged({}, asked, stages[-1])
    assert [(one.change.path, one.outcome.kind) for one in asked] == [
        ("/mounts/~1d", YES),
        ("/mounts/~1d/source", YES),
    ]


def test_an_answer_judges_no_seen_value_that_only_updates_change_later() -> None:
    seen = REQUESTED._replace(kind=SEEN)
    for path in ("/process/cwd", SHARES):
        base = spec(path, "a")
        asked = [step(Change(path, "a", "b", "changed"), outcome=seen)]
        other = judged(base, asked, base)
        assert asked[0].outcome.kind is SEEN
        assert [one.change.after for one in other] == ["a"] * (path == SHARES)


def test_a_missing_swap_limit_is_undecided_if_the_memory_limit_is_equal() -> None:
    def swap(memory: Json) -> RequestOutcome:
        one = step(Change("/linux/resources/memory/swap", None, 64, "added"))
        judged({}, [one], spec("/linux/resources/memory", memory))
        return one.outcome

    assert swap({"limit": 64}) == REQUESTED._replace(reason=later_changes.FOLLOWS_LIMIT)
    assert (swap({"limit": 64, "swap": 64}).kind, swap({"limit": 64, "swap": 64}).reason) == (
        YES,
        "",
    )
    assert swap({"limit": 32}).kind is NO
    assert swap({"limit": 64, "swap": 9}).actual == 9


def test_an_update_that_cri_o_does_not_report_is_undecided() -> None:
    def of(path: str, real: Spec, event: int = UPDATED) -> OutcomeKind:
        one = step(Change(path, None, 1, "added"), event)
        judged({}, [one], real)
        return one.outcome.kind

    real: Spec = {"annotations": {"io.kubernetes.cri-o.ContainerID": "c"}}
    reservation = "/linux/resources/memory/reservation"
    assert of(reservation, real) is OPEN
    assert of(reservation, {}) is NO
    assert of(reservation, real, CREATED) is NO
    assert of(SHARES, real) is NO


def test_config_json_judges_the_creation_only() -> None:
    for event, kind in ((CREATED, NO), (UPDATED, OPEN)):
        one = step(Change(SHARES, None, 1, "added"), event)
        judged({}, [one], {}, Shows.CONFIG)
        assert one.outcome.kind is kind


@pytest.mark.parametrize(("actual", "kind"), [(700, YES), (2, NO), (5, DIFFERENTLY)])
def test_the_cgroup_settles_a_request(actual: int, kind: OutcomeKind) -> None:
    one = step(Change(SHARES, 2, 700, "changed"))
    found = history(spec(SHARES, 2), [one])
    other = judge_cgroup(found, {SHARES: actual}, answer(ANSWERED)).steps
    assert (one.outcome.kind, one.outcome.shown_by) == (kind, Shows.CGROUP)
    assert len(other) == (kind is DIFFERENTLY)
    assert value_at(found.spec, SHARES) == actual


def test_a_value_that_the_runtime_only_recorded_is_dropped_and_does_not_return() -> None:
    # containerd 2.1.9 stores an update of a container that is about to start, without applying it.
    limit = "/linux/resources/memory/limit"
    one = step(Change(limit, None, 4096, "added"), UPDATED)
    found = history(spec(SHARES, 2), [one])
    stored = found.spec
    for number in (ANSWERED, ANSWERED + 1):
        found.real, found.real_event = found.applied_part(stored), number
        judge(found, found.real, answer(number))
        assert judge_cgroup(found, {limit: -1}, answer(number)).steps == ()
        assert (one.outcome.kind, one.outcome.shown_by) == (NO, Shows.CGROUP)
        assert one.outcome.actual == -1
        assert value_at(found.spec, limit) is ABSENT
        assert value_at(found.real, limit) is ABSENT
    # Later events repeat what the runtime recorded, until it records another value.
    assert found.applied_part(stored) == found.spec
    assert found.applied_part(spec(limit, 8192)) == spec(limit, 8192)
    assert found.applied_part(stored) == stored


def test_a_recorded_value_that_the_cgroup_has_later_counts_again() -> None:
    limit = "/linux/resources/memory/limit"
    found = history(spec(SHARES, 2), [])
    found.only_recorded[limit] = 4096
    judge_cgroup(found, {limit: -1}, answer(ANSWERED))
    assert limit in found.only_recorded
    judge_cgroup(found, {limit: 4096}, answer(ANSWERED))
    assert limit not in found.only_recorded


def mounts(order: str) -> Spec:
    return {"mounts": [{"destination": each} for each in order]}


@pytest.mark.parametrize(
    ("real", "expected"),
    [("dabc", YES), ("xdayc", YES), ("dcba", YES), ("abcd", NO), ("abc", NO), ("", NO)],
)
def test_a_move_is_in_effect_if_the_real_order_matches(real: str, expected: OutcomeKind) -> None:
    (moved,) = asked = steps(mounts("abcd"), mounts("dabc"))
    judged(mounts("abcd"), asked, mounts(real))
    assert moved.outcome.kind is expected


def test_only_the_newest_step_at_a_path_is_judged() -> None:
    one: Spec = {"destination": "/d", "source": "/s"}
    two: Spec = {**one, "options": ["ro"]}
    stages: list[Spec] = [
        {},
        {"mounts": [one], "annotations": {"a": "1"}},
        {"mounts": [two], "annotations": {"a": "1"}},
        {"mounts": [two], "annotations": {"a": "2", "b": "1"}},
        {"mounts": [two], "annotations": {"a": "2"}},
    ]
    asked = [each for pair in pairwise(stages) for each in steps(*pair)]
    judged(stages[0], asked, stages[-1])
    assert [(one.change.path, one.change.kind) for one in asked if one.outcome.kind is OPEN] == [
        ("/annotations/a", "added"),
        ("/annotations/b", "added"),
    ]
    assert {one.outcome.kind for one in asked} == {OPEN, YES}


def test_a_move_hides_no_change_and_is_hidden_by_a_later_move() -> None:
    stages = mounts("abcd"), mounts("dabc"), mounts("abcd"), mounts("bcda")
    asked = [each for pair in pairwise(stages) for each in steps(*pair)]
    asked.insert(0, step(Change("/mounts/d/type", None, "x", "added")))
    real: Spec = {
        "mounts": [{"destination": "b"}, {"destination": "c"}, {"destination": "d", "type": "x"}]
    }
    found = history(stages[0], asked)
    found.spec = stages[-1]
    judge(found, real, answer(ANSWERED))
    assert [one.outcome.kind for one in asked] == [YES, OPEN, YES, NO]


@given(SPECS, SPECS)
def test_every_change_is_in_effect_in_the_requested_spec(before: Spec, after: Spec) -> None:
    asked = steps(before, after)
    assert not judged(before, asked, after)
    newest = {one.change.path: one for one in asked}
    for path, one in newest.items():
        below = any(other.startswith(f"{path}/") for other in newest)
        if not (below or path.startswith(NEVER_REPORTED)):
            assert one.outcome.kind is YES


@given(SPECS, SPECS)
def test_no_change_is_in_effect_in_the_previous_spec(before: Spec, after: Spec) -> None:
    asked = steps(before, after)
    judged(before, asked, before)
    for one in asked:
        # A value may be emptied that the runtime regards as empty already.
        if one.change.kind != "moved" and one.change.after not in ({}, []):
            assert one.outcome.kind is not YES or _has_equal_keys(before, one.change.path)


def _has_equal_keys(spec: Spec, path: str) -> bool:
    """Return whether a list of `spec` has several members with the key at `path`."""
    return "#" in path or value_at(spec, f"{path}#2") is not ABSENT


def recorded(series: str) -> dict[str, Spec]:
    text = (DATA / f"containerd-{series}.json").read_text()
    return cast("dict[str, Spec]", json.loads(text))


@pytest.mark.parametrize(
    ("series", "not_applied"),
    [
        # NRI 0.6 sends neither the removal of a mount nor the last two; no version sends that of a
        # variable on its own.
        (
            "1.7",
            {
                "/process/env/GONE",
                "/mounts/~1dev~1mqueue",
                "/process/oomScoreAdj",
                "/linux/resources/pids/limit",
            },
        ),
        ("2.1", {"/process/env/GONE"}),
    ],
)
def test_real_containerd_applied_a_part_of_the_requests(series: str, not_applied: set[str]) -> None:
    known = recorded(series)
    before = sort_mounts(known["before"])
    asked = steps(before, known["asked"])
    judged(before, asked, known["real"])
    by_kind = {
        kind: {one.change.path for one in asked if one.outcome.kind is kind} for kind in OutcomeKind
    }
    assert by_kind[NO] == not_applied
    assert not any(by_kind[kind] for kind in OutcomeKind if kind not in (YES, NO))
    assert {"/process/env/INJECTED", "/process/env/FOO", "/linux/devices/~1dev~1null2"} <= (
        by_kind[YES]
    )


@pytest.mark.parametrize("series", ["1.7", "2.1"])
def test_an_update_reaches_the_real_spec(series: str) -> None:
    known = recorded(series)
    for name, kind in (("real", NO), ("updated", YES)):
        one = step(Change("/linux/resources/cpu/shares", 700, 999, "changed"), UPDATED)
        judged(known["real"], [one], known[name])
        assert one.outcome.kind is kind
