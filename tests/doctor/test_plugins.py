# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os

from nri_scope.doctor.check import Check, Health
from nri_scope.doctor.plugins import check_plugins, look_at_plugins
from nri_scope.nri.identity import ORIGINALS_FOLDER

from .machine import Machine

PLUGINS, CONFIGS = "/opt/nri/plugins", "/etc/nri/conf.d"


def examine(
    machine: Machine, *, started_at: float | None = None, runtime: str = "containerd"
) -> list[Check]:
    folder = look_at_plugins(machine.host, PLUGINS, CONFIGS)
    return check_plugins(folder, started_at=started_at, runtime=runtime)


def plugin(machine: Machine, name: str, mode: int = 0o755) -> None:
    machine.write(f"{PLUGINS}/{name}", "#!/bin/sh\n", mode=mode)


def findings(checks: list[Check]) -> list[tuple[Health, str]]:
    return [(check.status, check.detail) for check in checks if check.status is not Health.OK]


def test_a_missing_folder_is_ok(machine: Machine) -> None:
    (check,) = examine(machine)
    assert check.status is Health.OK
    assert "no plugins for the runtime" in check.detail


def test_valid_plugins_with_configuration_are_ok(machine: Machine) -> None:
    plugin(machine, "10-a")
    plugin(machine, "20-b")
    machine.write("/usr/bin/c", "#!/bin/sh\n", mode=0o755)
    machine.link(f"{PLUGINS}/30-c", "/usr/bin/c")
    machine.write(f"{CONFIGS}/10-a.conf")
    machine.write(f"{CONFIGS}/b.conf")
    (check,) = examine(machine)
    assert (check.status, check.detail) == (
        Health.OK,
        f"the runtime starts 10-a, 20-b, 30-c in {PLUGINS}",
    )


def test_webassembly_is_named_as_such(machine: Machine) -> None:
    plugin(machine, "10-a")
    machine.write(f"{PLUGINS}/50-policy", "\0asm\1\0\0\0", mode=0o755)
    machine.write("/usr/lib/other.wasm", "\0asm\1\0\0\0", mode=0o755)
    machine.link(f"{PLUGINS}/60-linked", "/usr/lib/other.wasm")
    # Not WebAssembly, regardless of its name.
    plugin(machine, "70-shell.wasm")
    checks = examine(machine)
    assert not findings(checks)
    named = [check.detail for check in checks if "WebAssembly" in check.detail]
    assert [detail.split(" is ")[0] for detail in named] == [
        f"{PLUGINS}/50-policy",
        f"{PLUGINS}/60-linked",
    ]
    assert "cannot be recorded or tapped" in named[0]


def test_one_invalid_name_stops_all_plugins(machine: Machine) -> None:
    plugin(machine, "10-a")
    plugin(machine, "logger")
    checks = examine(machine)
    ((status, detail),) = findings(checks)
    assert status is Health.FAIL
    assert f"{PLUGINS}/logger" in detail
    assert "no plugin starts" in detail
    # No check claims that plugins are started.
    assert len(checks) == 1


def test_isulad_starts_plugins_that_have_a_configuration_file(
    machine: Machine,
) -> None:
    for name in ("10-a", "20-b", "20-a", "logger"):
        plugin(machine, name)
    for name in ("10-a.conf", "20-a.conf", "b.conf"):
        machine.write(f"{CONFIGS}/{name}")
    machine.link(f"{PLUGINS}/30-gone", "/nowhere")
    checks = examine(machine, runtime="isulad")
    (check,) = [check for check in checks if check.status is Health.OK]
    assert check.detail == f"the runtime starts one of 10-a and 20-a in {PLUGINS}"
    details = "\n".join(detail for _, detail in findings(checks))
    assert {status for status, _ in findings(checks)} == {Health.WARN}
    for words in (
        f"{PLUGINS}/logger is skipped",
        f"{PLUGINS}/30-gone is a broken link",
        "a exists 2 times, with index 10, 20: one of them runs",
        f"20-b is not started: {CONFIGS}/20-b.conf does not exist",
        f"{CONFIGS}/b.conf belongs to no plugin",
    ):
        assert words in details
    assert "same index" not in details


def test_plugins_are_not_started_where_nri_is_off(machine: Machine) -> None:
    plugin(machine, "10-a")
    folder = look_at_plugins(machine.host, PLUGINS, CONFIGS)
    (check,) = check_plugins(folder, runtime="containerd", off=True)
    assert check.detail == f"NRI is off: the plugins in {PLUGINS} are not started"


def test_files_that_are_not_executable_are_skipped(machine: Machine) -> None:
    plugin(machine, "10-a", 0o644)
    for name in ("README", "10-a.conf", "10-a~", "10-a.bak", "20-notes.md"):
        plugin(machine, name, 0o644)
    ((status, detail),) = findings(examine(machine))
    assert (status, "10-a is not executable" in detail) == (Health.WARN, True)


def test_subfolders_are_skipped(machine: Machine) -> None:
    machine.at(f"{PLUGINS}/10-a").mkdir()
    machine.at(f"{PLUGINS}/disabled").mkdir()
    ((status, detail),) = findings(examine(machine))
    assert (status, "is a folder" in detail) == (Health.WARN, True)


