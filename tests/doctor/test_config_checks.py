# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import pytest

from nri_scope.doctor.check import Check, Health
from nri_scope.doctor.config_checks import Installation, check_installation
from nri_scope.doctor.containerd import read_containerd
from nri_scope.doctor.crio import read_crio
from nri_scope.doctor.host import RuntimeProcess
from nri_scope.doctor.settings import FileProblem, Misplaced, NriConfig, Orphan, Setting
from nri_scope.doctor.sockets import Registration
from nri_scope.nri.runtime_setup import Introduction
from nri_scope.nri.versions import known_version

from .machine import Machine

FILE = "/etc/x.toml"
CONTAINERD = NriConfig("containerd", (FILE,), enabling="ON", connecting="OPEN", nri_table="[table]")
CRI_O = replace(CONTAINERD, runtime="cri-o")
ISULAD = replace(CONTAINERD, runtime="isulad")
SERVING = Registration(
    configured=True,
    synchronized=True,
    runtime=Introduction(
        "containerd", "2.1.9", registration_timeout_ms=5000, request_timeout_ms=2000
    ),
)


def setting(value: object) -> Setting:
    return Setting(value, FILE, "key", "[table]")


def checks_named(installation: Installation, name: str) -> list[Check]:
    return [check for check in check_installation(installation) if check.name.endswith(name)]


def only_check(installation: Installation, name: str) -> Check:
    (check,) = checks_named(installation, name)
    return check


@pytest.mark.parametrize(
    ("config", "version", "status", "words"),
    [
        (CONTAINERD, "1.6.20", Health.FAIL, "too old"),
        (CONTAINERD, "1.7.24~ds1", Health.FAIL, "off by default in containerd 1.7.24~ds1"),
        (CONTAINERD, "2.0.0-rc.1", Health.OK, "on by default"),
        (CONTAINERD, "2.1.9+unknown", Health.OK, "NRI 0.8.0"),
        (CONTAINERD, "", Health.UNKNOWN, "on by default since 2.0"),
        (CRI_O, "1.25.3", Health.FAIL, "too old"),
        (CRI_O, "1.29.13", Health.FAIL, "off by default in CRI-O"),
        (CRI_O, "1.30.0", Health.OK, "on by default"),
        (ISULAD, "2.1.5", Health.FAIL, "off by default in iSulad"),
    ],
)
def test_enabled_defaults_to_the_version_s_default(
    config: NriConfig, version: str, status: Health, words: str
) -> None:
    check = only_check(Installation(config, version, None), "-enabled")
    assert check.status is status
    assert words in check.detail


def test_configuration_enables_and_disables_nri() -> None:
    on = only_check(
        Installation(replace(CONTAINERD, enabled=setting(True)), "1.7.1", None), "-enabled"
    )
    assert on.status is Health.OK
    off = only_check(
        Installation(replace(CONTAINERD, enabled=setting(False)), "2.1.0", None), "-enabled"
    )
    assert off.status is Health.FAIL
    assert off.detail == f"NRI is disabled: key in [table] of {FILE}"
    assert off.fix == f"add these lines to {FILE}, and restart containerd"
    assert off.config == "[table]\n  ON"
    odd = only_check(
        Installation(replace(CONTAINERD, enabled=setting("no")), "2.1.0", None), "-enabled"
    )
    assert odd.status is Health.FAIL
    assert "neither true nor false" in odd.detail


def test_configuration_that_takes_effect_after_a_restart_is_a_warning() -> None:
    config = replace(CONTAINERD, enabled=setting(False), connections=setting(False))
    installation = Installation(config, "2.1.9", None, SERVING)
    assert only_check(installation, "-enabled").status is Health.WARN
    assert only_check(installation, "-connections").status is Health.WARN


def test_unreadable_configuration_is_unknown() -> None:
    config = replace(CONTAINERD, files=(), unreadable=((FILE, "permission denied"),))
    installation = Installation(config, "1.7.1", None)
    assert only_check(installation, "-enabled").status is Health.UNKNOWN
    assert only_check(installation, "-config").status is Health.UNKNOWN


def test_settings_that_an_unreadable_file_may_override_are_unknown() -> None:
    config = replace(
        CRI_O,
        enabled=setting(True),
        connections=setting(False),
        request_timeout=setting("5"),
        unreadable=(("/etc/99.conf", "permission denied"),),
    )
    for name in ("-enabled", "-connections", "-timeouts"):
        check = only_check(Installation(config, "1.35.0", None), name)
        assert check.status is Health.UNKNOWN
        assert "a file that could not be read" in check.detail
    # A runtime that serves plugins has NRI on.
    assert only_check(Installation(config, "1.35.0", None, SERVING), "-enabled").status is Health.OK


