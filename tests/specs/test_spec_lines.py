# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from hypothesis import given

from nri_scope.specs import ABSENT, Json, Spec, changes, same, value_at
from nri_scope.specs.json_spec import KEYED
from tests.specs.spec_lines import SpecLine, walk

from .generated import SPECS, put


def test_lines_are_in_document_order_with_their_paths() -> None:
    mount: Spec = {"destination": "/data", "options": ["ro"]}
    spec: Spec = {
        "process": {"env": ["A=1", "B", "A=2"], "args": ["sh"]},
        "mounts": [mount],
        "linux": {},
        "": None,
    }
    process, linux, mounts = spec["process"], spec["linux"], spec["mounts"]
    assert list(walk(spec)) == [
        SpecLine("/process", 0, "process", False, "object", process),
        SpecLine("/process/env", 1, "env", False, "array", ["A=1", "B", "A=2"]),
        SpecLine("/process/env/A", 2, "A", True, "scalar", "A=1"),
        SpecLine("/process/env/B", 2, "B", True, "scalar", "B"),
        SpecLine("/process/env/A#2", 2, "A#2", True, "scalar", "A=2"),
        SpecLine("/process/args", 1, "args", False, "array", ["sh"]),
        SpecLine("/process/args/0", 2, "0", True, "scalar", "sh"),
        SpecLine("/mounts", 0, "mounts", False, "array", mounts),
        SpecLine("/mounts/~1data", 1, "/data", True, "object", mount),
        SpecLine("/mounts/~1data/destination", 2, "destination", False, "scalar", "/data"),
        SpecLine("/mounts/~1data/options", 2, "options", False, "array", ["ro"]),
        SpecLine("/mounts/~1data/options/0", 3, "0", True, "scalar", "ro"),
        SpecLine("/linux", 0, "linux", False, "object", linux),
        SpecLine("/", 0, "", False, "scalar", None),
    ]


@given(SPECS)
def test_every_line_is_found_by_its_path_alone(spec: Spec) -> None:
    paths: set[str] = set()
    for line in walk(spec):
        assert line.path not in paths
        paths.add(line.path)
        found = value_at(spec, line.path)
        if line.path.startswith("/process/env/") and line.in_array and isinstance(line.value, str):
            # A variable's value, unless the list has members that are not variables.
            assert found in (line.value, None) or line.value.endswith(f"={found}")
        else:
            assert found is line.value


@given(SPECS, SPECS)
def test_changes_equal_the_values_at_their_paths(before: Spec, after: Spec) -> None:
    for change in changes(before, after):
        if change.kind in ("changed", "removed"):
            assert same(value_at(before, change.path), change.before)
        if change.kind in ("changed", "added"):
            assert same(value_at(after, change.path), change.after)
        if change.kind == "removed":
            assert value_at(after, change.path) is ABSENT


def test_paths_to_missing_values() -> None:
    spec: Spec = {"process": {"args": ["a"], "env": ["A=1"], "cwd": "/"}, "mounts": [1]}
    missing = ["process", "/x", "/process/args/1", "/process/args/-1", "/process/args/a", "//"]
    missing += [
        "/process/env/0",
        "/process/env/B",
        "/process/cwd/0",
        "/process/args/",
        "/mounts/01",
    ]
    for path in missing:
        assert value_at(spec, path) is ABSENT
    assert value_at(spec, "") is spec
    assert value_at(spec, "/process/args/0") == "a"
    assert value_at(spec, "/mounts/0") == 1
    assert value_at({"process": {"env": ["A"]}}, "/process/env/A") is None


def test_every_keyed_array_has_labelled_lines() -> None:
    for path in KEYED:
        member: Spec = dict.fromkeys(("type", "path", "destination", "name", "pageSize"), "k")
        member |= {"names": ["k"], "containerID": "k", "major": 1, "minor": 2}
        spec: Spec = {}
        put(spec, path, ["k" if KEYED[path].split(member) is None else member])
        labels = [line.label for line in walk(spec) if line.path.startswith(f"{path}/")]
        assert labels[0] in ("k", "1:2", "k 1:2")


def test_deep_nesting_is_supported() -> None:
    value: Json = 1
    for level in range(5_000):
        value = [value] if level % 2 else {"x": value}
    spec: Spec = {"mounts": value}
    *_, last = walk(spec)
    assert last.depth == 5_000
    assert value_at(spec, last.path) == 1
