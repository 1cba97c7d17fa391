# SPDX-License-Identifier: Apache-2.0
"""``doctor --install`` never contradicts ``doctor``, on generated machines."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from nri_scope.doctor.check import Check, Health
from nri_scope.doctor.examine import examination
from nri_scope.doctor.host import ProgramVersion
from nri_scope.doctor.install import Plan, Program, plan

from .machine import BOOT, Machine

PROGRAM = Program("/opt/nri-scope/bin/nri-scope")
FILES = ("00-nri-scope", "00-nri-scope.conf", "10-a", "50", "bad", "20-empty")
RUNTIMES = {"containerd": ("1.7.24", "2.1.9"), "crio": ("1.29.0", "1.37.0"), "isulad": ("2.1.6",)}


def configuration(runtime: str, on: bool | None, connections: bool | None) -> tuple[str, str]:
    """Return the path and the content of a runtime's configuration; None: not set."""
    settings: dict[str, bool] = {}
    if runtime == "isulad":
        settings |= {} if on is None else {"nri-support": on}
        settings |= {} if connections is None else {"disable-connections": not connections}
        return "/etc/isulad/daemon.json", json.dumps(settings)
    is_crio = runtime == "crio"
    if on is not None:
        settings["enable_nri" if is_crio else "disable"] = on == is_crio
    if connections is not None:
        settings[f"{'nri_' if is_crio else ''}disable_connections"] = not connections
    lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items())
    if is_crio:
        return "/etc/crio/crio.conf", f"[crio.nri]\n{lines}"
    table = '[plugins."io.containerd.nri.v1.nri"]'
    return "/etc/containerd/config.toml", f"version = 2\n{table}\n{lines}"


@st.composite
def machines(draw: st.DrawFn) -> tuple[list[Check], Plan]:
    """What doctor prints of a machine, and what it says to install."""
    with tempfile.TemporaryDirectory() as name:
        machine = Machine(Path(name))
        runtime = draw(st.sampled_from(["", *RUNTIMES]))
        version = ""
        if runtime:
            version = draw(st.sampled_from(RUNTIMES[runtime]))
            path, content = configuration(
                runtime, *(draw(st.sampled_from([None, True, False])) for _ in range(2))
            )
            content = draw(st.sampled_from([content, content, content, "[broken"]))
            machine.write(path, content)
            if draw(st.booleans()):
                machine.process(7, runtime, program=f"/usr/bin/{runtime}")
        if draw(st.booleans()):
            machine.at("/run/systemd/system/x")
        if draw(st.booleans()):
            machine.process(3, "kubelet")
        for file in draw(st.sets(st.sampled_from(FILES))):
            if file.endswith(".conf"):
                machine.write(f"/etc/nri/conf.d/{file}")
            elif file == "00-nri-scope":
                machine.write("/opt/nri-scope/bin/nri-scope", "#!", mode=0o755, changed=BOOT)
                machine.link(f"/opt/nri/plugins/{file}", "/opt/nri-scope/bin/nri-scope")
            else:
                text = "" if file == "20-empty" else "#!"
                machine.write(f"/opt/nri/plugins/{file}", text, mode=0o755)
        found = examination(machine.host, version_of=lambda pid: ProgramVersion(version))
        return found.checks, plan(machine.host, found.installations, found.checks, PROGRAM)


@settings(max_examples=100, deadline=None)
@given(machines())
def test_what_is_said_to_work_has_no_failed_check(found: tuple[list[Check], Plan]) -> None:
    checks, planned = found
    failed = {check.name for check in checks if check.status is Health.FAIL}
    details = " ".join(check.detail for check in checks)
    ways = {way.name: way.problem for way in planned.ways}
    chosen = planned.recommended
    if planned.exit_status == 0:
        assert not any(name.endswith("-enabled") for name in failed)
        assert not failed & {"containerd-config", "cri-o-config", "isulad-config"}
    if chosen == "plugin":
        assert not failed & {"plugin", "plugin-config"}
    if chosen in ("unit", "daemonset") and not planned.first:
        assert not failed & {"socket", "listener", "registration"}
        assert not any(name.endswith("-connections") for name in failed)
    if planned.is_installed:
        assert "00-nri-scope is not started" not in details
        assert not failed & {"plugin", "plugin-config"}
        started = re.search(r"the (?:runtime starts|plugins in) ([^;]*)", details)
        assert started is not None
    assert not chosen or ways[chosen] == ""
    assert all(check in checks for check in planned.first)
