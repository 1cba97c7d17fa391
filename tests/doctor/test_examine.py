# SPDX-License-Identifier: Apache-2.0
"""Tests of the whole examination, on machines made of files with an emulated runtime."""

from __future__ import annotations

import asyncio
import os

from nri_scope.doctor.check import Check, Health
from nri_scope.doctor.examine import examination
from nri_scope.doctor.host import ProgramVersion
from nri_scope.runtime import EmulatedRuntime, Profile

from .machine import Machine

SOCKET = "/var/run/nri/nri.sock"
CONTAINERD = "/etc/containerd/config.toml"
NRI = '[plugins."io.containerd.nri.v1.nri"]'
OLD = Profile.of("old", "containerd", "1.7.24~ds1", "0.6.1")


def only_check(checks: list[Check], name: str) -> Check:
    (check,) = [check for check in checks if check.name == name]
    return check


async def examine_served(
    machine: Machine, profile: Profile, socket: str | None = None
) -> list[Check]:
    """Examine ``machine`` while an emulated runtime listens on its socket."""
    async with EmulatedRuntime(profile) as runtime:
        await runtime.listen(machine.at("/run/nri/nri.sock"))
        return (await asyncio.to_thread(examination, machine.host, socket)).checks


def test_empty_machine_has_no_runtime_and_no_socket(machine: Machine) -> None:
    checks = examination(machine.host).checks
    assert [(check.name, check.status) for check in checks] == [
        ("runtime", Health.WARN),
        ("socket", Health.FAIL),
        ("plugins", Health.OK),
    ]


async def test_correctly_configured_machine_has_no_failures(machine: Machine) -> None:
    machine.link("/var/run", "/run")
    machine.write(CONTAINERD, f"version = 2\n{NRI}\ndisable = false\n")
    machine.process(os.getpid(), "containerd")
    machine.write("/opt/nri/plugins/10-a", "#!/bin/sh\n", mode=0o755)
    checks = await examine_served(machine, OLD)
    # The plugin's file is newer than the runtime, which started in 2023 and is too old to report
    # its timeouts.
    assert [(c.name, c.status) for c in checks if c.status is not Health.OK] == [
        ("timeouts", Health.UNKNOWN),
        # What is known of this version of containerd.
        *[("containerd-defects", Health.NOTE)] * 4,
        ("plugin", Health.WARN),
    ]
    assert only_check(checks, "listener").detail == f"containerd (process {os.getpid()}) listens"
    assert only_check(checks, "nri-version").detail == "NRI 0.6.1, inferred from its version"
    assert only_check(checks, "containerd-config").detail == (
        f"containerd 1.7.24~ds1 reads {CONTAINERD}"
    )


async def test_the_configured_socket_is_checked(machine: Machine) -> None:
    machine.write(CONTAINERD, f'version = 3\n{NRI}\nsocket_path = "/run/nri/nri.sock"\n')
    machine.process(os.getpid(), "containerd")
    checks = await examine_served(machine, Profile.of("new", "containerd", "2.1.0", "0.8.0"))
    assert only_check(checks, "socket").detail.startswith("/run/nri/nri.sock is a socket")
    assert only_check(checks, "registration").status is Health.OK


def test_a_running_runtime_with_nri_off_fails(machine: Machine) -> None:
    machine.write(CONTAINERD, "version = 2\n")
    machine.process(7, "containerd", program="/usr/bin/containerd")
    asked = []

    def version_of(pid: int) -> ProgramVersion:
        asked.append(pid)
        return ProgramVersion("1.7.24~ds1")

    checks = examination(machine.host, version_of=version_of).checks
    assert asked == [7]
    check = only_check(checks, "containerd-enabled")
    assert (check.status, "off by default" in check.detail) == (Health.FAIL, True)
    assert only_check(checks, "socket").status is Health.FAIL


def test_a_program_that_was_not_run_is_reported_with_the_reason(machine: Machine) -> None:
    machine.process(7, "containerd", program="/home/x/containerd")
    checks = examination(
        machine.host, version_of=lambda pid: ProgramVersion("", "it is a fake")
    ).checks
    assert only_check(checks, "containerd-version") == Check(
        "containerd-version",
        Health.UNKNOWN,
        "the version of containerd (process 7, /home/x/containerd) is unknown: it is a fake",
    )


