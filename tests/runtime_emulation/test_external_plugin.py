# SPDX-License-Identifier: Apache-2.0
"""External plugins: their private sockets, environment, connections and ends."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from nri_scope.errors import ConnectionClosed, UsageError
from nri_scope.runtime import ExternalPlugin, Plugin
from nri_scope.runtime.command import external_command_of
from tests.runtime_emulation.runtime import Runtime

from .profiles import NEW, OLD
from .scripts import ROOT, children, descriptors, external, python

TIMEOUT_S = 60


class Started:
    """An external plugin with the lines that it printed."""

    def __init__(self, argv: Sequence[str], environment: dict[str, str] | None = None) -> None:
        self.lines: list[str] = []
        self.plugin = ExternalPlugin(
            argv, environment, on_output=lambda stream, line, mono_ns: self.lines.append(line)
        )

    async def launch(self, runtime: Runtime, timeout_s: float = TIMEOUT_S) -> Plugin:
        (plugin,) = await runtime.launch_external(self.plugin, timeout_s)
        return plugin


async def test_an_external_plugin_registers_its_own_name_and_gets_synchronize() -> None:
    before = descriptors()
    started = Started(external(ended="print(*plugin.methods, plugin.configured.config)"))
    socket = Path(started.plugin.socket.path)
    async with Runtime(OLD, grace_s=TIMEOUT_S) as runtime:
        plugin = await started.launch(runtime)
        assert (plugin.id, plugin.is_launched) == ("42-own", False)
        assert socket.is_socket()
        assert socket.parent.stat().st_mode & 0o777 == 0o700
    # Runtimes without Synchronize for launched plugins send it to external ones.
    assert started.lines == ["Configure Synchronize "]
    assert plugin.process is not None
    assert plugin.process.ending_words.startswith("ended by itself")
    assert not socket.parent.exists()
    assert descriptors() == before
    assert not children()


def test_an_external_plugin_gets_the_variables_of_this_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NRI_PLUGIN_IDX", "10")
    monkeypatch.setenv("HOME", "/home/me")
    command = external_command_of(["true", "-s={socket}"], "/s", {"ADDED": "unix://{socket}"})
    assert command.argv[1:] == ("-s=/s",)
    expected = {**os.environ, "ADDED": "unix:///s"}
    del expected["NRI_PLUGIN_IDX"]
    assert command.environment == expected
    assert not command.folders
    # The socket's path in a variable is enough.
    assert not external_command_of(["true"], "/s", {"S": "{socket}"}).folders
    assert external_command_of(["true"], "/a/nri.sock").folders == ("/var/run/nri", "/a")


async def test_an_external_plugin_inherits_no_connection() -> None:
    listing = "print([n for n in range(3, 100) if os.path.exists(f'/proc/self/fd/{n}')])"
    started = Started(python(f"import os, sys; {listing}; '{{socket}}'"))
    async with Runtime(NEW) as runtime:
        with pytest.raises(ConnectionClosed):
            await started.launch(runtime)
    assert started.lines == ["[]"]


async def test_an_external_plugin_finds_the_default_socket() -> None:
    started = Started(external(socket="/var/run/nri/nri.sock"))
    async with Runtime(NEW) as runtime:
        try:
            plugin = await started.launch(runtime)
        except UsageError as error:
            if "operation not permitted" in str(error):
                pytest.skip("namespaces are not permitted here")
            raise
        assert plugin.id == "42-own"


def test_a_default_socket_that_cannot_be_replaced_is_reported() -> None:
    unshare = shutil.which("unshare")
    program = f"""
import asyncio, sys
sys.path.insert(0, {str(ROOT)!r})
from nri_scope.errors import UsageError
from nri_scope.runtime import ExternalPlugin
async def main():
    plugin = ExternalPlugin(["sleep", "1000"])
    try:
        await plugin.start()
    except UsageError as error:
        print(error)
    await plugin.remove()
