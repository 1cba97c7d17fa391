# SPDX-License-Identifier: Apache-2.0
"""Disturbances of plugins: restarts, closed connections, unknown events."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope._gen.nri.api_pb2 import SynchronizeRequest
from nri_scope.errors import ConnectError, ConnectionClosed, RpcError, UsageError
from nri_scope.nri.events import EventKind
from nri_scope.runtime import Plugin, Profile, ProfileSetUp, SetupStage
from nri_scope.wire import Code
from tests.runtime_emulation.container_requests import START, joined
from tests.runtime_emulation.runtime import Runtime

from .profiles import NEW, OLD, SPLITTING, patient
from .scripts import children, executable, is_running
from .scripts import plugin as plugin_program
from .small_plugin import SmallPlugin

# -- restart --------------------------------------------------------------------------------------


async def test_restart_removes_and_recreates_the_socket(tmp_path: Path) -> None:
    path = tmp_path / "nri.sock"
    async with Runtime(NEW) as runtime:
        await runtime.listen(path)
        plugin, adopted = SmallPlugin("10-external"), SmallPlugin("20-adopted")
        await plugin.connect(path)
        await plugin.register()
        await adopted.join(runtime)
        await runtime.wait_plugins(2)
        await runtime.shut_down()
        assert not path.exists() and not runtime.plugins
        await asyncio.gather(plugin.connected.wait_closed(), adopted.connected.wait_closed())
        assert {one.end_reason for one in runtime.former} == {"the runtime restarts"}
        assert (await runtime.operate(EventKind.StartContainer, START)).answers == []
        with pytest.raises(ConnectError):
            await plugin.connect(path)
        await runtime.start_again()
        again = SmallPlugin("10-external")
        await again.connect(path)
        await again.register()
        await runtime.wait_plugins(1)
        assert again.methods == ["Configure", "Synchronize"]
        (answer,) = (await runtime.operate(EventKind.StartContainer, START)).answers
        assert answer.plugin == "10-external"
        assert not runtime.rejections


@pytest.mark.parametrize("grace_s", [0, 60])
async def test_launched_plugins_may_end_by_themselves_only_at_the_end(
    grace_s: float,
) -> None:
    printed: list[str] = []
    ending = plugin_program(ended="print(os.getpid(), 'cleans up', flush=True)")
    async with Runtime(NEW, grace_s=grace_s) as runtime:
        await runtime.launch_command(
            ending, "10", "thing", on_output=lambda stream, line, mono_ns: printed.append(line)
        )
        await runtime.restart()
        assert not printed
    processes = [one.process for one in runtime.former if one.process is not None]
    gracefully = "ended by itself when its connection was closed, exit status 0"
    expected = gracefully if grace_s else "was killed"
    assert [process.ending_words for process in processes] == ["was killed", expected]
    assert printed == ([f"{process.pid} cleans up" for process in processes[1:]] if grace_s else [])


async def test_a_second_interruption_ends_the_grace() -> None:
    pids: list[int] = []
    stays = plugin_program(ended="import time; print(os.getpid(), flush=True); time.sleep(1000)")
    stopping = asyncio.Event()

    def printed(stream: object, line: str, mono_ns: int) -> None:
        pids.append(int(line))
        stopping.set()

    async def main() -> None:
        async with Runtime(NEW, grace_s=1000) as runtime:
            await runtime.launch_command(stays, "10", "thing", on_output=printed)
            started.set()
            await asyncio.sleep(1000)

    started = asyncio.Event()
    task = asyncio.create_task(main())
    await started.wait()
    task.cancel()
    await stopping.wait()
    assert is_running(pids[0])
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not children()


async def test_plugins_are_rejected_during_a_restart() -> None:
    async with Runtime(NEW) as runtime:
        await runtime.shut_down()
        # The runtime closes the connection before the plugin can register.
        with pytest.raises(ConnectionClosed):
            await SmallPlugin().join(runtime)
        await runtime.start_again()
        await SmallPlugin().join(runtime)


async def test_plugin_being_synchronized_is_disconnected_by_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "nri.sock"
    async with Runtime(NEW) as runtime:
        await runtime.listen(path)
        plugin = SmallPlugin()
        plugin.on["Synchronize"] = lambda request: None
        await plugin.connect(path)
        await plugin.register()
        while "Synchronize" not in plugin.methods:
            plugin.arrived.clear()
            await plugin.arrived.wait()
        await runtime.restart()
        assert not runtime.plugins and path.exists()
        await plugin.connected.wait_closed()


async def test_synchronize_after_a_restart_has_the_current_state() -> None:
    setup = ProfileSetUp(NEW, [api.PodSandbox(id="first")])
    async with Runtime(setup) as runtime:
        await SmallPlugin().join(runtime)
        await runtime.restart()
        setup.pods[:] = [api.PodSandbox(id="second")]
        plugin = SmallPlugin()
        await plugin.join(runtime)
    assert plugin.messages("Synchronize") == [SynchronizeRequest(pods=setup.pods)]


async def test_shut_down_runtime_can_be_left(tmp_path: Path) -> None:
    async with Runtime(NEW) as runtime:
        await runtime.listen(tmp_path / "s")
        await runtime.shut_down()
    assert not (tmp_path / "s").exists()


async def test_launched_plugins_are_relaunched_before_the_socket_accepts_plugins(
    tmp_path: Path,
) -> None:
    ready: list[str] = []
    async with Runtime(NEW, on_ready=lambda plugin: ready.append(plugin.id)) as runtime:
        await runtime.listen(tmp_path / "s")
        for index in ("20", "10"):
            first = await runtime.launch_command(plugin_program(), index, "launched")
        assert first.process is not None
        await runtime.restart()
        assert ready == ["20-launched", "10-launched", "10-launched", "20-launched"]
        (now, _) = runtime.plugins
        assert now.process is not None and now.process.pid != first.process.pid
        assert not first.process.running
        assert (tmp_path / "s").exists() and not runtime.rejections


async def test_launched_plugin_that_cannot_be_relaunched_is_a_rejection(tmp_path: Path) -> None:
    """Check that the other plugins are launched nevertheless."""
    path = executable(tmp_path / "10-gone", f"#!{sys.executable}\n{plugin_program()[-1]}")
    async with Runtime(NEW) as runtime:
        await runtime.launch(path)
        await runtime.launch_command(plugin_program(), "20", "stays")
        await runtime.shut_down()
        path.unlink()
        await runtime.start_again()
        assert [plugin.id for plugin in runtime.plugins] == ["20-stays"]
        (rejection,) = runtime.rejections
        assert (rejection.plugin, rejection.stage) == ("10-gone", SetupStage.LAUNCH)
        assert "cannot be launched" in rejection.reason


@pytest.mark.parametrize(
    ("profile", "synchronizes"),
    [(OLD, False), (SPLITTING, True), (NEW, True), (patient("isulad"), False)],
    ids=lambda one: one.name if isinstance(one, Profile) else "",
)
async def test_launched_plugins_are_synchronized_since_nri_0_7_except_on_isulad(
    profile: Profile, synchronizes: bool
) -> None:
    methods: list[str] = []

    def listen(plugin: Plugin) -> None:
        plugin.on_exchange = lambda plugin, exchange: methods.append(exchange.method)

    async with Runtime(profile, on_new=listen) as runtime:
        await runtime.launch_command(plugin_program(), "10", "launched")
        external = SmallPlugin("20-external")
        await external.join(runtime)
        outcome = await runtime.operate(EventKind.StartContainer, START)
        assert [answer.plugin for answer in outcome.answers] == ["10-launched", "20-external"][
            :: -1 if profile.dispatch_rules.orders_by_name else 1
        ]
    own_way = ["Configure", "Synchronize"] if synchronizes else ["Configure"]
    assert methods[: len(own_way) + 2] == [*own_way, "Configure", "Synchronize"]


# -- one connection -------------------------------------------------------------------------------


async def test_one_plugin_is_dropped_by_id() -> None:
    async with Runtime(NEW) as runtime:
        first, second = SmallPlugin("10-a"), SmallPlugin("20-b")
        await joined(runtime, first, second)
        await runtime.drop("10-a", "for a reason")
        await first.connected.wait_closed()
        assert [plugin.id for plugin in runtime.plugins] == ["20-b"]
        assert [plugin.end_reason for plugin in runtime.former] == ["for a reason"]
        with pytest.raises(
            UsageError, match="no plugin '10-a' is connected; connected plugins: 20-b"
        ):
            await runtime.drop("10-a")


# -- Synchronize ----------------------------------------------------------------------------------

PODS = [api.PodSandbox(id=f"pod-{number}") for number in range(3)]
CONTAINERS = [api.Container(id=f"container-{number}") for number in range(4)]


async def test_small_state_is_split_at_sync_part_max() -> None:
    setup = ProfileSetUp(SPLITTING, PODS, CONTAINERS)
    plugin = SmallPlugin()
    async with Runtime(setup, sync_part_max=40) as runtime:
        await plugin.join(runtime)
    parts = [one for one in plugin.messages("Synchronize") if isinstance(one, SynchronizeRequest)]
    assert len(parts) > 2
    assert [part.more for part in parts] == [True] * (len(parts) - 1) + [False]
    assert all(part.ByteSize() <= 40 for part in parts)
    together = SynchronizeRequest()
    for part in parts:
        together.MergeFrom(part)
    assert (list(together.pods), list(together.containers)) == (PODS, CONTAINERS)


# -- something new --------------------------------------------------------------------------------


async def test_unknown_event_is_sent_by_its_own_rpc_and_then_as_state_change() -> None:
    async with Runtime(NEW) as runtime:
        knows, falls_back, fails = SmallPlugin("10-a"), SmallPlugin("20-b"), SmallPlugin("30-c")
        falls_back.on["CheckpointContainer"] = lambda request: RpcError(Code.UNIMPLEMENTED, "no")
        fails.on["CheckpointContainer"] = lambda request: RpcError(Code.UNKNOWN, "no")
        await joined(runtime, fails, falls_back, knows)
        answers = await runtime.send_unknown()
        assert [(answer.plugin, answer.method, answer.error is None) for answer in answers] == [
            ("10-a", "CheckpointContainer", True),
            ("20-b", "StateChange", True),
            ("30-c", "CheckpointContainer", False),
        ]
        (change,) = falls_back.messages("StateChange")
        assert change.event == 99  # type: ignore[attr-defined]
        assert not falls_back.events[0].payload.strip(b"\x08\x63")
        assert len(runtime.plugins) == 3
        # Known events still have their own RPCs.
        await runtime.operate(EventKind.StartContainer, START)
        assert falls_back.events[-1].method == "StartContainer"


async def test_unknown_event_on_an_older_runtime_is_a_state_change_to_every_plugin() -> None:
    async with Runtime(OLD) as runtime:
        failing, last = SmallPlugin("10-a"), SmallPlugin("20-b", EventKind.StartContainer.bit)
        failing.on["StateChange"] = lambda request: RpcError(Code.UNKNOWN, "unhandled event")
        await joined(runtime, failing, last)
        answers = await runtime.send_unknown()
        assert [(answer.plugin, answer.method) for answer in answers] == [
            ("10-a", "StateChange"),
            ("20-b", "StateChange"),
        ]
