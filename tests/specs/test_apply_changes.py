# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope.specs import Change, Json, Spec, apply, changes, same
from nri_scope.specs.json_spec import KEYED

from .generated import ANY, SPECS, put


@given(SPECS, SPECS)
def test_applied_changes_leave_no_difference(before: Spec, after: Spec) -> None:
    kept = copy.deepcopy(before)
    assert changes(apply(before, changes(before, after)), after) == ()
    assert same(before, kept)


@given(SPECS)
def test_no_changes_change_nothing(spec: Spec) -> None:
    assert same(apply(spec, ()), spec)


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        ("/process/env", ["A=1", "A#2=x", "A=2"], ["A=3", "A#2=y", "A", "A#2"]),
        ("/process/env", ["A=1"], []),
        ("/process/env", [], ["A=1"]),
        ("/process/env", ["A=1"], [1]),
        ("/process/env", [1], ["A=1"]),
        ("/process/env", {}, {"A": "1"}),
        ("/process/env", None, ["A=1", "", "=x"]),
        ("/process/user/additionalGids", [1], None),
        ("/linux/resources/cpu", {"shares": 1}, {}),
        ("/linux/resources/cpu", {"shares": 1}, {"quota": 1}),
        ("/linux/resources/cpu", {"shares": 1}, [{}]),
        ("/linux/resources/pids", {}, None),
        ("/process/scheduler", {"policy": "x"}, {}),
        ("/mounts", [{"destination": d} for d in "aabca"], [{"destination": d} for d in "caba"]),
        ("/mounts", [{"destination": d} for d in "abcd"], [{"destination": d} for d in "dxcby"]),
    ],
)
def test_applying_the_changes_gives_the_other_spec(path: str, before: Json, after: Json) -> None:
    one: Spec = {"annotations": {"a": "1"}}
    other: Spec = copy.deepcopy(one)
    for spec, value in ((one, before), (other, after)):
        if value is not None:
            put(spec, path, value)
        elif path == "/process/user/additionalGids":
            put(spec, "/process/user", {})
    assert apply(one, changes(one, other)) == other
    assert apply(other, changes(other, one)) == one


def test_unchanged_parts_are_shared() -> None:
    spec: Spec = {"linux": {"resources": {}}, "annotations": {"a": "1"}}
    new = apply(spec, [Change("/annotations/a", "1", "2", "changed")])
    assert new["linux"] is spec["linux"]
    assert spec["annotations"] == {"a": "1"}


def test_missing_parents_are_created() -> None:
    added = [
        Change("/process/env/A", None, "1", "added"),
        Change("/linux/resources/cpu/shares", None, 5, "added"),
        Change("/mounts/~1x", None, {"destination": "/x"}, "added", 7),
    ]
    expected: Spec = {
        "process": {"env": ["A=1"]},
        "linux": {"resources": {"cpu": {"shares": 5}}},
        "mounts": [{"destination": "/x"}],
    }
    assert apply({}, added) == expected
    assert apply({"process": 1, "linux": [], "mounts": "x"}, added)["mounts"] == expected["mounts"]


def test_changes_at_missing_paths_are_ignored() -> None:
    spec: Spec = {"process": {"args": ["a"]}, "mounts": [{"destination": "/a"}]}
    missing = [
        Change("/process/env/A", "1", None, "removed"),
        Change("/process/args/0/x", "1", None, "removed"),
        Change("/process/args/1", "1", None, "removed"),
        Change("/x/y", "1", None, "removed"),
        Change("", "1", None, "removed"),
        Change("process", "1", None, "removed"),
        Change("process", "1", "2", "changed"),
        Change("/mounts/~1b", 1, 0, "moved", 0),
        Change("/linux/x/~1b", 1, 0, "moved", 0),
    ]
    assert apply(spec, missing) == spec


_ARBITRARY_CHANGES = st.builds(
    Change,
    st.lists(st.sampled_from(["a", "~1x", "0", "#2", "", "env", "linux"]), max_size=3).map(
        lambda keys: "/".join(["", *keys])
    )
    | st.sampled_from(sorted(KEYED)).flatmap(
        lambda path: st.sampled_from([path, f"{path}/a", f"{path}/a#2", f"{path}/~1x/y"])
    ),
    ANY,
    ANY,
    st.sampled_from(["added", "removed", "changed", "moved"]),
    st.none() | st.integers(-3, 9),
)


@given(SPECS, st.lists(_ARBITRARY_CHANGES, max_size=5))
def test_arbitrary_changes_are_accepted(spec: Spec, foreign: list[Change]) -> None:
    kept = copy.deepcopy(spec)
    apply(spec, foreign)
    assert same(spec, kept)


def test_deep_nesting_is_supported() -> None:
    def deep(core: Json) -> Spec:
        value: Json = core
        for _ in range(5_000):
            value = {"x": value}
        return {"annotations": value}

    one, other = deep(1), deep(2)
    assert same(apply(one, changes(one, other)), other)


def test_long_lists_are_supported() -> None:
    one: Spec = {"mounts": [{"destination": f"/{n}"} for n in range(20_000)]}
    other: Spec = {"mounts": [{"destination": f"/{n}"} for n in reversed(range(20_000))]}
    assert apply(one, changes(one, other)) == other
