# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given

from nri_scope.differ.attribution import applied_spec
from nri_scope.differ.attribution.applied_spec import judge, judge_all
from nri_scope.differ.attribution.attributed_changes import Applied, ChangeStep, Evidence
from nri_scope.differ.attribution.owner import plugin
from nri_scope.oci import sort_mounts
from nri_scope.specs import ABSENT, Change, Json, Spec, apply, changes, value_at
from tests.specs.generated import SPECS, put

DATA = Path(__file__).parents[2] / "data" / "specs"
YES, NO, DIFFERENTLY = Applied.YES, Applied.NO, Applied.DIFFERENTLY


def step(change: Change) -> ChangeStep:
    return ChangeStep("c", change, plugin("10-p"), (Evidence.TAP,), event=1, at_ns=1)


def steps(before: Spec, after: Spec) -> list[ChangeStep]:
    return [step(change) for change in changes(before, after)]


def spec(path: str, value: Json) -> Spec:
    built: Spec = {"ociVersion": "1.2.0"}
    if value is not None:
        put(built, path, value)
    return built


def outcome(path: str, before: Json, after: Json, real: Json) -> list[tuple[Applied | None, Json]]:
    """Return outcome and actual value of each change at `path`; a None argument means absent."""
    return [
        (judged.applied, judged.actual)
        for each in steps(spec(path, before), spec(path, after))
        for judged in [judge(each, spec(path, real))]
    ]


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
        ("/cdiDevices", None, [{"name": "v.com/gpu=0"}], None, None),
        ("/nri/seccompProfile", None, {"profileType": "UNCONFINED"}, None, None),
        ("/linux/resources/blockIO", None, {"unresolvedClass": "slow"}, None, NO),
        ("/linux/resources/blockIO", None, {"unresolvedClass": "slow"}, {"weight": 9}, None),
        ("/linux/resources/blockIO", {"unresolvedClass": "slow"}, None, {"weight": 9}, NO),
        ("/linux/resources/blockIO", {"unresolvedClass": "slow"}, None, None, YES),
    ],
)
def test_a_change_is_judged_by_the_real_value(
    path: str, before: Json, after: Json, real: Json, expected: Applied | None
) -> None:
    ((found, actual),) = outcome(path, before, after, real)
    assert found is expected
    assert (actual is not None) is (expected is DIFFERENTLY)


def test_a_change_applied_differently_has_the_actual_value() -> None:
    assert outcome(SHARES, 2, 700, 5) == [(DIFFERENTLY, 5)]
    assert outcome("/process/env", ["A=1"], ["A=2"], ["A=3"]) == [(DIFFERENTLY, "3")]


def test_a_missing_swap_limit_is_undecided_if_the_memory_limit_is_equal() -> None:
    swap = step(Change("/linux/resources/memory/swap", None, 64, "added"))
    judged = judge(swap, spec("/linux/resources/memory", {"limit": 64}))
    assert (judged.applied, judged.note) == (None, applied_spec.NO_SWAP_LIMIT)
    again = judge(judged, spec("/linux/resources/memory", {"limit": 64, "swap": 64}))
    assert (again.applied, again.note) == (YES, "")
    assert judge(swap, spec("/linux/resources/memory", {"limit": 32})).applied is NO
    assert judge(swap, spec("/linux/resources/memory", {"limit": 64, "swap": 9})).actual == 9


def test_an_update_that_cri_o_does_not_report_is_undecided() -> None:
    real: Spec = {"annotations": {"io.kubernetes.cri-o.ContainerID": "c"}}
    high = step(Change("/linux/resources/unified/memory.high", None, "1", "added"))
    judged = judge(high, real)
    assert (judged.applied, judged.note) == (None, applied_spec.NOT_TOLD)
    put(real, "/linux/resources/unified", {"memory.high": "1"})
    again = judge(judged, real)
    assert (again.applied, again.note) == (YES, "")
    assert judge(high, {}).applied is NO
    assert judge(step(Change(SHARES, 1, 2, "changed")), real).applied is NO


def mounts(order: str) -> Spec:
    return {"mounts": [{"destination": each} for each in order]}


@pytest.mark.parametrize(
    ("real", "expected"),
    [("dabc", YES), ("xdayc", YES), ("dcba", YES), ("abcd", NO), ("abc", NO), ("", NO)],
)
def test_a_move_is_applied_if_the_real_order_matches(real: str, expected: Applied) -> None:
    (moved,) = steps(mounts("abcd"), mounts("dabc"))
    assert judge(moved, mounts(real), mounts("dabc")).applied is expected
    assert judge(moved, mounts(real)).applied is None


def test_judging_keeps_an_existing_note() -> None:
    noted = ChangeStep(
        "c",
        Change(SHARES, None, 1, "added"),
        plugin("10-p"),
        (Evidence.TAP,),
        event=1,
        at_ns=1,
        note="said before",
    )
    assert judge(noted, spec(SHARES, 1)).note == "said before"


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
    history = [each for pair in pairwise(stages) for each in steps(*pair)]
    judged = judge_all(history, stages[-1])
    outcomes = [(history[number].change.path, each.applied) for number, each in judged.items()]
    assert sorted(outcomes) == [
        ("/annotations/a", YES),
        ("/annotations/b", YES),
        ("/mounts/~1d/options", YES),
    ]


def test_a_move_hides_no_change_and_is_hidden_by_a_later_move() -> None:
    stages = mounts("abcd"), mounts("dabc"), mounts("abcd"), mounts("bcda")
    history = [each for pair in pairwise(stages) for each in steps(*pair)]
    history.insert(0, step(Change("/mounts/d/type", None, "x", "added")))
    real: Spec = {
        "mounts": [{"destination": "b"}, {"destination": "c"}, {"destination": "d", "type": "x"}]
    }
    judged = judge_all(history, real, stages[-1])
    assert {number: each.applied for number, each in judged.items()} == {0: YES, 2: YES, 3: NO}


@given(SPECS, SPECS)
def test_every_change_is_applied_in_the_requested_spec(before: Spec, after: Spec) -> None:
    for judged in judge_all(steps(before, after), after, after).values():
        assert judged.applied in (YES, None)
        assert judged.applied or judged.change.path.startswith(NEVER_REPORTED)


@given(SPECS, SPECS)
def test_no_change_is_applied_in_the_previous_spec(before: Spec, after: Spec) -> None:
    asked = steps(before, after)
    for judged in judge_all(asked, before, after).values():
        # A value may be emptied that the runtime regards as empty already.
        if judged.change.kind != "moved" and judged.change.after not in ({}, []):
            assert judged.applied is not YES or _has_equal_keys(before, judged.change.path)


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
    judged = judge_all(asked, known["real"], known["asked"])
    assert len(judged) == len(asked)
    assert {each.change.path for each in judged.values() if each.applied is NO} == not_applied
    assert {each.applied for each in judged.values()} == {YES, NO}
    assert {"/process/env/INJECTED", "/process/env/FOO", "/linux/devices/~1dev~1null2"} <= {
        each.change.path for each in judged.values() if each.applied is YES
    }


@pytest.mark.parametrize("series", ["1.7", "2.1"])
def test_an_update_reaches_the_real_spec(series: str) -> None:
    known = recorded(series)
    asked = Change("/linux/resources/cpu/shares", 700, 999, "changed")
    assert judge(step(asked), known["real"]).applied is NO
    assert judge(step(asked), known["updated"]).applied is YES
    assert apply(known["real"], changes(known["real"], known["updated"])) == known["updated"]
