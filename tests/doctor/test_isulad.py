# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json

import pytest

from nri_scope.doctor.check import Status
from nri_scope.doctor.examine import examination
from nri_scope.doctor.isulad import DEFAULT_CONFIG, read_isulad

from .machine import Machine


def test_settings_are_read_from_the_top_level(machine: Machine) -> None:
    settings = {
        "nri-support": True,
        "disable-connections": True,
        "plugin-path": "/p",
        "plugin-requst-timeout": 3,
        # iSulad's documentation has this key, its code does not.
        "plugin_registration_timeout": 4,
        "group": "isula",
    }
    machine.write(DEFAULT_CONFIG, json.dumps(settings))
    config = read_isulad(machine.host)
    assert config.enabled is not None and config.enabled.value is True
    assert config.connections is not None and config.connections.value is False
    assert config.plugin_path is not None and config.plugin_path.value == "/p"
    assert config.request_timeout is not None and config.request_timeout.value == 3
    assert config.registration_timeout is config.socket_path is None


def test_keys_with_underscores_and_a_socket_path_are_reported(machine: Machine) -> None:
    settings = {"nri_support": True, "plugin_path": "/p", "nri-socket-path": "/s", "group": "x"}
    machine.write(DEFAULT_CONFIG, json.dumps(settings))
    config = read_isulad(machine.host)
    assert config.enabled is config.plugin_path is None
    assert [(one.key, one.right) for one in config.misplaced] == [
        ('"nri_support"', '"nri-support", with hyphens'),
        ('"plugin_path"', '"plugin-path", with hyphens'),
    ]
    (problem,) = config.problems
    assert '"nri-socket-path"' in problem.text and not problem.fatal


@pytest.mark.parametrize(("enabled", "warned"), [(True, True), (False, False)])
def test_an_enabled_isulad_has_warnings_of_its_defects(
    machine: Machine, enabled: bool, warned: bool
) -> None:
    machine.write(DEFAULT_CONFIG, json.dumps({"nri-support": enabled}))
    found = [one for one in examination(machine.host).checks if one.name == "isulad-defects"]
    assert bool(found) == warned
    assert all(one.status is Status.WARN and one.fix for one in found)
    text = " ".join(one.detail for one in found)
    words = ("aborts", "UpdateContainerResources", "random order", "environment variable", "swaps")
    assert all((one in text) == warned for one in words)


def test_no_file_means_defaults(machine: Machine) -> None:
    assert read_isulad(machine.host).missing == DEFAULT_CONFIG


@pytest.mark.parametrize("text", ["", "{", "[]", "\x00", "[" * 100_000])
def test_a_broken_file_is_a_fatal_problem(machine: Machine, text: str) -> None:
    machine.write(DEFAULT_CONFIG, text)
    (problem,) = read_isulad(machine.host).problems
    assert problem.fatal
