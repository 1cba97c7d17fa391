# SPDX-License-Identifier: Apache-2.0
"""Ways to install the recorder, on machines made of files with an emulated runtime."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from nri_scope.cli.main import run
from nri_scope.doctor.examine import examination
from nri_scope.doctor.host import ProgramVersion
from nri_scope.doctor.install import Plan, Program, as_json, as_text, plan
from nri_scope.runtime import EmulatedRuntime, Profile

from .machine import Machine

CONTAINERD = "/etc/containerd/config.toml"
NRI = '[plugins."io.containerd.nri.v1.nri"]'
PROFILE = Profile.of("new", "containerd", "2.1.9", "0.8.0")
PROGRAM = Program("/opt/nri-scope/bin/nri-scope", "/opt/nri-scope/lib/systemd/system/x.service")
IN_PATH = Program("/usr/local/bin/nri-scope", "/usr/local/lib/systemd/system/nri-scope.service")


@pytest.fixture
def node(machine: Machine) -> Machine:
    """A machine with containerd 2.1 as this process, which may be made to listen."""
    machine.link("/var/run", "/run")
    machine.write(CONTAINERD, "version = 3\n")
    machine.process(os.getpid(), "containerd")
    return machine


def plan_of(machine: Machine, program: Program = PROGRAM) -> Plan:
    found = examination(machine.host, version_of=lambda pid: ProgramVersion("2.1.9"))
    return plan(machine.host, found.installations, found.checks, program)


async def served(machine: Machine, program: Program = PROGRAM) -> Plan:
    """The plan while an emulated runtime listens."""
    async with EmulatedRuntime(PROFILE) as runtime:
        await runtime.listen(machine.at("/run/nri/nri.sock"))
        return await asyncio.to_thread(plan_of, machine, program)


def commands(found: Plan, name: str) -> list[str]:
    (way,) = (way for way in found.ways if way.name == name)
    return list(way.commands)


def problems(found: Plan) -> dict[str, str]:
    return {way.name: way.problem for way in found.ways}


async def test_a_unit_is_recommended_where_systemd_runs(node: Machine) -> None:
    node.at("/run/systemd/system/x")
    found = await served(node)
    assert found.facts == (
        "containerd 2.1.9 with NRI 0.8.0 accepts external plugins",
        "systemd runs this machine",
        "no kubelet runs: not a node of a Kubernetes cluster",
    )
    assert (found.recommended, found.why, found.exit_status) == ("unit", "", 0)
    assert commands(found, "unit") == [
        "sudo ln -s /opt/nri-scope/bin/nri-scope /usr/local/bin/nri-scope",
        "sudo install -m 0644 /opt/nri-scope/lib/systemd/system/x.service /etc/systemd/system/",
        "sudo systemctl daemon-reload",
        "sudo systemctl enable --now nri-scope",
    ]
    assert problems(found) == {"daemonset": "no kubelet runs here", "unit": "", "plugin": ""}


async def test_what_systemd_finds_by_itself_is_not_linked(node: Machine) -> None:
    node.at("/run/systemd/system/x")
    found = await served(node, IN_PATH)
    assert commands(found, "unit") == [
        "sudo systemctl daemon-reload",
        "sudo systemctl enable --now nri-scope",
    ]


@pytest.mark.parametrize("kubelet", ["kubelet", "k3s-agent", "kubelite"])
async def test_a_daemonset_is_recommended_on_a_node(node: Machine, kubelet: str) -> None:
    node.at("/run/systemd/system/x")
    node.process(3, kubelet)
    found = await served(node)
    assert found.recommended == "daemonset"
    assert f"{kubelet} runs (process 3): a node of a Kubernetes cluster" in found.facts
    assert set(problems(found).values()) == {""}


async def test_a_kubelet_in_a_container_is_of_another_node(node: Machine, tmp_path: Path) -> None:
    node.process(3, "kubelet")
    node.link("/proc/3/root", str(tmp_path / "proc"))
    assert (await served(node)).recommended == "plugin"


async def test_a_plugin_is_recommended_without_systemd(node: Machine) -> None:
    found = await served(node, Program("/opt/my programs/nri-scope"))
    assert found.recommended == "plugin"
    assert commands(found, "plugin") == [
        "sudo mkdir -p /opt/nri/plugins",
        "sudo ln -s '/opt/my programs/nri-scope' /opt/nri/plugins/00-nri-scope",
        "# restart containerd",
    ]
    assert problems(found)["unit"] == "systemd does not run here"


def test_only_a_plugin_works_if_connections_are_off(node: Machine) -> None:
    node.write(
        CONTAINERD, f'version = 3\n{NRI}\ndisable_connections = true\nplugin_path = "/x/plugins"\n'
    )
    node.at("/run/systemd/system/x")
    node.at("/x/plugins/y")
    node.process(3, "kubelet")
    found = plan_of(node)
    assert "external plugins cannot connect" in found.facts[0] and CONTAINERD in found.facts[0]
    assert (found.recommended, found.first, found.exit_status) == ("plugin", (), 0)
    assert commands(found, "plugin") == [
        "sudo ln -s /opt/nri-scope/bin/nri-scope /x/plugins/00-nri-scope",
        "sudo systemctl restart containerd",
    ]
    no = "external plugins may not connect"
    assert problems(found) == {"daemonset": no, "unit": no, "plugin": ""}


@pytest.mark.parametrize(
    ("config", "command"),
    [
        ("/var/lib/rancher/k3s/agent/etc/containerd/config.toml", "# restart k3s"),
        ("/var/lib/rancher/rke2/agent/etc/containerd/config.toml", "# restart rke2"),
        ("/var/snap/microk8s/7/args/containerd.toml", "# restart microk8s"),
        ("/srv/config.toml", "sudo systemctl restart containerd"),
    ],
)
def test_a_distribution_restarts_its_own_containerd(
    machine: Machine, config: str, command: str
) -> None:
    machine.at("/run/systemd/system/x")
    machine.write(config, "version = 3\n")
    machine.process(os.getpid(), "containerd", "-c", config)
    assert commands(plan_of(machine), "plugin")[-1] == command


def test_nri_must_be_enabled_first(node: Machine) -> None:
    node.write(CONTAINERD, f"version = 3\n{NRI}\ndisable = true\n")
    node.at("/run/systemd/system/x")
    found = plan_of(node)
    (check,) = found.first
    assert check.name == "containerd-enabled" and "disable" in check.config
    assert (found.recommended, found.exit_status) == ("unit", 1)
    lines = list(as_text(found, 100))
    assert any(line.startswith("first: NRI is disabled") for line in lines)
    shown = [f"    {line}" for line in check.config.splitlines()]
    at = lines.index(shown[0])
    assert lines[at : at + len(shown)] == shown
    assert at < lines.index("recommended: systemd unit")


def test_isulad_needs_a_configuration_file(machine: Machine) -> None:
    machine.write("/etc/isulad/daemon.json", '{"nri-support": true}')
    machine.process(7, "isulad")
    machine.at("/opt/nri/plugins/x")
    assert commands(plan_of(machine), "plugin") == [
        "sudo ln -s /opt/nri-scope/bin/nri-scope /opt/nri/plugins/00-nri-scope",
        "sudo mkdir -p /etc/nri/conf.d",
        "sudo touch /etc/nri/conf.d/00-nri-scope.conf",
        "# restart iSulad",
    ]


def test_a_machine_without_a_runtime(machine: Machine) -> None:
    found = plan_of(machine)
    assert (found.recommended, found.why) == ("", "there is no container runtime")
    assert found.exit_status == 1


async def test_an_installed_recorder_is_not_installed_again(node: Machine) -> None:
    node.at("/run/systemd/system/x")
    node.write("/opt/nri-scope/bin/nri-scope", "#!", mode=0o755)
    node.link("/opt/nri/plugins/05-recorder", "/opt/nri-scope/bin/nri-scope")
    found = await served(node)
    launched = "already installed: the runtime launches /opt/nri/plugins/05-recorder when it starts"
    assert launched in found.facts
    assert (found.recommended, found.why, found.exit_status) == ("", "the recorder is installed", 0)
    assert "no way is recommended: the recorder is installed" in as_text(found, 80)

    node.at("/opt/nri/plugins/05-recorder").unlink()
    node.write("/etc/systemd/system/nri-scope.service")
    wanted = "/etc/systemd/system/multi-user.target.wants/nri-scope.service"
    node.link(wanted, "/etc/systemd/system/nri-scope.service")
    found = await served(node)
    assert "already installed: systemd starts nri-scope.service" in found.facts
    assert found.recommended == ""


async def test_a_running_recorder_is_named(node: Machine) -> None:
    node.process(11, "nri-scope", "/usr/bin/nri-scope", "doctor")
    assert not any("nri-scope record" in fact for fact in (await served(node)).facts)
    node.process(12, "nri-scope", "/usr/bin/nri-scope", "record")
    assert any("nri-scope record runs (process 12)" in fact for fact in (await served(node)).facts)


@pytest.mark.parametrize("folder", ["/root", "/home/ann", "/tmp"])
async def test_a_program_that_the_sandbox_hides(node: Machine, folder: str) -> None:
    node.at("/run/systemd/system/x")
    path = f"{folder}/venv/bin/nri-scope"
    found = await served(node, Program(path, files=("/usr/bin/python3", path)))
    assert problems(found)["unit"].startswith(f"the unit cannot see {path}")
    assert (found.recommended, problems(found)["plugin"]) == ("plugin", "")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root for a file of another user")
async def test_root_does_not_run_a_file_that_others_change(node: Machine) -> None:
    node.at("/run/systemd/system/x")
    path = node.write("/opt/x/nri-scope", mode=0o775)
    program = Program("/opt/x/nri-scope", files=("/opt/x/nri-scope",))
    for owner, mode, is_safe in ((0, 0o775, False), (1000, 0o755, False), (0, 0o755, True)):
        os.chown(path, owner, owner)
        path.chmod(mode)
        found = await served(node, program)
        assert (not problems(found)["unit"], not problems(found)["plugin"]) == (is_safe, is_safe)
        assert found.recommended == ("unit" if is_safe else "")


async def test_names_of_files_are_shown_escaped(node: Machine) -> None:
    node.write("/opt/nri/plugins/05-nri-scope\x1b[2J", mode=0o755)
    node.link("/opt/nri/plugins/06-\x1b[2J", "/opt/nri-scope")
    found = await served(node)
    assert found.recommended == "" and "\x1b" not in "".join(as_text(found, 80))
    assert json.loads(as_json(found))["facts"] == list(found.facts)


def test_the_command_prints_text_and_json(
    node: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    node.write(CONTAINERD, f"version = 3\n{NRI}\ndisable = true\n")
    before = {path: path.lstat() for path in node.root.rglob("*")}
    assert run(["doctor", "--root", str(node.root), "--install"]) == 1
    text = capsys.readouterr().out
    assert "first: " in text and "recommended: plugin that the runtime launches" in text
    assert run(["doctor", "--root", str(node.root), "--install", "--format", "json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["schema_version"] == 1 and document["recommended"] == "plugin"
    assert {path: path.lstat() for path in node.root.rglob("*")}.keys() == before.keys()
