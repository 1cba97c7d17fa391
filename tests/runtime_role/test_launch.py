# SPDX-License-Identifier: Apache-2.0
"""Plugins that the runtime starts itself."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from nri_scope.errors import ConnectionClosed, UsageError
from nri_scope.runtime import Runtime, read_config

from .profiles import OLD, patient

PLUGIN = f"""#!{sys.executable}
import asyncio, json, os, signal, sys

sys.path.insert(0, {str(Path(__file__).parent.parent.parent)!r})
from nri_scope._gen.nri.api_pb2 import ConfigureResponse
from tests.runtime_role.small_plugin import SmallPlugin

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


def executable(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


async def test_launched_plugin_gets_descriptor_3_and_nothing_else(tmp_path: Path) -> None:
    path = executable(tmp_path / "10-launched", PLUGIN)
    report = tmp_path / "report"
    async with Runtime(OLD) as runtime:
        plugin = await runtime.launch(path, config=str(report))
        # What it registers as does not count, only its file's name does.
        assert plugin.id == "10-launched"
        found = json.loads(report.read_text())
        # LC_CTYPE is set by Python itself when it finds no locale.
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


async def test_launched_plugin_that_ends_is_reaped(tmp_path: Path) -> None:
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


async def test_file_that_is_no_plugin_is_a_usage_error(tmp_path: Path) -> None:
    plain = tmp_path / "10-plain"
    plain.write_text("")
    async with Runtime(OLD) as runtime:
        for path, words in [
            (tmp_path / "nodigits", "is no name for a plugin's file"),
            (plain, "cannot be launched: permission denied"),
            (tmp_path / "10-missing", "cannot be launched: no such file"),
            (executable(tmp_path / "10-text", "just text"), "cannot be launched: exec format"),
        ]:
            with pytest.raises(UsageError, match=words):
                await runtime.launch(path)
        assert not runtime.former


def test_configuration_is_looked_for_under_both_names(tmp_path: Path) -> None:
    assert read_config(tmp_path, "10", "foo") == ""
    (tmp_path / "foo.conf").write_text("of all foos")
    assert read_config(tmp_path, "10", "foo") == "of all foos"
    (tmp_path / "10-foo.conf").write_text("of this one")
    assert read_config(tmp_path, "10", "foo") == "of this one"
    assert read_config(tmp_path / "none", "10", "foo") == ""
    (tmp_path / "20-foo.conf").mkdir()
    with pytest.raises(UsageError, match="cannot be read"):
        read_config(tmp_path, "20", "foo")
