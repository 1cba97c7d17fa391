# SPDX-License-Identifier: Apache-2.0
"""Checks of NRI 0.1: its list of plugins, its programs, and what the runtime calls."""

from __future__ import annotations

import json

import pytest

from nri_scope.doctor.check import Check, Health
from nri_scope.doctor.config_checks import Installation
from nri_scope.doctor.examine import examination
from nri_scope.doctor.host import ProgramVersion, running_runtimes
from nri_scope.doctor.settings import NriConfig
from nri_scope.doctor.v01 import check_v01

from .machine import Machine

CONF = "/etc/nri/conf.json"


def checked(machine: Machine, version: str, runtime: str = "containerd") -> list[Check]:
    process = next(iter(running_runtimes(machine.host)), None)
    return check_v01(machine.host, Installation(NriConfig(runtime, ()), version, process))


def listed(*types: str) -> str:
    return json.dumps({"version": "0.1", "plugins": [{"type": type_} for type_ in types]})


@pytest.mark.parametrize(
    ("version", "status", "words"),
    [
        (
            "1.6.20~ds1",
            Health.OK,
            "1.6.20~ds1 calls the plugins in {} for sandboxes and",
        ),
        ("1.5.9", Health.OK, "for sandboxes and containers: a (/opt/nri/bin/a)"),
        ("1.7.24", Health.WARN, "containerd 1.7.24 does not read {}, which lists 1 plugins"),
        ("1.4.13", Health.WARN, "does not read"),
        ("2.0.0", Health.WARN, "for sandboxes: a (/opt/nri/bin/a); this is deprecated"),
        ("2.1.9", Health.WARN, "every pod fails if a program is removed"),
        ("2.4.0-beta.2", Health.WARN, "every pod fails if a program is removed"),
        ("", Health.UNKNOWN, "whether the runtime reads {} is unknown"),
    ],
)
def test_each_containerd_calls_the_plugins_for_other_objects(
    machine: Machine, version: str, status: Health, words: str
) -> None:
    machine.write(CONF, listed("a"))
    machine.write("/opt/nri/bin/a", mode=0o755)
    (check,) = checked(machine, version)
    assert check.status is status
    assert words.format(CONF) in check.detail


@pytest.mark.parametrize("version", ["1.6.20", "2.1.9"])
def test_a_missing_program_fails_every_pod(machine: Machine, version: str) -> None:
    machine.write(CONF, listed("a", "gone", "/opt/x/no"))
    machine.write("/opt/nri/bin/a", mode=0o755)
    machine.write("/opt/nri/bin/gone", mode=0o644)
    first, *others = checked(machine, version)
    assert first.status is Health.FAIL
    assert first.detail.startswith(f"every pod fails: containerd {version} calls the plugins")
    assert [(one.status, one.detail.partition(" of ")[0]) for one in others] == [
        (Health.FAIL, "plugin gone"),
        (Health.FAIL, "plugin /opt/x/no"),
    ]


def test_a_missing_program_is_harmless_for_containerd_1_7(machine: Machine) -> None:
    machine.write(CONF, listed("gone"))
    assert [check.status for check in checked(machine, "1.7.24")] == [Health.WARN]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"plugins": [null]}', '{"plugins": [{}]}'])
def test_a_broken_list_fails_every_pod_of_a_containerd_that_reads_it(
    machine: Machine, text: str
) -> None:
    machine.write(CONF, text)
    (check,) = checked(machine, "2.1.9")
    assert check.status is Health.FAIL
    assert "every pod fails, as containerd 2.1.9 reads it for sandboxes" in check.detail
    (check,) = checked(machine, "1.7.24")
    assert check.status is Health.WARN


def test_the_first_program_in_the_runtimes_path_is_called(machine: Machine) -> None:
    machine.process(7, "containerd")
    machine.write("/proc/7/environ", "HOME=/\0PATH=/a:/b\0")
    machine.write(CONF, listed("p"))
    for folder in ("/b", "/usr/bin", "/opt/nri/bin"):
        machine.write(f"{folder}/p", mode=0o755)
    first, hidden = checked(machine, "1.6.20")
    assert first.detail.endswith("p (/b/p)")
    assert hidden.status is Health.WARN
    assert hidden.detail == f"plugin p of {CONF}: /b/p hides /opt/nri/bin/p"


def test_without_a_list_only_a_containerd_that_calls_for_containers_is_mentioned(
    machine: Machine,
) -> None:
    assert [check.status for check in checked(machine, "1.6.20")] == [Health.OK]
    assert checked(machine, "2.1.9") == []
    assert checked(machine, "1.30.1", "cri-o") == []


def test_the_whole_examination_contains_the_check(machine: Machine) -> None:
    machine.process(7, "containerd", program="/usr/bin/containerd")
    machine.write("/etc/containerd/config.toml", "version = 3\n")
    machine.write(CONF, listed("gone"))
    checks = examination(machine.host, version_of=lambda pid: ProgramVersion("2.1.9")).checks
    assert [c.status for c in checks if c.name == "nri-0.1"] == [
        Health.FAIL,
        Health.FAIL,
    ]
