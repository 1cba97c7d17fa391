# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json

import pytest

from nri_scope.doctor.check import Check, Health
from nri_scope.doctor.examine import examination
from nri_scope.doctor.host import ProgramVersion
from nri_scope.doctor.install import Program, plan

from .machine import Machine

DAEMON = "/etc/docker/daemon.json"
LINE = '"nri-opts": {"enable": true, "socket-path": "/var/run/nri/nri.sock"}'


def dockerd(machine: Machine, options: object, *arguments: str) -> None:
    machine.write(DAEMON, json.dumps({"nri-opts": options} if options is not None else {}))
    machine.at("/proc/7/exe").unlink(missing_ok=True)
    machine.process(7, "dockerd", *arguments, program="/usr/bin/dockerd")


def checks_of(machine: Machine, version: str = "29.2.0") -> dict[str, Check]:
    found = examination(machine.host, version_of=lambda pid: ProgramVersion(version)).checks
    return {check.name: check for check in found}


@pytest.mark.parametrize("options", [None, {}, {"socket-path": "/s"}])
def test_nri_is_off_by_default(machine: Machine, options: object) -> None:
    dockerd(machine, options)
    check = checks_of(machine)["docker-enabled"]
    assert check.status is Health.FAIL
    assert check.detail == "NRI is off by default in Docker Engine 29.2.0, and no file enables it"
    assert check.fix == f"add this member to the JSON object in {DAEMON}, and reload Docker Engine"
    assert check.config == LINE
    assert "docker-connections" not in checks_of(machine)


def test_without_a_file_nothing_is_set(machine: Machine) -> None:
    machine.process(7, "dockerd", program="/usr/bin/dockerd")
    checks = checks_of(machine)
    assert f"{DAEMON} does not exist" in checks["docker-config"].detail
    assert checks["docker-enabled"].config == f"{{\n  {LINE}\n}}"


def test_before_29_2_there_is_no_nri(machine: Machine) -> None:
    dockerd(machine, {"enable": True})
    check = checks_of(machine, "29.1.5")["docker-enabled"]
    assert check.status is Health.FAIL
    assert check.fix == "upgrade Docker Engine to 29.2 or later"


def test_external_plugins_need_a_socket_path(machine: Machine) -> None:
    dockerd(machine, {"enable": True})
    checks = checks_of(machine)
    assert checks["docker-enabled"].status is Health.OK
    check = checks["docker-connections"]
    assert check.status is Health.FAIL
    assert check.detail.startswith('external plugins cannot connect: "socket-path" of "nri-opts"')
    assert check.config == LINE
    dockerd(machine, {"enable": True, "socket-path": "/run/docker-nri.sock"})
    checks = checks_of(machine)
    assert checks["docker-connections"].status is Health.OK
    # This socket is examined.
    assert "/run/docker-nri.sock" in checks["socket"].detail


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"enabled": True}, 'unknown key "enabled" in "nri-opts"'),
        ([], "it is not a JSON object"),
    ],
)
def test_what_dockerd_does_not_start_with_fails(
    machine: Machine, options: object, problem: str
) -> None:
    dockerd(machine, options)
    check = checks_of(machine)["docker-config"]
    assert check.detail == f"{DAEMON}: Docker Engine does not start: {problem}"


@pytest.mark.parametrize("text", ["{", "[]", "\ud800".encode(errors="surrogatepass")])
def test_a_file_that_is_no_json_object_fails(machine: Machine, text: str | bytes) -> None:
    content = text if isinstance(text, bytes) else text.encode()
    machine.at(DAEMON).write_bytes(content)
    machine.process(7, "dockerd", program="/usr/bin/dockerd")
    assert checks_of(machine)["docker-config"].detail.startswith(
        f"{DAEMON}: Docker Engine does not"
    )


