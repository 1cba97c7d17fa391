# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope.specs import Change, Json, Spec, apply, changes, same
from nri_scope.specs.json_spec import KEYED

from .flat import flatten
from .generated import ANY, ORDINARY, SPECS, put, shuffled


def text(change: Change) -> str:
    before, after = json.dumps(change.before), json.dumps(change.after)
    place = "" if change.position is None else f" @{change.position}"
    forms = {"added": f"+ PATH {after}", "removed": f"- PATH {before}"}
    forms |= {"changed": f"~ PATH {before} {after}", "moved": f"> PATH {before} {after}"}
    return forms[change.kind].replace("PATH", change.path) + place


def changes_at(path: str, before: Json, after: Json) -> list[str]:
    """Return the changes between two values at `path` as short texts; None means absent."""
    specs: list[Spec] = []
    for value in (before, after):
        specs.append({})
        if value is not None:
            put(specs[-1], path, value)
    return [text(each) for each in changes(*specs)]


@pytest.mark.parametrize(
    ("path", "before", "after", "expected"),
    [
        (
            "/process/env",
            ["A=1", "B=2", "C=3"],
            ["C=3", "A=x=y", "D=4"],
            ['~ /process/env/A "1" "x=y"', '- /process/env/B "2"', '+ /process/env/D "4"'],
        ),
        ("/process/env", None, ["a/b~c=1"], ['+ /process/env/a~1b~0c "1"']),
        ("/process/env", ["A"], ["A="], ['~ /process/env/A null ""']),
        (
            "/process/env",
            ["A=1", "A=2", "B=1"],
            ["B=1", "A=2"],
            ['~ /process/env/A "1" "2"', '- /process/env/A#2 "2"'],
        ),
        # A name that looks like a numbered one is numbered itself.
        (
            "/process/env",
            ["A=1", "A#2=x"],
            ["A=1", "A=2"],
            ['- /process/env/A#2#1 "x"', '+ /process/env/A#2 "2"'],
        ),
        (
            "/process/env",
            ["A=1", "A#2=x"],
            ["A=1", "A=2", "A#2=x"],
            ['+ /process/env/A#2 "2"'],
        ),
        ("/process/env", ["A=1"], [], ["+ /process/env []", '- /process/env/A "1"']),
        ("/process/env", ["A=1"], [7], ['~ /process/env ["A=1"] [7]']),
        ("/process/args", ["a", "b"], ["b", "a"], ['~ /process/args ["a", "b"] ["b", "a"]']),
        (
            "/process/capabilities/bounding",
            ["CAP_KILL", "CAP_CHOWN"],
            ["CAP_CHOWN", "CAP_BPF"],
            [
                '- /process/capabilities/bounding/CAP_KILL "CAP_KILL"',
                '+ /process/capabilities/bounding/CAP_BPF "CAP_BPF"',
            ],
        ),
        (
            "/mounts",
            [{"destination": "/data", "options": ["ro"]}],
            [{"destination": "/data", "options": ["rw"]}],
            ['~ /mounts/~1data/options ["ro"] ["rw"]'],
        ),
        (
            "/mounts",
            [{"destination": "/data"}],
            [{"destination": "/new"}, {"destination": "/data", "type": "bind"}],
            ['+ /mounts/~1data/type "bind"', '+ /mounts/~1new {"destination": "/new"} @0'],
        ),
        # With a member that is no mount, the array is one value.
        (
            "/mounts",
            [{"destination": "/data"}],
            [{"destination": "/data"}, {"source": "/x"}],
            [
                '~ /mounts [{"destination": "/data"}] [{"destination": "/data"}, {"source": "/x"}]',
            ],
        ),
        (
            "/linux/devices",
            [{"path": "/dev/kvm", "major": 1}],
            [{"path": "/dev/kvm", "major": 2}],
            ["~ /linux/devices/~1dev~1kvm/major 1 2"],
        ),
        (
            "/linux/resources/devices",
            [{"allow": False, "access": "rwm"}],
            [
                {"allow": False, "access": "rwm"},
                {"allow": True, "type": "c", "major": 1, "minor": 3, "access": "rw"},
            ],
            [
                "+ /linux/resources/devices/c 1:3 "
                '{"allow": true, "type": "c", "major": 1, "minor": 3, "access": "rw"} @1'
            ],
        ),
        ("/linux/resources/cpu", None, {"shares": 5}, ["+ /linux/resources/cpu/shares 5"]),
        ("/linux/resources/cpu", {"shares": 5}, None, ["- /linux/resources/cpu/shares 5"]),
        ("/linux/resources/pids", None, {}, ["+ /linux/resources/pids {}"]),
        ("/linux/resources/pids", {}, {"limit": 1}, ["+ /linux/resources/pids/limit 1"]),
        (
            "/linux/resources/pids",
            {"limit": 1},
            {},
            ["+ /linux/resources/pids {}", "- /linux/resources/pids/limit 1"],
        ),
        ("/linux/netDevices", None, {"eth0": {}}, ["+ /linux/netDevices/eth0 {}"]),
        (
            "/process/scheduler",
            None,
            {"policy": "SCHED_RR"},
            ['+ /process/scheduler {"policy": "SCHED_RR"}'],
        ),
        (
            "/process/scheduler",
            {"policy": "SCHED_RR"},
            {"policy": "SCHED_FIFO", "nice": 1},
            ['~ /process/scheduler/policy "SCHED_RR" "SCHED_FIFO"', "+ /process/scheduler/nice 1"],
        ),
        ("/annotations", {"a": "1"}, {"a": "1", "": "2"}, ['+ /annotations/ "2"']),
        ("/annotations", {"a": True}, {"a": 1}, ["~ /annotations/a true 1"]),
        ("/annotations", {"a": {"b": 1}}, {"a": [1]}, ['~ /annotations/a {"b": 1} [1]']),
    ],
)
def test_changes_at_a_path(path: str, before: Json, after: Json, expected: list[str]) -> None:
    assert changes_at(path, before, after) == expected