asyncio.run(main())
"""
    limited = 'echo 0 > /proc/sys/user/max_mnt_namespaces && exec "$0" -c "$1"'
    argv = [unshare or "", "-Ur", "sh", "-c", limited, sys.executable, program]
    if unshare is None or subprocess.run([*argv[:2], "true"], check=False).returncode:
        pytest.skip("user namespaces are not permitted here")
    assert subprocess.check_output(argv, text=True) == (
        f"{shutil.which('sleep')}: cannot be launched: it would connect to /var/run/nri/nri.sock, "
        "in place of which it cannot be given another socket here: no space left on device; "
        "write {socket} in its arguments where they name its socket\n"
    )


@pytest.mark.exhaustive
async def test_a_plugin_that_ends_or_stays_without_connecting_is_reported() -> None:
    async with Runtime(NEW) as runtime:
        ends = Started(python("import sys; sys.exit('no config, {socket}')"))
        with pytest.raises(ConnectionClosed) as closed:
            await ends.launch(runtime)
        path = ends.plugin.socket.path
        assert str(closed.value) == (
            "it did not connect: the plugin ended, exit status 1; "
            f"its last output: no config, {path}"
        )
        with pytest.raises(UsageError, match=r"{socket} in its arguments must be where they name"):
            await Started(["sh", "-c", "sleep 1000", "{socket}"]).launch(runtime, 0.3)
        with pytest.raises(UsageError, match="no such program in the folders of PATH"):
            Started(["no-such-plugin", "{socket}"])
        rejected = Started(external("1-short"))
        with pytest.raises(ConnectionClosed, match="registration refused"):
            await rejected.launch(runtime)
    assert not children()
    assert not Path(path).parent.exists()


async def test_a_long_temporary_folder_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long))
    async with Runtime(NEW) as runtime:
        assert (await Started(external()).launch(runtime)).id == "42-own"
    assert not list(long.iterdir())


async def test_plugins_that_end_with_their_connection_are_started_again() -> None:
    started = Started(external(registered="print(os.getpid(), flush=True)"))
    ends: list[str] = []
    async with Runtime(NEW, on_end=lambda plugin: ends.append(plugin.end_reason)) as runtime:
        await started.launch(runtime)
        await runtime.restart()
        await runtime.wait_plugins(1)
        await runtime.drop("42-own", "dropped")
        await runtime.start_externals()
        await runtime.wait_plugins(1)
    assert len({*started.lines}) == 3
    assert ends == [
        "the runtime restarts: the plugin ended, exit status 0",
        "dropped: the plugin ended, exit status 0",
        "the runtime has ended",
    ]


@pytest.mark.exhaustive
async def test_a_plugin_that_reconnects_is_not_started_again() -> None:
    again = "await plugin.connect({socket!r}); await plugin.register()"
    waiting = "import time\n    while not os.path.exists('{socket}'): time.sleep(0.01)"
    started = Started(
        external(
            registered="print(os.getpid(), flush=True)",
            ended=f"{waiting}\n    {again.format(socket='{socket}')}\n"
            "    print(os.getpid(), flush=True)\n    await plugin.connected.wait_closed()",
        )
    )
    async with Runtime(NEW, grace_s=TIMEOUT_S) as runtime:
        first = await started.launch(runtime)
        await runtime.restart()
        await runtime.wait_plugins(1)
        assert runtime.plugins[0].process is first.process
    assert len(started.lines) == 2
    assert len({*started.lines}) == 1


async def test_a_plugin_that_crashes_is_described() -> None:
    crash = "plugin.on['CreateContainer'] = lambda request: os._exit(3)"
    started = Started(external(registered=crash))
    async with Runtime(NEW) as runtime:
        await started.launch(runtime)
        (answer,) = await runtime.send("CreateContainer", b"")
        assert answer.dropped
        await runtime.wait_for(lambda: bool(runtime.former))
        assert runtime.former[0].end_reason == (
            "closed by the peer: the plugin ended, exit status 3"
        )