@pytest.mark.parametrize(
    ("value", "status"),
    [
        ("enable,socket-path=/s", Health.OK),
        ("enable=true,socket-path=/s", Health.OK),
        ("enable=false,socket-path=/s", Health.FAIL),
        ("socket-path=/s", Health.FAIL),
    ],
)
def test_options_of_the_command_line(machine: Machine, value: str, status: Health) -> None:
    dockerd(machine, None, "--nri-opts", value)
    assert checks_of(machine)["docker-enabled"].status is status


def test_folders_of_plugins(machine: Machine) -> None:
    dockerd(machine, {"enable": True, "socket-path": "/s"})
    machine.write("/usr/libexec/docker/nri-plugins/10-mine", "#!", mode=0o755, changed=9e9)
    machine.write("/opt/nri/plugins/20-other", "#!", mode=0o755)
    checks = checks_of(machine)
    assert checks["plugins"].detail.endswith("10-mine in /usr/libexec/docker/nri-plugins")
    # A reload starts plugins that were added later.
    assert "plugin" not in checks
    dockerd(machine, {"enable": True, "plugin-path": "/opt/nri/plugins"})
    assert checks_of(machine)["plugins"].detail.endswith("20-other in /opt/nri/plugins")


@pytest.mark.parametrize("config_home", ["", "/home/ann/etc"])
def test_rootless_mode_has_its_files_at_home(machine: Machine, config_home: str) -> None:
    folder = config_home or "/home/ann/.config"
    machine.write(f"{folder}/docker/daemon.json", '{"nri-opts": {"enable": true}}')
    machine.write("/home/ann/.local/libexec/docker/nri-plugins/10-mine", "#!", mode=0o755)
    dockerd(machine, None)
    variables = ["ROOTLESSKIT_STATE_DIR=/run/user/1000/x", "HOME=/home/ann", "X"]
    variables += [f"XDG_CONFIG_HOME={config_home}"] if config_home else []
    machine.write("/proc/7/environ", "\0".join(variables))
    checks = checks_of(machine)
    assert checks["docker-config"].detail == (
        f"Docker Engine 29.2.0 reads {folder}/docker/daemon.json"
    )
    assert "/home/ann/.local/libexec/docker/nri-plugins" in checks["plugins"].detail


def test_dockers_own_containerd_is_not_examined(machine: Machine) -> None:
    own = "/var/run/docker/containerd/containerd.toml"
    machine.write(own, 'version = 2\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n')
    machine.process(8, "containerd", "--config", own, program="/usr/bin/containerd")
    dockerd(machine, {"enable": True})
    assert not [name for name in checks_of(machine) if name.startswith("containerd")]


@pytest.mark.parametrize("plugin", ["cri", "io.containerd.grpc.v1.cri"])
def test_containerd_without_cri_has_no_nri(machine: Machine, plugin: str) -> None:
    path = "/etc/containerd/config.toml"
    machine.write(path, f'version = 2\ndisabled_plugins = ["{plugin}"]\n')
    machine.process(8, "containerd", program="/usr/bin/containerd")
    check = checks_of(machine, "2.1.9")["containerd-enabled"]
    assert check.status is Health.FAIL
    assert check.detail == f"NRI is disabled: CRI in disabled_plugins in {path}"
    assert check.fix == f"remove CRI from disabled_plugins in {path}, and restart containerd"


def test_a_launched_recorder_needs_a_reload_only(machine: Machine) -> None:
    dockerd(machine, {"enable": True})
    machine.at("/run/systemd/system").mkdir()
    found = examination(machine.host, version_of=lambda pid: ProgramVersion("29.2.0"))
    ways = plan(machine.host, found.installations, found.checks, Program("/opt/nri-scope")).ways
    (way,) = [way for way in ways if way.name == "plugin"]
    assert way.commands == (
        "sudo mkdir -p /usr/libexec/docker/nri-plugins",
        "sudo ln -s /opt/nri-scope /usr/libexec/docker/nri-plugins/00-nri-scope",
        "sudo systemctl reload docker",
    )
