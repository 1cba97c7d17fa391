# SPDX-License-Identifier: Apache-2.0
"""Deprecation warnings of a real containerd, and other logs."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from nri_scope.doctor.examine import LOG_MAX, check_deprecations

from .machine import Machine


def line(plugin: str, event: str) -> str:
    """Return a warning as containerd 2.4.2 has logged it."""
    return (
        'time="2026-11-23T20:41:12.794519820Z" level=warning msg="NRI plugin uses a deprecated '
        f'interface." deprecated=StateChange details="does not implement a dedicated {event} RPC '
        f'call" plugin={plugin}\n'
    )


LOG = "".join(
    [
        'time="2026-11-23T20:40:50.220533752Z" level=info msg="synchronizing plugin 20-oldstyle"\n',
        line("20-oldstyle", "RunPodSandbox"),
        line("20-oldstyle", "StartContainer"),
        line("20-oldstyle", "RunPodSandbox"),
        line('"30-\\"odd\\""', "StopPodSandbox"),
    ]
)


def details(machine: Machine, log: str | None, started_at: float | None = None) -> list[str]:
    machine.process(100, "containerd")
    if log is not None:
        machine.write("/var/log/containerd.log", log)
        machine.link("/proc/100/fd/2", "/var/log/containerd.log")
    else:
        machine.link("/proc/100/fd/2", "socket:[4711]")
    return [check.detail for check in check_deprecations(machine.host, 100, started_at)]


def test_each_plugin_is_named_with_its_events(machine: Machine) -> None:
    assert details(machine, LOG) == [
        "by the runtime's log, 20-oldstyle has used the deprecated StateChange for RunPodSandbox, "
        "StartContainer",
        r"by the runtime's log, 30-\"odd\" has used the deprecated StateChange for StopPodSandbox",
    ]


def test_warnings_of_the_nri_library_are_read(machine: Machine) -> None:
    # As refruntime of tests/interop/go has logged it, on NRI 0.12.5.
    log = (
        'time="2026-11-23T21:24:01Z" level=warning msg="plugin 20-oldstyle uses deprecated '
        'StateChange instead of a dedicated RunPodSandbox RPC call"\n'
        'time="2026-11-23T21:24:01Z" level=warning msg="please update 20-oldstyle with a newer '
        'version of NRI for future compatibility"\n'
    )
    (detail,) = details(machine, log)
    assert detail.endswith("20-oldstyle has used the deprecated StateChange for RunPodSandbox")


def test_a_log_in_json_is_read(machine: Machine) -> None:
    entry = {
        "deprecated": "StateChange",
        "details": "does not implement a dedicated RunPodSandbox RPC call",
        "level": "warning",
        "msg": "NRI plugin uses a deprecated interface.",
        "plugin": "20-oldstyle",
    }
    (detail,) = details(machine, json.dumps(entry) + "\n")
    assert "20-oldstyle has used the deprecated StateChange for RunPodSandbox" in detail


def test_the_end_of_a_long_log_is_read(machine: Machine) -> None:
    long = line("10-early", "RunPodSandbox") + "x" * 100 + "\n" + "y\n" * (LOG_MAX // 2) + LOG
    found = details(machine, long)
    assert len(found) == 2 and "20-oldstyle" in found[0]


def test_other_logs_have_no_warnings(machine: Machine) -> None:
    other = line("10-a", "RunPodSandbox").replace("deprecated=StateChange", "deprecated=New")
    text = f"{other}{{\n[[[[\nNRI plugin uses a deprecated interface.\n"
    assert details(machine, text) == []


def test_warnings_inside_of_other_messages_are_not_read(machine: Machine) -> None:
    inner = "plugin 66-forged uses deprecated StateChange instead of a dedicated StopContainer RPC"
    log = (
        f'level=info msg="20-thing: {inner}"\n'
        f'level=info msg="20-thing: msg=\\"{inner}\\""\n'
        f'level=info msg=failed error="msg=\\"{inner}\\" x"\n'
        + json.dumps({"msg": f"20-thing: {inner}"})
        + "\n"
    )
    assert details(machine, log) == []


@pytest.mark.parametrize("as_json", [False, True])
def test_warnings_of_an_earlier_process_are_not_read(as_json: bool, machine: Machine) -> None:
    restarted = datetime(2026, 11, 23, 20, 41, 30, tzinfo=UTC).timestamp()
    message = "plugin 30-new uses deprecated StateChange instead of a dedicated StopContainer RPC"
    times = ("2026-11-23T20:41:12.794519820Z", "2026-11-23T22:41:35.794519820+02:00", "", "x")
    lines = [
        {"time": time, "msg": message.replace("new", str(at))} for at, time in enumerate(times)
    ]
    texts = [
        json.dumps(one) if as_json else f'time="{one["time"]}" level=warning msg="{one["msg"]}"'
        for one in lines
    ]
    found = details(machine, "\n".join(texts), restarted)
    assert [one.split()[4] for one in found] == ["30-1", "30-2", "30-3"]


def test_a_log_that_cannot_be_read_has_no_warnings(machine: Machine) -> None:
    assert details(machine, None) == []