def test_a_fake_process_does_not_hide_the_runtime(machine: Machine) -> None:
    machine.write(CONTAINERD, "version = 2\n")
    for pid in (7, 8, 9):
        machine.process(pid, "containerd", program="/usr/bin/containerd")
    versions = {7: ProgramVersion("", "it is a fake"), 8: ProgramVersion("2.1.4")}
    checks = examination(
        machine.host, version_of=lambda pid: versions.get(pid, ProgramVersion("1.7.24"))
    ).checks
    assert only_check(checks, "containerd-config").detail == f"containerd 2.1.4 reads {CONTAINERD}"
    assert "containerd-version" not in [check.name for check in checks]


async def test_failures_of_a_runtime_that_does_not_serve_the_socket_are_warnings(
    machine: Machine,
) -> None:
    machine.write(CONTAINERD, f"version = 2\n{NRI}\ndisable = true\n")
    machine.process(1234567, "containerd")
    machine.process(os.getpid(), "crio")
    checks = await examine_served(
        machine, Profile.of("new", "cri-o", "1.37.0", "0.12.0"), "/run/nri/nri.sock"
    )
    check = only_check(checks, "containerd-enabled")
    assert check.status is Health.WARN
    assert check.detail.endswith("(it does not serve /run/nri/nri.sock)")
    assert only_check(checks, "cri-o-enabled").status is Health.OK
    assert not any(c.status is Health.FAIL for c in checks)


def test_plugins_are_read_from_the_runtime_s_configured_folders(machine: Machine) -> None:
    machine.write(
        "/etc/crio/crio.conf.d/10.conf",
        '[crio.nri]\nnri_plugin_dir = "/p"\nnri_plugin_config_dir = "/c"',
    )
    machine.process(7, "crio")
    machine.write("/p/bad", mode=0o755)
    machine.write("/opt/nri/plugins/bad-too", mode=0o755)
    machine.write("/c/x.conf")
    checks = examination(machine.host).checks
    assert "/p/bad" in only_check(checks, "plugin").detail
    assert "/c/x.conf" in only_check(checks, "plugin-config").detail


def test_plugin_problems_are_warnings_where_nri_is_off(machine: Machine) -> None:
    machine.write(CONTAINERD, f"version = 2\n{NRI}\ndisable = true\n")
    machine.process(7, "containerd")
    machine.write("/opt/nri/plugins/bad", mode=0o755)
    machine.write("/opt/nri/plugins/10-a", "#!/bin/sh\n", mode=0o755)
    checks = examination(machine.host).checks
    bad = next(check for check in checks if "/bad" in check.detail)
    assert (bad.status, bad.detail.endswith("(once NRI is on)")) == (Health.WARN, True)
    assert only_check(checks, "plugins").detail.startswith("NRI is off")


def test_the_plugin_folder_is_unknown_with_unreadable_configuration(
    machine: Machine, unprivileged: None
) -> None:
    machine.write(CONTAINERD, f'version = 2\n{NRI}\nplugin_path = "/p"\n', mode=0)
    machine.process(7, "containerd")
    check = only_check(examination(machine.host).checks, "plugins")
    assert (check.status, check.fix) == (Health.UNKNOWN, "run doctor as root")
    assert check.detail == (
        "not all of containerd's configuration could be read: its plugin folder is unknown "
        "(/opt/nri/plugins unless configured)"
    )

    machine.write("/opt/nri/plugins/10-a", "#!/bin/sh\n", mode=0o755)
    machine.write("/opt/nri/plugins/bad", "#!/bin/sh\n", mode=0o755)
    checks = examination(machine.host, version_of=lambda pid: ProgramVersion("2.1.4")).checks
    assert only_check(checks, "plugins").status is Health.UNKNOWN
    guesses = [check for check in checks if check.name == "plugin"]
    assert guesses
    assert {check.status for check in guesses} == {Health.WARN}
    assert all(check.detail.endswith("(if it uses /opt/nri/plugins)") for check in guesses)


def test_two_containerds_with_different_configuration_are_both_checked(machine: Machine) -> None:
    machine.write(CONTAINERD, "version = 2\n")
    machine.write("/docker.toml", "version = 2\n")
    machine.process(7, "containerd")
    machine.process(8, "containerd", "--config", "/docker.toml")
    machine.process(9, "containerd")
    details = [c.detail for c in examination(machine.host).checks if c.name == "containerd-config"]
    assert details == [f"containerd reads {CONTAINERD}", "containerd reads /docker.toml"]


def test_a_configured_runtime_that_does_not_run_is_checked(machine: Machine) -> None:
    machine.write("/etc/isulad/daemon.json", "{}")
    check = only_check(examination(machine.host).checks, "isulad-enabled")
    assert check.status is Health.FAIL
    assert check.config == '"nri-support": true'
