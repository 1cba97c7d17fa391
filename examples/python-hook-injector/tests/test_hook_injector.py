# SPDX-License-Identifier: Apache-2.0
"""Tests that replay containers with and without matching hooks, and read hook files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from nri_scope.errors import UsageError
from nri_scope.plugin import api
from nri_scope.pytest_plugin import NriReplay

from hook_injector import HookInjector, read_hooks

HOOKS = Path(__file__).parent / "hooks.d"
pytestmark = pytest.mark.nri_recording("pods.yaml")


def test_replies_are_those_of_upstream_s_hook_injector(nri_replay: NriReplay) -> None:
    result = nri_replay(HookInjector([HOOKS]))
    result.assert_ok()
    result.assert_golden("goldens/upstream.yaml")


def write(folder: Path, name: str, **changed: object) -> None:
    hook: dict[str, object] = {
        "version": "1.0.0",
        "hook": {"path": "/usr/bin/env"},
        "when": {"always": True},
        "stages": ["poststop"],
    }
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps(hook | changed))


def adjustment(plugin: HookInjector, *, command: str = "sh", **annotations: str) -> object:
    pod = api.PodSandbox(name="web", annotations=annotations)
    return plugin.create_container(pod, api.Container(name="app", args=[command]))


def test_file_of_a_later_directory_replaces_one_of_the_same_name(tmp_path: Path) -> None:
    write(tmp_path / "usr", "10-a.json", stages=["poststart"])
    write(tmp_path / "usr", "20-b.json", hook={"path": "/usr/bin/env", "args": ["env", "b"]})
    write(tmp_path / "etc", "10-a.json", hook={"path": "/usr/bin/env", "args": ["env", "a"]})
    plugin = HookInjector([tmp_path / "usr", tmp_path / "etc", tmp_path / "missing"])
    hooks = [api.Hook(path="/usr/bin/env", args=["env", name]) for name in ("a", "b")]
    assert adjustment(plugin) == api.ContainerAdjustment(hooks=api.Hooks(poststop=hooks))


@pytest.mark.parametrize(
    ("when", "matching"),
    [
        ({}, False),
        ({"always": True}, True),
        ({"always": False, "commands": ["sh"]}, False),
        ({"commands": ["^/bin", "sh$"]}, True),
        ({"commands": ["^/bin"], "always": True}, False),
        ({"annotations": {"^owner$": "^me$"}}, True),
        ({"annotations": {"^owner$": "^m$"}}, False),
        ({"annotations": {"^owner$": "^me$", "other": ""}}, False),
        ({"annotations": {"^owner$": "^me$"}, "commands": ["bash"]}, False),
        ({"hasBindMounts": True}, False),
    ],
)
def test_all_conditions_must_hold(tmp_path: Path, when: object, matching: bool) -> None:
    write(tmp_path, "10-a.json", when=when)
    assert (adjustment(HookInjector([tmp_path]), owner="me") is not None) is matching


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"version": "0.1.0"}, "version is '0.1.0'"),
        ({"hook": {}}, "'path' is missing"),
        ({"hook": {"path": "env"}}, "hook.path: not an absolute path: env"),
        ({"hook": {"path": "/no/such"}}, "hook.path: no such program: /no/such"),
        ({"hook": {"path": "/usr/bin/env", "env": [1]}}, "bad argument type"),
        ({"stages": ["prestop"]}, "stages: unknown are ['prestop']"),
        ({"when": {"anyways": True}}, "when: unknown are ['anyways']"),
        ({"when": {"commands": ["("]}}, "missing ): ("),
        ({"when": None}, "'NoneType' object has no attribute"),
    ],
)
def test_invalid_file_is_named(tmp_path: Path, changed: dict[str, object], problem: str) -> None:
    write(tmp_path, "10-bad.json", **changed)
    with pytest.raises(UsageError) as caught:
        read_hooks([tmp_path])
    assert str(caught.value).startswith(f"{tmp_path}/10-bad.json: ")
    assert problem in str(caught.value)


def test_file_that_is_not_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "10-bad.json").write_text("{")
    with pytest.raises(UsageError, match=r"10-bad.json: not a hook of version 1.0.0: Expecting"):
        read_hooks([tmp_path])