def test_a_parse_error_in_a_file_older_than_the_runtime_is_a_warning() -> None:
    problem = FileProblem(FILE, "CRI-O does not start with it: …", True, "correct it", 1000.0)
    config = replace(CRI_O, files=(), problems=(problem,))
    for started, status in ((999.0, Health.FAIL), (1001.0, Health.WARN)):
        process = RuntimeProcess("cri-o", 7, (), "/usr/bin/crio", False, started)
        check = only_check(Installation(config, "1.37.0", process), "-config")
        assert check.status is status


def test_disabled_external_connections_are_a_failure() -> None:
    check = only_check(
        Installation(replace(CONTAINERD, connections=setting(False)), "2.1.0", None), "-connections"
    )
    assert check.status is Health.FAIL
    assert check.config == "[table]\n  OPEN"
    opened = replace(CONTAINERD, connections=setting(True))
    assert only_check(Installation(opened, "2.1.0", None), "-connections").status is Health.OK


@pytest.mark.parametrize(
    ("config", "value", "status", "words"),
    [
        (CONTAINERD, "3s", Health.OK, "request timeout 3 s"),
        (CONTAINERD, "0", Health.OK, "default of 2 s"),
        (CONTAINERD, "20ms", Health.WARN, "even short delays disconnect"),
        (CONTAINERD, "5", Health.FAIL, "not a duration"),
        (CONTAINERD, 5, Health.FAIL, "not a duration"),
        (CRI_O, 2, Health.FAIL, "not a duration"),
        (ISULAD, 3, Health.OK, "request timeout 3 s"),
        (ISULAD, True, Health.FAIL, "not a duration"),
    ],
)
def test_timeouts(config: NriConfig, value: object, status: Health, words: str) -> None:
    config = replace(config, request_timeout=setting(value))
    check = only_check(Installation(config, "", None), "-timeouts")
    assert check.status is status
    assert words in check.detail


def test_timeouts_are_compared_with_the_runtime_s() -> None:
    config = replace(CONTAINERD, request_timeout=setting("10s"))
    check = only_check(Installation(config, "2.1.9", None, SERVING), "-timeouts")
    assert (check.status, check.fix) == (
        Health.WARN,
        "restart containerd to apply it",
    )
    assert "is 10 s, but the runtime uses 2 s" in check.detail

    slow = replace(SERVING, runtime=replace(SERVING.runtime, registration_timeout_ms=60_000))
    check = only_check(Installation(CONTAINERD, "2.1.9", None, slow), "-timeouts")
    assert "registration timeout is 60 s, which no file" in check.detail
    assert not checks_named(Installation(CONTAINERD, "2.1.9", None, SERVING), "-timeouts")


def test_misplaced_keys_problems_and_orphans_are_reported() -> None:
    config = replace(
        CONTAINERD,
        misplaced=(Misplaced(FILE, "[a]", "k", "[b]"), Misplaced(FILE, "[b]", "x", "")),
        problems=(
            FileProblem("/f", "broken", True, "correct it"),
            FileProblem("/g", "odd", False, ""),
        ),
        orphans=(Orphan("/o", "[b]", ("k", "l")),),
    )
    installation = Installation(config, "2.1.0", None)
    assert [(c.status, c.detail, c.fix) for c in checks_named(installation, "-keys")] == [
        (Health.WARN, f"k in [a] of {FILE} has no effect there", "move it to [b]"),
        (
            Health.WARN,
            f"x in [b] of {FILE} is not a known NRI setting; runtimes ignore unknown settings",
            "correct its spelling, or remove it",
        ),
    ]
    assert [c.status for c in checks_named(installation, "-config")] == [
        Health.FAIL,
        Health.WARN,
        Health.OK,
    ]
    orphan = only_check(installation, "-drop-ins")
    assert orphan.detail == "/o sets k, l in [b], but containerd does not read it"
    assert "imports" in orphan.fix


def test_a_missing_file_with_defaults_is_ok() -> None:
    config = replace(CONTAINERD, files=(), missing=FILE)
    check = only_check(Installation(config, "2.1.0", None), "-config")
    assert (check.status, f"{FILE} does not exist" in check.detail) == (Health.OK, True)


