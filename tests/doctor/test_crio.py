# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from nri_scope.doctor.crio import DEFAULT_CONFIG, DEFAULT_DROP_INS, config_paths, read_crio
from nri_scope.doctor.settings import Misplaced, Orphan

from .machine import BOOT, Machine


def test_drop_ins_apply_in_order_of_their_names(machine: Machine) -> None:
    machine.write(DEFAULT_CONFIG, '[crio.nri]\nenable_nri = true\nnri_listen = "/main"')
    machine.write(f"{DEFAULT_DROP_INS}/20-b.conf", "[crio.nri]\nenable_nri = true")
    machine.write(
        f"{DEFAULT_DROP_INS}/10-a.conf",
        '[crio.nri]\nenable_nri = false\nnri_disable_connections = true\nnri_plugin_dir = "/p"',
        changed=BOOT + 9,
    )
    machine.write(f"{DEFAULT_DROP_INS}/sub/00.conf", '[crio.nri]\nnri_plugin_request_timeout="3s"')
    config = read_crio(machine.host)
    assert config.files == (
        DEFAULT_CONFIG,
        f"{DEFAULT_DROP_INS}/10-a.conf",
        f"{DEFAULT_DROP_INS}/20-b.conf",
        f"{DEFAULT_DROP_INS}/sub/00.conf",
    )
    assert config.enabled is not None and config.enabled.value is True
    assert config.enabled.origin.endswith("20-b.conf")
    assert config.connections is not None and config.connections.value is False
    assert config.socket_path is not None and config.socket_path.value == "/main"
    assert config.plugin_path is not None and config.plugin_path.value == "/p"
    assert config.request_timeout is not None and config.request_timeout.value == "3s"
    assert config.changed_at == BOOT + 9


def test_no_files_mean_defaults(machine: Machine) -> None:
    config = read_crio(machine.host)
    assert (config.files, config.missing, config.enabled) == ((), DEFAULT_CONFIG, None)


@pytest.mark.parametrize(
    "name", ["10-nri.conf~", "10-nri.conf.bak", ".10-nri.conf", "10-nri.conf.rpmsave", "#x.conf#"]
)
def test_backup_files_among_drop_ins_apply_and_are_reported(machine: Machine, name: str) -> None:
    machine.write(f"{DEFAULT_DROP_INS}/{name}", "[crio.nri]\nenable_nri = false")
    config = read_crio(machine.host)
    assert config.enabled is not None and config.enabled.value is False
    (problem,) = config.problems
    assert not problem.fatal
    assert "every file" in problem.text


def test_unreadable_drop_ins_keep_cri_o_from_starting(machine: Machine) -> None:
    machine.write(f"{DEFAULT_DROP_INS}/README", "drop-ins go here")
    machine.link(f"{DEFAULT_DROP_INS}/gone.conf", "/nowhere")
    machine.at("/folder").mkdir()
    machine.link(f"{DEFAULT_DROP_INS}/to-folder", "/folder")
    problems = {problem.file: problem for problem in read_crio(machine.host).problems}
    assert set(problems) == {
        f"{DEFAULT_DROP_INS}/{name}" for name in ("README", "gone.conf", "to-folder")
    }
    assert all(problem.fatal for problem in problems.values())


def test_misplaced_and_unknown_keys_have_no_effect(machine: Machine) -> None:
    machine.write(
        DEFAULT_CONFIG,
        "[crio.runtime]\nenable_nri = true\n[nri]\nnri_plugin_request_timeout = '9s'\n"
        "[crio.nri]\nplugin_request_timeout = '9s'\n[crio.nri.default_validator]\nx = 1",
    )
    config = read_crio(machine.host)
    assert config.enabled is config.request_timeout is None
    assert set(config.misplaced) == {
        Misplaced(DEFAULT_CONFIG, "[crio.runtime]", "enable_nri", "[crio.nri]"),
        Misplaced(DEFAULT_CONFIG, "[nri]", "nri_plugin_request_timeout", "[crio.nri]"),
        Misplaced(DEFAULT_CONFIG, "[crio.nri]", "plugin_request_timeout", ""),
    }


