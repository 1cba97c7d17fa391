# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json

import pytest

from nri_scope.doctor.isulad import DEFAULT_CONFIG, read_isulad

from .machine import Machine


def test_settings_are_read_from_the_top_level(machine: Machine) -> None:
    settings = {
        "nri-support": True,
        "disable-connections": True,
        "plugin-path": "/p",
        "plugin-requst-timeout": 3,
        # iSulad's documentation has these keys, its code does not.
        "plugin_registration_timeout": 4,
        "socket_path": "/s",
        "group": "isula",
    }
    machine.write(DEFAULT_CONFIG, json.dumps(settings))
    config = read_isulad(machine.host)
    assert config.enabled is not None and config.enabled.value is True
    assert config.connections is not None and config.connections.value is False
    assert config.plugin_path is not None and config.plugin_path.value == "/p"
    assert config.request_timeout is not None and config.request_timeout.value == 3
    assert config.registration_timeout is config.socket_path is None


def test_no_file_means_defaults(machine: Machine) -> None:
    assert read_isulad(machine.host).missing == DEFAULT_CONFIG


@pytest.mark.parametrize("text", ["", "{", "[]", "\x00", "[" * 100_000])
def test_a_broken_file_is_a_fatal_problem(machine: Machine, text: str) -> None:
    machine.write(DEFAULT_CONFIG, text)
    (problem,) = read_isulad(machine.host).problems
    assert problem.fatal
