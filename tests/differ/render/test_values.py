# SPDX-License-Identifier: Apache-2.0
"""Values on one line."""

from __future__ import annotations

import json
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope.differ.render.values import clipped, clipped_pair, place, shown, sides
from nri_scope.specs import Change, Json, pointer
from tests.differ.render.samples import DEVICE, MOUNT, RLIMIT


@pytest.mark.parametrize(
    ("path", "value", "text"),
    [
        ("/process/env/FOO", "bar", '"bar"'),
        ("/process/env/FOO", None, '(name only, without "=")'),
        ("/process/oomScoreAdj", 500, "500"),
        ("/process/noNewPrivileges", True, "true"),
        ("/process/args", ["sleep", "a b"], '["sleep", "a b"]'),
        ("/mounts/~1data", MOUNT, "tmpfs on /data type tmpfs (rw,size=1m)"),
        ("/mounts/~1data/options", ["ro"], '["ro"]'),
        ("/linux/devices/~1dev~1x", DEVICE, "c 1:3 mode=0666"),
        ("/linux/devices/~1dev~1x#2", DEVICE, "c 1:3 mode=0666"),
        ("/process/rlimits/RLIMIT_NOFILE", RLIMIT, "hard=4096 soft=1024"),
        (
            "/hooks/createRuntime/~1bin~1hook",
            {"path": "/bin/hook", "args": ["hook", "a b"], "env": ["A=1"], "timeout": 5},
            'args=["hook", "a b"] env=["A=1"] timeout=5',
        ),
        ("/linux/namespaces/network", {"type": "network", "path": "/x y"}, 'path="/x y"'),
        ("/linux/namespaces/user", {"type": "user"}, '{"type": "user"}'),
        ("/linux/memoryPolicy", {"mode": "MPOL_BIND"}, '{"mode": "MPOL_BIND"}'),
    ],
)
def test_values_have_a_readable_form(path: str, value: Json, text: str) -> None:
    assert shown(path, value) == text


@pytest.mark.parametrize(
    "mount",
    [
        {"destination": "/data", "type": "tmpfs", "source": "tmp fs"},
        {"destination": "/data", "type": "tmpfs", "source": "tmpfs", "options": ["a,b"]},
        {"destination": "/data", "type": "tmpfs", "source": "tmpfs", "options": []},
        {"destination": "/data", "type": "tmpfs", "source": "tmpfs", "uidMappings": []},
        {"destination": "/data"},
    ],
)
def test_a_mount_that_could_be_misread_is_json(mount: Json) -> None:
    assert shown("/mounts/~1data", mount).startswith('{"destination": "/data"')


_words = st.sampled_from(["", "a", "1", "true", "a b", 'a"', "a,b", "(a)", "a=b", "#2", "\\"])
_scalars = st.none() | st.booleans() | st.integers(-2, 600) | _words
_values = (_scalars | st.lists(_scalars, max_size=2)).map(lambda value: cast("Json", value))
_kinds = {
    "/mounts": ("destination", ["source", "type", "options"]),
    "/linux/devices": ("path", ["type", "major", "minor", "fileMode", "mode", "uid"]),
    "/process/rlimits": ("type", ["hard", "soft", "a b"]),
    "/hooks/poststop": ("path", ["args", "env", "timeout"]),
    "/linux/resources/devices": ("allow", ["type", "major", "minor", "access"]),
}


@given(st.sampled_from(sorted(_kinds)), st.data())
def test_different_objects_never_look_alike(base: str, data: st.DataObject) -> None:
    key, names = _kinds[base]
    more = st.dictionaries(st.sampled_from(names), _values)
    one: Json = {key: "k", **data.draw(more)}
    two: Json = {key: "k", **data.draw(more)}
    path = pointer(base, "k")
    if shown(path, one) == shown(path, two):
        # 1 == True in Python, but they are different JSON values.
        assert _exactly(one) == _exactly(two)


def _exactly(value: Json) -> str:
    return json.dumps(value, sort_keys=True)


def test_a_value_nested_too_deeply_is_replaced() -> None:
    deep: Json = []
    for _ in range(100_000):
        deep = [deep]
    assert shown("/x", deep) == "(nested too deeply to be shown)"


def test_positions_are_one_based_ordinals() -> None:
    counted = [place(number) for number in (0, 1, 2, 3, 10, 11, 12, 20, 111)]
    assert counted == ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "112th"]
    assert sides(Change("/mounts/~1a", 3, 0, "moved", 0)) == ("4th place", "1st place")
    same = sides(Change("/mounts/~1a", 3, 3, "moved", 3))
    assert same == ("4th place", "4th place, after different members")


def test_clipped_values_show_their_length() -> None:
    assert clipped("x" * 100, 100) == "x" * 100
    assert clipped("x" * 1234, 10) == "xxxxxxxxxx… (1,234 characters in all)"


def test_a_pair_of_long_values_is_clipped_around_the_difference() -> None:
    before, after = clipped_pair("x" * 5000 + "one", "x" * 5000 + "two", 100)
    assert before == f"…{'x' * 32}one (5,003 characters in all)"
    assert after == f"…{'x' * 32}two (5,003 characters in all)"
    before, after = clipped_pair("one" + "x" * 5000, "two", 100)
    assert (before[:4], after) == ("onex", "two")