def test_the_command_line_overrides_files(machine: Machine) -> None:
    machine.write(DEFAULT_CONFIG, "[crio.nri]\nenable_nri = true")
    config = read_crio(
        machine.host, arguments=("--enable-nri=false", "--nri-listen", "/x", "--other")
    )
    assert config.enabled is not None
    assert (config.enabled.value, config.enabled.origin) == (False, "the command line")
    assert config.socket_path is not None and config.socket_path.value == "/x"
    assert read_crio(machine.host, arguments=("--nri-disable-connections",)).connections is not None


def test_the_command_line_selects_the_files() -> None:
    assert config_paths(()) == (DEFAULT_CONFIG, DEFAULT_DROP_INS)
    assert config_paths(("--config=/a", "-d", "/b")) == ("/a", "/b")


def test_nri_settings_in_a_file_that_is_not_read_are_reported(machine: Machine) -> None:
    machine.write(DEFAULT_CONFIG, "[crio]")
    machine.write("/etc/crio/nri.conf", "[crio.nri]\nenable_nri = true\nx = 1")
    machine.write("/etc/crio/conf.d/nri.toml", "[crio.nri]\nnri_listen = '/x'")
    assert read_crio(machine.host).orphans == (
        Orphan("/etc/crio/nri.conf", "[crio.nri]", ("enable_nri",)),
        Orphan("/etc/crio/conf.d/nri.toml", "[crio.nri]", ("nri_listen",)),
    )


SETTING = "[crio.nri]\nenable_nri = true\nnri_listen = '/x'"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        # Left by package managers, editors and users; not meant to be read.
        *((f"crio.conf.{end}", SETTING) for end in ("rpmnew", "rpmsave", "bak", "dpkg-dist", "1")),
        *((f"crio.conf{end}", SETTING) for end in ("~", "-old", ".swp")),
        (".crio.conf", SETTING),
        ("#crio.conf#", SETTING),
        # Other files in CRI-O's folder.
        ("seccomp.json", '{"names": ["nri"]}'),
        ("policy.json", '{"transports": {"docker": {"nri.example.org": []}}}'),
        ("crio-umount.conf", "/run/nri\n/var/lib/containers/*"),
        ("README.md", SETTING),
        ("check-nri.sh", "crictl info | grep nri"),
        # Files without NRI settings, or with settings that change nothing.
        ("runtime.conf", "[crio.runtime]\nselinux = true\nhooks_dir = ['/opt/nri/hooks']"),
        ("empty.conf", "[crio.nri]"),
        ("unknown.conf", "[crio.nri]\nnri_socket = '/x'"),
        ("copy.conf", "[crio.nri]\nnri_plugin_dir = '/p'\nnri_disable_connections = false"),
    ],
)
def test_other_files_beside_the_configuration_are_not_reported(
    machine: Machine, name: str, text: str
) -> None:
    main = "[crio.nri]\nnri_plugin_dir = '/p'\nnri_disable_connections = false"
    machine.write(DEFAULT_CONFIG, main)
    machine.write(f"/etc/crio/{name}", text)
    assert read_crio(machine.host).orphans == ()


def test_a_link_in_place_of_the_drop_in_folder_keeps_cri_o_from_starting(machine: Machine) -> None:
    machine.write("/elsewhere/10.conf", "[crio.nri]\nenable_nri = true")
    machine.at(DEFAULT_DROP_INS)
    machine.link(DEFAULT_DROP_INS, "/elsewhere")
    config = read_crio(machine.host)
    (problem,) = config.problems
    assert (problem.file, problem.fatal) == (DEFAULT_DROP_INS, True)
    assert config.enabled is None


@pytest.mark.parametrize("text", ["", "# kept for git\n"])
def test_an_empty_file_among_drop_ins_is_not_reported(machine: Machine, text: str) -> None:
    machine.write(f"{DEFAULT_DROP_INS}/.gitkeep", text)
    assert read_crio(machine.host).problems == ()


def test_keys_match_in_any_case(machine: Machine) -> None:
    machine.write(DEFAULT_CONFIG, "[crio.nri]\nEnable_NRI = true")
    config = read_crio(machine.host)
    assert config.enabled is not None and config.enabled.value is True
    assert config.misplaced == ()
