# SPDX-License-Identifier: Apache-2.0
"""Launched plugins."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from nri_scope.errors import ConnectionClosed, UsageError
from nri_scope.runtime.output import Stream
from tests.runtime_emulation.runtime import Runtime

from .profiles import NEW, OLD, patient
from .scripts import ROOT, children, descriptors, executable, is_running
from .scripts import plugin as plugin_program

PLUGIN = f"""#!{sys.executable}
import asyncio, json, os, signal, sys

sys.path.insert(0, {str(ROOT)!r})
from nri_scope._gen.nri.api_pb2 import ConfigureResponse
from tests.runtime_emulation.small_plugin import SmallPlugin

async def main():
    plugin = SmallPlugin("99-registered-otherwise")

    def report(request):
        with open(plugin.configured.config, "w") as output:
            found = {{
                "pid": os.getpid(),
                "environment": dict(os.environ),
                "arguments": sys.argv,
                "standard": [os.readlink(f"/proc/self/fd/{{n}}") for n in (0, 1, 2)],
            }}
            json.dump(found, output)
        return ConfigureResponse()

    plugin.on["Configure"] = report
    plugin.on["CreateContainer"] = lambda request: os._exit(0)
    await plugin.adopt(int(os.environ["NRI_PLUGIN_SOCKET"]))
    await plugin.register()
    await plugin.connected.wait_closed()

