# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json

import pytest

from nri_scope.doctor.check import Health
from nri_scope.doctor.examine import examination
from nri_scope.doctor.install import Program, plan
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
        ('"nri-socket-path"', ""),
    ]


@pytest.mark.parametrize("key", ["nri-socket-path", "nri_socket_path", "socket-path", "nri-x"])
def test_keys_without_effect_are_told_as_such(machine: Machine, key: str) -> None:
    machine.write(DEFAULT_CONFIG, json.dumps({"nri-support": True, key: "/s", "group": "x"}))
    (check,) = [check for check in examination(machine.host).checks if check.name == "isulad-keys"]
    assert check.status is Health.WARN
    assert f'"{key}"' in check.detail and "ignore unknown settings" in check.detail


@pytest.mark.parametrize(
    ("key", "default"), [("plugin-registration-timeout", 5), ("plugin-requst-timeout", 2)]
)
@pytest.mark.parametrize("value", ["1s", "1", ""])
def test_a_timeout_given_as_text_has_no_effect(
    machine: Machine, key: str, default: int, value: str
) -> None:
    machine.write(DEFAULT_CONFIG, json.dumps({"nri-support": True, key: value}))
    (check,) = [one for one in examination(machine.host).checks if one.name == "isulad-timeouts"]
    assert check.status is Health.WARN
    assert f"it has no effect, and {default} s are used" in check.detail


@pytest.mark.parametrize(
    ("name", "status"),
    [("50", Health.FAIL), ("05", Health.FAIL), ("plugin", Health.WARN)],
)
def test_a_plugin_whose_name_is_an_index_aborts_isulad(
    machine: Machine, name: str, status: Health
) -> None:
    machine.write(DEFAULT_CONFIG, '{"nri-support": true}')
    machine.write(f"/opt/nri/plugins/{name}", "#!", mode=0o755)
    (check,) = [check for check in examination(machine.host).checks if check.name == "plugin"]
    assert check.status is status
    assert ("aborts at its next start" in check.detail) == (status is Health.FAIL)


def test_a_link_without_configuration_is_not_started(machine: Machine) -> None:
    machine.write(DEFAULT_CONFIG, '{"nri-support": true}')
    machine.process(7, "isulad")
    machine.write("/opt/x/nri-scope", "#!", mode=0o755)
    machine.link("/opt/nri/plugins/00-nri-scope", "/opt/x/nri-scope")
    machine.write("/etc/nri/conf.d/nri-scope.conf")
    program = Program("/opt/x/nri-scope")
    for is_started in (False, True):
        found = examination(machine.host)
        names = [check.name for check in found.checks if "is not started" in check.detail]
        assert names == ([] if is_started else ["plugin-config"])
        planned = plan(machine.host, found.installations, found.checks, program)
        assert planned.is_installed == is_started
        (commands,) = (way.commands for way in planned.ways if way.name == "plugin")
        assert commands == (
            "sudo mkdir -p /etc/nri/conf.d",
            "sudo touch /etc/nri/conf.d/00-nri-scope.conf",
            "# restart iSulad",
        )
        machine.write("/etc/nri/conf.d/00-nri-scope.conf")


@pytest.mark.parametrize(("enabled", "warned"), [(True, True), (False, False)])
def test_an_enabled_isulad_has_warnings_of_its_defects(
    machine: Machine, enabled: bool, warned: bool
) -> None:
    machine.write(DEFAULT_CONFIG, json.dumps({"nri-support": enabled}))
    found = [check for check in examination(machine.host).checks if check.name == "isulad-defects"]
    assert bool(found) == warned
    assert all(one.status is Health.WARN and one.fix for one in found)
    text = " ".join(one.detail for one in found)
    words = ("aborts", "UpdateContainerResources", "random order", "environment variable", "swaps")
    assert all((word in text) == warned for word in words)


def test_no_file_means_defaults(machine: Machine) -> None:
    assert read_isulad(machine.host).missing == DEFAULT_CONFIG


@pytest.mark.parametrize("text", ["", "{", "[]", "\x00", "[" * 100_000])
def test_a_broken_file_is_a_fatal_problem(machine: Machine, text: str) -> None:
    machine.write(DEFAULT_CONFIG, text)
    (problem,) = read_isulad(machine.host).problems
    assert problem.fatal
