# SPDX-License-Identifier: Apache-2.0
"""The configuration that doctor prints, followed literally, enables NRI."""

from __future__ import annotations

import json

import pytest

from nri_scope.doctor.check import Check, Health, as_text
from nri_scope.doctor.config_checks import Installation, check_installation
from nri_scope.doctor.containerd import read_containerd
from nri_scope.doctor.crio import read_crio
from nri_scope.doctor.isulad import read_isulad

from .machine import Machine

CONTAINERD, CRIO = "/etc/containerd/config.toml", "/etc/crio/crio.conf"
DROP_IN = "/etc/crio/crio.conf.d/99-nri.conf"
ISULAD = "/etc/isulad/daemon.json"
RANCHER, OF_AGENT = "/var/lib/rancher", "/agent/etc/containerd"
MICROK8S = "/var/snap/microk8s/7/args"
NRI = '[plugins."io.containerd.nri.v1.nri"]'


def checks(machine: Machine, runtime: str, version: str) -> list[Check]:
    match runtime:
        case "containerd":
            config = read_containerd(machine.host, major=int(version[0]))
        case "cri-o":
            config = read_crio(machine.host)
        case _:
            config = read_isulad(machine.host)
    found = check_installation(Installation(config, version, None))
    names = ("-enabled", "-connections")
    return [one for one in found if one.name.endswith(names) and one.status is not Health.OK]


@pytest.mark.parametrize(
    ("file", "version", "template", "restart"),
    [
        (f"{RANCHER}/k3s{OF_AGENT}/config.toml", "1.7.24", "config.toml.tmpl", "k3s"),
        (f"{RANCHER}/rke2{OF_AGENT}/config.toml", "2.1.9", "config-v3.toml.tmpl", "rke2"),
        (f"{MICROK8S}/containerd.toml", "1.7.24", "containerd-template.toml", "microk8s"),
    ],
)
def test_a_generated_configuration_is_changed_in_its_template(
    machine: Machine, file: str, version: str, template: str, restart: str
) -> None:
    folder, _, name = file.rpartition("/")
    machine.write(f"{folder}/{name}", f"version = 2\n{NRI}\n  disable = true\n")
    config = read_containerd(machine.host, f"{folder}/{name}", int(version[0]))
    (check,) = (
        one
        for one in check_installation(Installation(config, version, None))
        if one.name.endswith("-enabled")
    )
    assert check.fix.startswith(f"set this in {folder}/{template}")
    assert check.fix.endswith(f"the template of {folder}/{name}, and restart {restart}")
    assert check.config == f"{NRI}\n  disable = false"


@pytest.mark.parametrize(
    ("runtime", "version", "file", "content", "fix", "config"),
    [
        (
            *("containerd", "1.7.24", CONTAINERD, None),
            f"create {CONTAINERD} with these lines, and restart containerd",
            f"version = 2\n{NRI}\n  disable = false",
        ),
        (
            *("containerd", "1.7.24", CONTAINERD, "version = 2\n"),
            f"add these lines to {CONTAINERD}, and restart containerd",
            f"{NRI}\n  disable = false",
        ),
        (
            *("containerd", "1.7.24", CONTAINERD, "[grpc]\n"),
            f"add these lines to {CONTAINERD}, and restart containerd",
            "[plugins.nri]\n  disable = false",
        ),
        (
            *("containerd", "1.7.24", CONTAINERD, f'version = 2\n{NRI}\n  socket_path = "/s"\n'),
            f"set this in the table of {CONTAINERD}, and restart containerd",
            f"{NRI}\n  disable = false",
        ),
        (
            *("containerd", "2.1.9", CONTAINERD, f"version = 3\n{NRI}\n  disable = true\n"),
            f"set this in the table of {CONTAINERD}, and restart containerd",
            f"{NRI}\n  disable = false",
        ),
        (
            *("containerd", "2.1.9", CONTAINERD),
            f"version = 3\n{NRI}\n  disable_connections = true\n",
            f"set this in the table of {CONTAINERD}, and restart containerd",
            f"{NRI}\n  disable_connections = false",
        ),
        (
            *("cri-o", "1.29.1", CRIO, None),
            f"create {DROP_IN} with these lines, and restart CRI-O",
            "[crio.nri]\n  enable_nri = true",
        ),
        (
            *("cri-o", "1.35.0", CRIO, "[crio.nri]\nenable_nri = false\n"),
            f"create {DROP_IN} with these lines, and restart CRI-O",
            "[crio.nri]\n  enable_nri = true",
        ),
        (
            *("cri-o", "1.35.0", DROP_IN, "[crio.nri]\nnri_disable_connections = true\n"),
            f"set this in the table of {DROP_IN}, and restart CRI-O",
            "[crio.nri]\n  nri_disable_connections = false",
        ),
        (
            *("isulad", "2.1.5", ISULAD, "{}"),
            f"add this member to the JSON object in {ISULAD}, and restart iSulad",
            '"nri-support": true',
        ),
        (
            *("isulad", "2.1.5", ISULAD, '{"nri-support": false}'),
            f"change this member of the JSON object in {ISULAD}, and restart iSulad",
            '"nri-support": true',
        ),
        (
            *("isulad", "2.1.5", ISULAD, None),
            f"create {ISULAD} with this content, and restart iSulad",
            '{\n  "nri-support": true\n}',
        ),
    ],
)
def test_the_lines_to_add_make_the_check_pass(
    machine: Machine,
    runtime: str,
    version: str,
    file: str,
    content: str | None,
    fix: str,
    config: str,
) -> None:
    if content is not None:
        machine.write(file, content)
    (check,) = checks(machine, runtime, version)
    assert check.status is Health.FAIL
    assert (check.fix, check.config) == (fix, config)
    named = next(word for word in fix.split() if word.startswith("/")).rstrip(",")
    machine.write(named, edited("" if fix.startswith("create ") else content or "", config))
    assert checks(machine, runtime, version) == []


def edited(content: str, config: str) -> str:
    """Return the file's content after an administrator has followed the fix."""
    if content.startswith("{") or config.startswith('"'):
        return json.dumps({**json.loads(content), **json.loads(f"{{{config}}}")})
    header, _, line = config.rpartition("\n")
    if header and header in content:
        key = line.split("=")[0].strip()
        kept = [one for one in content.splitlines() if one.split("=")[0].strip() != key]
        kept.insert(kept.index(header) + 1, line)
        return "\n".join(kept) + "\n"
    return f"{content}{config}\n"


def test_an_unknown_version_has_the_lines_for_older_ones(machine: Machine) -> None:
    config = read_containerd(machine.host)
    (check,) = [one for one in check_installation(Installation(config, "", None)) if one.config]
    assert check.fix == (
        f"check the version of containerd; before 2.0, create {CONTAINERD} with these lines, and "
        "restart containerd"
    )
    assert check.config == f"version = 2\n{NRI}\n  disable = false"


def test_a_plugin_disabled_by_name_is_removed_from_that_list(machine: Machine) -> None:
    machine.write(CONTAINERD, 'version = 3\ndisabled_plugins = ["io.containerd.nri.v1.nri"]\n')
    (check,) = checks(machine, "containerd", "2.1.9")
    assert (check.fix, check.config) == (
        f"remove NRI from disabled_plugins in {CONTAINERD}, and restart containerd",
        "",
    )


def test_lines_to_add_are_not_wrapped(machine: Machine) -> None:
    (check,) = checks(machine, "containerd", "1.7.24")
    lines = [str(line) for line in as_text([check], width=40)]
    assert lines[-5:-2] == [
        "            version = 2",
        f"            {NRI}",
        "              disable = false",
    ]