def mounts(order: str) -> list[Json]:
    return [{"destination": each} for each in order]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("abcd", "dabc", ["> /mounts/d 3 0 @0"]),
        ("abcd", "bcda", ["> /mounts/a 0 3 @3"]),
        ("abcd", "acbd", 1),
        ("abcd", "dcba", 3),
        ("abcd", "bd", ['- /mounts/a {"destination": "a"}', '- /mounts/c {"destination": "c"}']),
        ("ab", "bxa", 2),
        ("aab", "baa", 1),
    ],
)
def test_a_reordering_is_described_by_few_moves(
    before: str, after: str, expected: list[str] | int
) -> None:
    found = changes_at("/mounts", mounts(before), mounts(after))
    assert found == expected if isinstance(expected, list) else len(found) == expected


def test_a_moved_and_changed_mount_has_both_changes() -> None:
    before: list[Json] = [{"destination": "a"}, {"destination": "b"}, {"destination": "c"}]
    after: list[Json] = [{"destination": "c", "type": "x"}, *before[:2]]
    assert changes_at("/mounts", before, after) == ["> /mounts/c 2 0 @0", '+ /mounts/c/type "x"']


@given(SPECS)
def test_a_spec_does_not_differ_from_itself(spec: Spec) -> None:
    assert changes(spec, spec) == ()
    assert changes(spec, copy.deepcopy(spec)) == ()


@given(SPECS, SPECS)
def test_applying_the_changes_leaves_no_difference(before: Spec, after: Spec) -> None:
    kept = copy.deepcopy((before, after))
    assert flatten(apply(before, changes(before, after))).equals(flatten(after))
    assert same(list(kept), [before, after])


@given(ORDINARY, st.lists(st.tuples(st.sampled_from(sorted(KEYED)), ANY), max_size=3))
def test_applying_the_changes_of_a_few_paths_leaves_no_difference(
    before: Spec, edits: list[tuple[str, Json]]
) -> None:
    after = copy.deepcopy(before)
    for path, value in edits:
        put(after, path, value)
    assert flatten(apply(before, changes(before, after))).equals(flatten(after))
    assert flatten(apply(after, changes(after, before))).equals(flatten(before))


@given(ORDINARY, st.randoms(use_true_random=False))
def test_order_matters_only_where_runtimes_depend_on_it(spec: Spec, dice: random.Random) -> None:
    assert changes(spec, shuffled(spec, dice)) == ()


@given(st.lists(st.sampled_from("abc"), max_size=6), st.lists(st.sampled_from("abcd"), max_size=6))
def test_moves_put_members_in_the_new_order(before: list[str], after: list[str]) -> None:
    old: Spec = {"mounts": mounts("".join(before))}
    new: Spec = {"mounts": mounts("".join(after))}
    assert flatten(apply(old, changes(old, new))).equals(flatten(new))


@given(ANY, ANY)
def test_equality_is_that_of_the_serialized_json(left: Json, right: Json) -> None:
    written = [json.dumps(each, sort_keys=True) for each in (left, right)]
    assert same(left, right) == (written[0] == written[1])


@pytest.mark.parametrize("path", ["/annotations", "/mounts", "/process/env", "/x"])
def test_deep_nesting_is_supported(path: str) -> None:
    def deep(core: Json) -> Spec:
        value: Json = core
        for level in range(20_000):
            value = [value] if level % 2 else {"x": value}
        spec: Spec = {}
        put(spec, path, value)
        return spec

    one, other = deep(1), deep(1)
    assert changes(one, other) == ()
    assert len(changes(one, deep(2))) == 1
    assert len(changes(one, {})) == 1


def test_long_lists_are_supported() -> None:
    one: Spec = {"mounts": [{"destination": f"/{n}"} for n in range(20_000)]}
    other: Spec = {"mounts": [{"destination": f"/{n}"} for n in reversed(range(20_000))]}
    assert len(changes(one, other)) == 19_999