def test_changes_after_the_runtime_s_start_need_a_restart() -> None:
    process = RuntimeProcess("containerd", 7, (), "/usr/bin/containerd", False, 1000.0)
    config = replace(CONTAINERD, changed_at=999.0)
    assert not checks_named(Installation(config, "2.1.0", process), "-restart")
    config = replace(CONTAINERD, changed_at=1_700_000_000.0)
    check = only_check(Installation(config, "2.1.0", process), "-restart")
    assert "at 2023-11-14 22:13:20 UTC" in check.detail
    process = replace(process, replaced=True, started_at=None)
    assert "was replaced" in only_check(Installation(config, "2.1.0", process), "-restart").detail


CDI_TABLES = {
    "1.7.24": 'version = 2\n[plugins."io.containerd.grpc.v1.cri"]\n',
    "2.1.9": "version = 3\n[plugins.'io.containerd.cri.v1.runtime']\n",
}


@pytest.mark.parametrize("version", CDI_TABLES)
def test_settings_of_cdi_are_read_from_the_table_of_each_version(
    machine: Machine, version: str
) -> None:
    keys = 'enable_cdi = false\ncdi_spec_dirs = ["/etc/cdi"]\n'
    machine.write("/etc/containerd/config.toml", CDI_TABLES[version] + keys)
    config = read_containerd(machine.host, major=int(version[0]))
    checks = check_installation(Installation(config, version, None))
    folders, is_on = [check for check in checks if check.name == "containerd-cdi"]
    assert (folders.status, is_on.status) == (Health.OK, Health.WARN)
    assert folders.detail.endswith('config.toml is ["/etc/cdi"]')
    assert "plugins cannot add CDI devices" in is_on.detail and is_on.fix


@pytest.mark.parametrize(
    ("version", "drops"),
    [("1.7.25", False), ("1.7.26", True), ("1.7.29", True), ("1.7.30", False), ("2.0.5", True),
     ("2.1.0", False)],
)  # fmt: skip
def test_versions_that_drop_cdi_devices_are_named(version: str, drops: bool) -> None:
    checks = check_installation(Installation(NriConfig("containerd", ()), version, None))
    texts = [check.detail for check in checks if check.name == "containerd-cdi"]
    assert texts == ([f"containerd {version} drops the CDI devices of plugins"] if drops else [])


def test_crio_reads_the_folders_of_cdi(machine: Machine) -> None:
    machine.write("/etc/crio/crio.conf", '[crio.runtime]\ncdi_spec_dirs = ["/a", "/b"]\n')
    checks = check_installation(Installation(read_crio(machine.host), "1.37.0", None))
    (check,) = [check for check in checks if check.name == "cri-o-cdi"]
    assert (check.status, check.detail) == (
        Health.OK,
        'cdi_spec_dirs in [crio.runtime] of /etc/crio/crio.conf is ["/a", "/b"]',
    )


ON = replace(CONTAINERD, enabled=setting(True))


@pytest.mark.parametrize(
    ("config", "version", "names"),
    [
        (ON, "2.1.9", {"containerd#13698", "containerd#13733", "containerd#13609"}),
        (ON, "2.4.2", {"containerd#13698", "nri@91a7760"}),
        (ON, "1.7.35", {"containerd#13733"}),
        # NRI is off by default.
        (CONTAINERD, "1.7.35", set()),
        (replace(CONTAINERD, enabled=setting(False)), "2.1.9", set()),
        (ON, "", set()),
        (CRI_O, "1.36.3", {"cri-o#10090"}),
        (CRI_O, "1.31.0", {"cri-o#10090", "nri#102", "nri#103"}),
    ],
)
def test_known_bugs_of_this_version_are_notes(
    config: NriConfig, version: str, names: set[str]
) -> None:
    notes = checks_named(Installation(config, version, None), "-defects")
    assert {note.detail.rpartition(" (")[2].partition(",")[0] for note in notes} == names
    assert all(note.status is Health.NOTE and not note.fix for note in notes)
    assert all("https://" in note.detail for note in notes)


def test_the_nri_that_the_runtime_reported_counts() -> None:
    for nri, expected in (("0.12.0", True), ("0.12.1", False)):
        runtime = replace(SERVING.runtime, version=known_version(nri))
        registered = replace(SERVING, runtime=runtime)
        notes = checks_named(Installation(ON, "2.3.7", None, registered), "-defects")
        assert any("containerd#13733" in note.detail for note in notes) is expected
