# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
from pathlib import Path

from nri_scope.doctor.host import Host, RuntimeProcess, option, process_name, running_runtimes

from .machine import BOOT, Machine


def test_runtimes_are_found_by_name_with_command_line_and_start(machine: Machine) -> None:
    machine.process(77, "crio", program="/usr/bin/crio (deleted)")
    machine.process(
        9, "containerd", "-c", "/x.toml", program="/usr/bin/containerd", started=BOOT + 7
    )
    machine.process(10, "containerd-shim")
    assert running_runtimes(machine.host) == (
        RuntimeProcess(
            "containerd", 9, ("-c", "/x.toml"), "/usr/bin/containerd", False, BOOT + 7.0
        ),
        RuntimeProcess("cri-o", 77, (), "/usr/bin/crio", True, BOOT + 100.0),
    )


def test_a_runtime_with_another_root_folder_is_ignored(machine: Machine) -> None:
    machine.process(9, "containerd")
    machine.link("/proc/9/root", str(machine.root))
    machine.process(10, "containerd")
    machine.link("/proc/10/root", str(machine.root / "proc"))
    assert [process.pid for process in running_runtimes(machine.host)] == [9]


def test_inaccessible_process_details_are_empty(machine: Machine) -> None:
    assert running_runtimes(machine.host) == ()
    machine.write("/proc/5/comm", "isulad\n")
    (process,) = running_runtimes(machine.host)
    assert (process.arguments, process.program, process.started_at) == ((), "", None)
    assert process_name(machine.host, 6) == ""


def test_this_process_s_name_is_read_from_the_real_proc() -> None:
    name = Path("/proc/self/comm").read_text().strip()
    assert process_name(Host(), os.getpid()) == name


def test_options_are_read_in_every_spelling() -> None:
    arguments = ("--a", "1", "--b=2", "-a=3", "--last")
    assert option(arguments, "--a") == "1"
    assert option(arguments, "--a", "-a") == "3"
    assert option(arguments, "--b") == "2"
    assert option(arguments, "--last") is None