def test_the_folder_of_wrapped_plugins_is_not_reported(machine: Machine) -> None:
    machine.at(f"{PLUGINS}/{ORIGINALS_FOLDER}").mkdir()
    assert findings(examine(machine)) == []


def test_plugins_that_cannot_start(machine: Machine) -> None:
    machine.link(f"{PLUGINS}/10-gone", "/nowhere")
    machine.link(f"{PLUGINS}/20-folder", "/opt")
    machine.write("/usr/bin/d", mode=0o644)
    machine.link(f"{PLUGINS}/30-data", "/usr/bin/d")
    machine.write(f"{PLUGINS}/40-empty", mode=0o755)
    found = findings(examine(machine))
    assert [status for status, _ in found] == [Health.FAIL] * 4
    for (_, detail), words in zip(
        found, ("broken link", "regular file", "not executable", "is empty"), strict=True
    ):
        assert words in detail


def test_a_link_with_an_invalid_name_stops_all_plugins(machine: Machine) -> None:
    machine.link(f"{PLUGINS}/x", "/nowhere")
    ((status, detail),) = findings(examine(machine))
    assert (status, "no plugin starts" in detail) == (Health.FAIL, True)


def test_equal_names_and_equal_indices_are_reported(machine: Machine) -> None:
    for name in ("10-a", "20-a", "20-b"):
        plugin(machine, name)
    assert findings(examine(machine)) == [
        (Health.WARN, "a exists 2 times, with index 10, 20: all of them run"),
        (Health.WARN, "a, b have the same index 20: their order is undefined"),
    ]


def test_plugins_that_others_can_write_are_reported(machine: Machine) -> None:
    plugin(machine, "10-a", 0o777)
    machine.at(PLUGINS).chmod(0o775)
    found = findings(examine(machine))
    assert [status for status, _ in found] == [Health.WARN] * 2
    assert all("run as root" in detail or "runs as root" in detail for _, detail in found)


def test_plugins_newer_than_the_runtime_are_reported(machine: Machine) -> None:
    plugin(machine, "10-a")
    changed = os.lstat(machine.at(f"{PLUGINS}/10-a")).st_ctime
    assert not findings(examine(machine, started_at=changed))
    ((_, detail),) = findings(examine(machine, started_at=changed - 60))
    assert "after the start of the runtime" in detail


def test_unused_configuration_is_reported(machine: Machine) -> None:
    plugin(machine, "10-a")
    plugin(machine, "20-off", 0o644)
    for name in ("10-a.conf", "a.conf", "off.conf", "10-a.yaml", "11-a.conf", "10-a.conf.bak"):
        machine.write(f"{CONFIGS}/{name}")
    details = [detail for _, detail in findings(examine(machine))]
    for name in ("10-a.yaml", "11-a.conf", "off.conf"):
        text = f"{CONFIGS}/{name} belongs to no plugin in {PLUGINS} and is not used"
        assert text in details
    assert "a.conf is not used for 10-a: 10-a.conf takes precedence" in details
    assert len(details) == 5


def test_unreadable_configuration_stops_all_plugins(machine: Machine) -> None:
    plugin(machine, "10-a")
    plugin(machine, "20-b")
    machine.at(f"{CONFIGS}/a.conf").mkdir()
    machine.link(f"{CONFIGS}/b.conf", "/nowhere")
    found = findings(examine(machine))
    assert [status for status, _ in found] == [Health.FAIL, Health.WARN]
    assert "starts no plugin" in found[0][1]


def test_only_the_configuration_in_use_is_a_failure(machine: Machine) -> None:
    plugin(machine, "10-a")
    plugin(machine, "20-b")
    machine.write(f"{CONFIGS}/10-a.conf")
    machine.at(f"{CONFIGS}/a.conf").mkdir()
    machine.link(f"{CONFIGS}/20-b.conf", "/nowhere")
    machine.write(f"{CONFIGS}/b.conf")
    assert findings(examine(machine)) == [
        (Health.WARN, "a.conf is not used for 10-a: 10-a.conf takes precedence"),
        (Health.WARN, f"{CONFIGS}/20-b.conf is a broken link"),
    ]


def test_a_link_to_an_inaccessible_file_is_unknown(machine: Machine, unprivileged: None) -> None:
    machine.write("/hidden/a", "#!/bin/sh\n", mode=0o755)
    machine.link(f"{PLUGINS}/10-a", "/hidden/a")
    machine.at("/hidden").chmod(0)
    ((status, detail),) = findings(examine(machine))
    assert (status, detail) == (Health.UNKNOWN, f"{PLUGINS}/10-a: permission denied")
    machine.at("/hidden").chmod(0o700)


def test_inaccessible_folders_are_unknown(machine: Machine, unprivileged: None) -> None:
    machine.at(f"{PLUGINS}/x")
    machine.at(PLUGINS).chmod(0)
    (check,) = examine(machine)
    assert check.status is Health.UNKNOWN
    machine.root.joinpath("opt/nri/plugins").chmod(0o700)