asyncio.run(main())
"""


async def test_launched_plugin_gets_descriptor_3_and_three_variables_only(tmp_path: Path) -> None:
    path = executable(tmp_path / "10-launched", PLUGIN)
    report = tmp_path / "report"
    async with Runtime(OLD) as runtime:
        plugin = await runtime.launch(path, config=str(report))
        # The file's name counts, not the registered name.
        assert plugin.id == "10-launched"
        found = json.loads(report.read_text())
        # Python sets LC_CTYPE itself if no locale is set.
        found["environment"].pop("LC_CTYPE", None)
        assert found["environment"] == {
            "NRI_PLUGIN_NAME": "launched",
            "NRI_PLUGIN_IDX": "10",
            "NRI_PLUGIN_SOCKET": "3",
        }
        assert found["arguments"] == [str(path)]
        assert found["standard"][0] == "/dev/null"
        os.kill(found["pid"], 0)
    with pytest.raises(ProcessLookupError):
        os.kill(found["pid"], 0)


async def test_launched_plugin_that_exits_is_reaped(tmp_path: Path) -> None:
    path = executable(tmp_path / "10-launched", PLUGIN)
    report = tmp_path / "report"
    async with Runtime(OLD) as runtime:
        await runtime.launch(path, config=str(report))
        (answer,) = await runtime.send("CreateContainer", b"")
        assert answer.dropped
        await runtime.wait_for(lambda: bool(runtime.former))
        assert not runtime.plugins
    with pytest.raises(ChildProcessError):
        os.waitpid(json.loads(report.read_text())["pid"], os.WNOHANG)


@pytest.mark.parametrize("text", ["#!/bin/sh\nexit 1\n", "#!/bin/sh\nexec sleep 1000\n"])
async def test_launched_plugin_that_never_registers_is_killed(tmp_path: Path, text: str) -> None:
    path = executable(tmp_path / "10-mute", text)
    profile = patient("containerd-1.7", registration_timeout_ms=200)
    async with Runtime(profile) as runtime:
        with pytest.raises(ConnectionClosed, match=r"closed by the peer|no answer"):
            await runtime.launch(path)
        assert [plugin.id for plugin in runtime.former] == ["10-mute"]


async def test_invalid_plugin_file_is_a_usage_error(tmp_path: Path) -> None:
    plain = tmp_path / "10-plain"
    plain.write_text("")
    async with Runtime(OLD) as runtime:
        for path, words in [
            (tmp_path / "nodigits", "is not a name for a plugin file"),
            (plain, "cannot be launched: permission denied"),
            (tmp_path / "10-missing", "cannot be launched: no such file"),
            (executable(tmp_path / "10-text", "just text"), "cannot be launched: exec format"),
        ]:
            with pytest.raises(UsageError, match=words):
                await runtime.launch(path)
        assert not runtime.former


# -- from a command line ------------------------------------------------------------------------


async def test_command_becomes_a_plugin_of_the_given_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    reported: list[tuple[str, str]] = []
    async with Runtime(OLD) as runtime:
        plugin = await runtime.launch_command(
            plugin_program(registered='print(os.environ["MORE"], os.getcwd(), flush=True)'),
            "10",
            "small",
            environment={"MORE": "yes"},
            on_output=lambda stream, line, mono_ns: reported.append((stream, line)),
        )
        assert plugin.id == "10-small"
        assert runtime.plugins == (plugin,)
        (answer,) = await runtime.send("StartContainer", b"")
        assert not answer.dropped
    assert reported == [("stdout", f"yes {tmp_path}")]
    assert plugin.end_reason == "the runtime has ended"
    process = plugin.process
    assert process is not None
    assert (process.exit_words, process.ended_by_us) == ("killed by SIGKILL", True)
    assert process.output.last(Stream.STDOUT, 2) == [f"yes {tmp_path}"]


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (
            "echo starting >&2; echo no configuration >&2; exit 3",
            "closed by the peer: the plugin ended, exit status 3; "
            "its last output: starting | no configuration",
        ),
        ("exit 0", "closed by the peer: the plugin ended, exit status 0"),
        ("kill -SEGV $$", "closed by the peer: the plugin ended, killed by SIGSEGV"),
        # The connection ends before the process.
        (
            "exec 3>&-; sleep 0.1; echo late words >&2; exit 1",
            "closed by the peer: the plugin ended, exit status 1; its last output: late words",
        ),
    ],
)
async def test_plugin_that_ends_early_is_reported_with_its_exit_and_output(
    script: str, reason: str
) -> None:
    async with Runtime(OLD) as runtime:
        with pytest.raises(ConnectionClosed) as caught:
            await runtime.launch_command(["sh", "-c", script], "10", "early")
        assert str(caught.value) == reason
        (plugin,) = runtime.former
        assert plugin.end_reason == reason
        assert plugin.process is not None
        assert not plugin.process.ended_by_us


async def test_plugin_that_fails_during_an_event_is_reported_with_its_exit_and_output() -> None:
    command = plugin_program(
        registered='plugin.on["StartContainer"] = lambda request: plugin.connected.close()',
        ended='raise RuntimeError("no more")',
    )
    async with Runtime(OLD) as runtime:
        plugin = await runtime.launch_command(command, "10", "failing")
        (answer,) = await runtime.send("StartContainer", b"")
        assert answer.dropped
        await runtime.wait_for(lambda: bool(runtime.former))
        assert plugin.end_reason == (
            "closed by the peer: the plugin ended, exit status 1: RuntimeError: no more"
        )


async def test_dropped_plugin_is_killed() -> None:
    profile = patient("containerd-1.7", request_timeout_ms=200)
    async with Runtime(profile) as runtime:
        plugin = await runtime.launch_command(
            plugin_program(registered='plugin.on["StartContainer"] = lambda request: None'),
            "10",
            "slow",
        )
        (answer,) = await runtime.send("StartContainer", b"")
        assert answer.dropped
        await runtime.wait_for(lambda: bool(runtime.former))
        assert plugin.end_reason == "StartContainer: no answer within 0.2 s"
        assert plugin.process is not None
        assert plugin.process.ended_by_us


async def test_plugin_is_killed_before_its_connection_closes() -> None:
    command = plugin_program(
        registered='print("in", flush=True)', ended='print("noticed", flush=True); os._exit(5)'
    )
    async with Runtime(NEW) as runtime:
        plugins = [await runtime.launch_command(command, f"1{n}", "name") for n in range(4)]
    for plugin in plugins:
        assert plugin.process is not None
        assert plugin.process.exit_words == "killed by SIGKILL"
        assert plugin.process.output.last(Stream.STDOUT, 2) == ["in"]


async def test_plugin_whose_child_keeps_the_connection_continues() -> None:
    command = [
        "sh",
        "-c",
        '"$@" & exit 0',
        "sh",
        *plugin_program(registered="print(os.getpid(), flush=True)"),
    ]
    reported: list[str] = []
    async with Runtime(OLD) as runtime:
        plugin = await runtime.launch_command(
            command, "10", "daemon", on_output=lambda stream, line, mono_ns: reported.append(line)
        )
        assert plugin.process is not None
        await plugin.process.wait_exit()
        (answer,) = await runtime.send("StartContainer", b"")
        assert not answer.dropped
    assert plugin.process.exit_words == "exit status 0"
    assert not is_running(int(reported[0]))


async def test_next_runtime_can_launch_the_same_command() -> None:
    command = plugin_program(registered="print(os.getpid(), flush=True)")
    counts: list[tuple[int, set[int]]] = []
    reported: list[str] = []
    for _ in range(3):
        # The profile sends Synchronize, and the plugin prints before it replies to that.
        async with Runtime(NEW) as runtime:
            for index in ("10", "20"):
                await runtime.launch_command(
                    command,
                    index,
                    "again",
                    on_output=lambda stream, line, mono_ns: reported.append(line),
                )
            assert len(runtime.plugins) == 2
        counts.append((descriptors(), children()))
    assert counts == [(counts[0][0], set())] * 3
    assert len(set(reported)) == 6
    assert not any(is_running(int(pid)) for pid in reported)


async def test_command_that_cannot_be_run_is_a_usage_error(tmp_path: Path) -> None:
    async with Runtime(OLD) as runtime:
        for argv, index, name, words in [
            ([], "10", "name", "the command of the plugin is empty"),
            ([str(tmp_path)], "10", "name", "it is a folder"),
            (["no-such-program-here"], "10", "name", "no such program in the folders of PATH"),
            (["true"], "1", "name", "'1' is not a plugin index; write 01"),
            (["true"], "10", "", "a plugin needs a name"),
        ]:
            with pytest.raises(UsageError) as caught:
                await runtime.launch_command(argv, index, name)
            assert words in str(caught.value)
        assert not runtime.former
    assert not children()
