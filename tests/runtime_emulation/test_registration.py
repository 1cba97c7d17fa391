# SPDX-License-Identifier: Apache-2.0
"""Admission of plugins, and its failures."""

from __future__ import annotations

import asyncio
import socket
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope._gen.nri.api_pb2 import (
    ConfigureRequest,
    RegisterPluginRequest,
    UpdateContainersRequest,
)
from nri_scope.errors import ConnectError, ConnectionClosed, RpcError
from nri_scope.nri.events import PLUGIN_CONN, RUNTIME_CONN, RUNTIME_SERVICE, EventKind
from nri_scope.runtime import PROFILES, Plugin, Profile, Rejection, SetupStage
from nri_scope.runtime.answer import registration_problem
from nri_scope.wire import Code, Connection, RequestReceived, ResponseReceived, WireEvent
from tests.runtime_emulation.runtime import Runtime

from .profiles import NEW, OLD, SPLITTING, patient
from .small_plugin import SmallPlugin


async def test_plugin_is_configured_and_synchronized_before_it_is_listed(tmp_path: Path) -> None:
    async with Runtime(OLD) as runtime:
        await runtime.listen(tmp_path / "nri" / "nri.sock")
        plugin = SmallPlugin("42-answer")
        await plugin.connect(tmp_path / "nri" / "nri.sock")
        await plugin.register()
        await runtime.wait_plugins(1)
        (seen,) = runtime.plugins
        assert (seen.id, seen.mask) == ("42-answer", OLD.mask)
        assert plugin.methods == ["Configure", "Synchronize"]
    assert await plugin.connected.wait_closed()


async def test_socket_is_private_and_removed_with_the_runtime(tmp_path: Path) -> None:
    path = tmp_path / "new" / "nri.sock"
    async with Runtime(OLD) as runtime:
        await runtime.listen(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert not path.exists()


async def test_invalid_socket_path_is_a_connect_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    async with Runtime(OLD) as runtime:
        with pytest.raises(ConnectError, match="its folder cannot be created"):
            await runtime.listen(tmp_path / "file" / "nri.sock")
        with pytest.raises(ConnectError, match="at most 107"):
            await runtime.listen(tmp_path / ("x" * 120))


@pytest.mark.parametrize("name", sorted(PROFILES))
async def test_configure_has_the_profile_s_fields(name: str) -> None:
    profile = PROFILES[name]
    plugin = SmallPlugin()
    async with Runtime(profile) as runtime:
        await plugin.join(runtime)
    assert plugin.configured == profile.configure_request()
    assert bool(plugin.configured.request_timeout) == (name not in ("containerd-1.7", "isulad"))
    assert bool(plugin.configured.NRI_version) == profile.dedicated_rpcs


async def wire_events(sock: socket.socket, connection: Connection, count: int) -> list[WireEvent]:
    """Return the next events of a socket in the order of their bytes."""
    events: list[WireEvent] = []
    while len(events) < count:
        connection.receive_data(await asyncio.get_running_loop().sock_recv(sock, 65536))
        events += connection.events_received()
    return events


async def test_configure_is_sent_after_the_reply_to_register_plugin() -> None:
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    connection = Connection(serves=PLUGIN_CONN, calls=RUNTIME_CONN)
    request = RegisterPluginRequest(plugin_name="raw", plugin_idx="10")
    connection.send_request(RUNTIME_SERVICE, "RegisterPlugin", request.SerializeToString())
    async with Runtime(OLD) as runtime:
        adopting = asyncio.create_task(runtime.adopt(ours))
        theirs.send(b"".join(connection.data_to_send()))
        reply, configure = await wire_events(theirs, connection, 2)
        assert isinstance(configure, RequestReceived) and configure.method == "Configure"
        assert isinstance(reply, ResponseReceived) and reply.code == Code.OK
        connection.send_response(configure.stream_id)
        theirs.send(b"".join(connection.data_to_send()))
        (synchronize,) = await wire_events(theirs, connection, 1)
        assert isinstance(synchronize, RequestReceived) and synchronize.method == "Synchronize"
        connection.send_response(synchronize.stream_id)
        theirs.send(b"".join(connection.data_to_send()))
        assert (await adopting).id == "10-raw"
    theirs.close()


# -- one at a time ------------------------------------------------------------------------------


async def test_silent_client_blocks_others_until_the_registration_timeout(tmp_path: Path) -> None:
    path = tmp_path / "s"
    order: list[str] = []
    runtime = Runtime(
        replace(OLD, registration_timeout_ms=200),
        on_ready=lambda plugin: order.append(f"{plugin.id} ready"),
        on_end=lambda plugin: order.append(f"{plugin.id} ended: {plugin.end_reason}"),
    )
    async with runtime:
        await runtime.listen(path)
        mute, eager = SmallPlugin(), SmallPlugin("20-eager")
        await mute.connect(path)
        await eager.connect(path)
        await eager.register()
        await runtime.wait_plugins(1)
        await mute.connected.wait_closed()
        assert "RegisterPlugin: no answer within 0.2 s" in order[0]
        assert order[1:] == ["20-eager ready"]


async def test_registration_waits_for_the_previous_plugin(tmp_path: Path) -> None:
    """Check that the runtime does not read from a connection before its turn."""
    path = tmp_path / "s"
    async with Runtime(OLD) as runtime:
        await runtime.listen(path)
        first, second = SmallPlugin("20-first"), SmallPlugin("10-second")
        first.on["Synchronize"] = lambda request: None
        await first.connect(path)
        await first.register()
        await second.connect(path)
        registering = asyncio.create_task(second.register())
        while "Synchronize" not in first.methods:
            first.arrived.clear()
            await first.arrived.wait()
        assert not registering.done() and not second.requests
        first.answer(first.requests[-1], b"")
        await registering
        await runtime.wait_plugins(2)
        assert [plugin.id for plugin in runtime.plugins] == ["10-second", "20-first"]


async def test_client_that_disconnects_unregistered_does_not_block(tmp_path: Path) -> None:
    async with Runtime(OLD) as runtime:
        await runtime.listen(tmp_path / "s")
        gone, next_one = SmallPlugin(), SmallPlugin()
        await gone.connect(tmp_path / "s")
        gone.connected.close()
        await next_one.join(runtime)
        assert [plugin.end_reason for plugin in runtime.former] == ["closed by the peer"]


# -- refused ------------------------------------------------------------------------------------


BAD_INDEX = 'invalid plugin index: invalid plugin index "{}"{}'
REFUSED = [
    (OLD, "7-short", BAD_INDEX.format("7", ", must be 2 digits")),
    (OLD, "123-long", BAD_INDEX.format("123", ", must be 2 digits")),
    (OLD, "a1-letters", BAD_INDEX.format("a1", " (not [0-9][0-9])")),
    (OLD, "-none", BAD_INDEX.format("", ", must be 2 digits")),
    (OLD, "10-", "invalid (empty) plugin name"),
    (NEW, "7-short", BAD_INDEX.format("7", ", must be 2 digits")),
    (NEW, "10-", "invalid plugin name: invalid plugin name: name is empty"),
    (NEW, "10-näme with/slash", "invalid plugin name: invalid plugin name "
     '"näme with/slash": contains invalid character \'ä\''),
    (NEW, "10-with blank", "invalid plugin name: invalid plugin name "
     '"with blank": contains invalid character \' \''),
    (NEW, "10-'", "invalid plugin name: invalid plugin name "
     "\"'\": contains invalid character '\\''"),
    (NEW, '10-"', "invalid plugin name: invalid plugin name "
     "\"\\\"\": contains invalid character '\"'"),
]  # fmt: skip


@pytest.mark.parametrize(("profile", "plugin_id", "words"), REFUSED)
async def test_invalid_index_or_name_is_rejected_with_the_runtime_s_message(
    profile: Profile, plugin_id: str, words: str
) -> None:
    await refuses(profile, SmallPlugin(plugin_id), words)


@given(name=st.text(max_size=9), index=st.text(max_size=4), checks_names=st.booleans())
def test_any_registration_is_accepted_or_rejected_with_a_message(
    name: str, index: str, checks_names: bool
) -> None:
    problem = registration_problem(
        RegisterPluginRequest(plugin_name=name, plugin_idx=index), checks_names=checks_names
    )
    if problem is None:
        assert name and len(index) == 2 and index.isascii() and index.isdigit()
    else:
        ours, theirs = problem
        assert ours and theirs.startswith("invalid ") and "\n" not in theirs


async def test_names_are_not_checked_before_nri_0_12() -> None:
    odd = "10-näme with/slash"
    async with Runtime(OLD) as runtime:
        assert (await SmallPlugin(odd).join(runtime)).id == odd
        assert not runtime.rejections


async def refuses(profile: Profile, plugin: SmallPlugin, words: str) -> None:
    async with Runtime(profile) as runtime:
        ours, theirs = socket.socketpair()
        await plugin.adopt(theirs.detach())
        adopting = asyncio.create_task(runtime.adopt(ours))
        with pytest.raises(RpcError) as caught:
            await plugin.register()
        assert (caught.value.code, caught.value.message) == (Code.UNKNOWN, words)
        with pytest.raises(ConnectionClosed, match="registration refused: "):
            await adopting
        (rejection,) = runtime.rejections
        assert rejection.plugin == f"{plugin.index}-{plugin.name}"
        assert (rejection.stage, rejection.error_sent) == (SetupStage.REGISTRATION, words)
        assert rejection.reason.startswith("registration refused: ")
        assert not runtime.plugins and not plugin.requests
        assert not plugin.connected.closed
        # The connection that stays open does not delay the next plugin.
        await SmallPlugin("10-good").join(runtime)


async def test_second_registration_is_rejected() -> None:
    async with Runtime(OLD) as runtime:
        plugin = SmallPlugin()
        await plugin.join(runtime)
        plugin.name = "other"
        with pytest.raises(RpcError, match="RegisterPlugin while ready"):
            await plugin.register()
        assert [plugin.id for plugin in runtime.plugins] == ["10-small"]


async def test_unknown_method_is_unimplemented() -> None:
    async with Runtime(OLD) as runtime:
        plugin = SmallPlugin()
        await plugin.join(runtime)
        for service, method in [(RUNTIME_SERVICE, "Nothing"), ("other.Service", "RegisterPlugin")]:
            with pytest.raises(RpcError) as caught:
                await plugin.connected.call(service, method, b"")
            assert caught.value.code == Code.UNIMPLEMENTED
        with pytest.raises(RpcError, match="undecodable"):
            await plugin.connected.call(RUNTIME_SERVICE, "UpdateContainers", b"\xff")
        assert len(runtime.plugins) == 1


# -- dropped ------------------------------------------------------------------------------------


async def joins_and_is_dropped(runtime: Runtime, plugin: SmallPlugin) -> Plugin:
    with pytest.raises(ConnectionClosed):
        await plugin.join(runtime)
    await plugin.connected.wait_closed()
    assert not runtime.plugins
    return runtime.former[-1]


async def test_plugin_with_an_unknown_event_bit_is_dropped_after_configure() -> None:
    async with Runtime(OLD) as runtime:
        plugin = SmallPlugin(mask=EventKind.UpdatePodSandbox.bit | EventKind.CreateContainer.bit)
        former = await joins_and_is_dropped(runtime, plugin)
        assert former.end_reason == (
            "subscribed to events 0x800 that containerd 1.7.24 (NRI 0.6.1) does not know"
        )
        assert plugin.methods == ["Configure"]
        assert isinstance(plugin.configured, ConfigureRequest)
        assert list(runtime.rejections) == [
            Rejection("10-small", SetupStage.CONFIGURATION, former.end_reason)
        ]


async def test_empty_mask_subscribes_to_every_event_and_validation() -> None:
    async with Runtime(NEW) as runtime:
        plugin = await SmallPlugin(mask=0).join(runtime)
        assert plugin.subscribes(EventKind.ValidateContainerAdjustment)


async def test_mask_limits_the_subscription() -> None:
    async with Runtime(NEW) as runtime:
        plugin = await SmallPlugin(mask=EventKind.StartContainer.bit).join(runtime)
        assert plugin.subscribes(EventKind.StartContainer)
        assert not plugin.subscribes(EventKind.CreateContainer)


@pytest.mark.parametrize("method", ["Configure", "Synchronize"])
@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (RpcError(2, "no, thanks"), "no, thanks"),
        (b"\xff\xff", "the reply cannot be decoded"),
        (None, "no answer within"),
    ],
    ids=["error", "undecodable", "silent"],
)
async def test_bad_set_up_reply_drops_the_plugin(
    method: str, reply: bytes | RpcError | None, reason: str
) -> None:
    async with Runtime(replace(SPLITTING, request_timeout_ms=200)) as runtime:
        plugin = SmallPlugin()
        plugin.on[method] = lambda request: reply
        former = await joins_and_is_dropped(runtime, plugin)
        assert reason in former.end_reason
        assert plugin.methods[-1] == method
        (rejection,) = runtime.rejections
        assert rejection.stage == ("configuration" if method == "Configure" else "synchronization")
        assert (rejection.plugin, rejection.reason) == ("10-small", former.end_reason)


async def test_failed_synchronize_up_to_nri_0_6_keeps_a_connection_without_events() -> None:
    async with Runtime(OLD) as runtime:
        plugin = SmallPlugin()
        plugin.on["Synchronize"] = lambda request: RpcError(2, "no, thanks")
        with pytest.raises(ConnectionClosed, match="no, thanks"):
            await plugin.join(runtime)
        assert not runtime.plugins and not plugin.connected.closed
        assert [rejection.stage for rejection in runtime.rejections] == [SetupStage.SYNCHRONIZATION]
        # The next plugin is not delayed.
        await SmallPlugin("20-good").join(runtime)


async def test_isulad_sends_events_despite_a_failed_synchronize() -> None:
    async with Runtime(patient("isulad")) as runtime:
        plugin = SmallPlugin()
        plugin.on["Synchronize"] = lambda request: RpcError(2, "no, thanks")
        await plugin.join(runtime)
        assert [plugin.id for plugin in runtime.plugins] == ["10-small"]
        assert not runtime.rejections


async def test_client_that_never_registers_is_a_rejection_without_a_name(tmp_path: Path) -> None:
    async with Runtime(replace(OLD, registration_timeout_ms=200)) as runtime:
        await runtime.listen(tmp_path / "s")
        mute = SmallPlugin()
        await mute.connect(tmp_path / "s")
        await runtime.wait_for(lambda: bool(runtime.rejections))
        (rejection,) = runtime.rejections
        assert (rejection.plugin, rejection.stage) == ("", SetupStage.REGISTRATION)
        assert rejection.reason == "RegisterPlugin: no answer within 0.2 s"


# -- the end ------------------------------------------------------------------------------------


async def test_leaving_the_runtime_ends_every_connection_and_task(tmp_path: Path) -> None:
    before = asyncio.all_tasks()
    plugins = [SmallPlugin(f"{number}0-small") for number in range(1, 4)]
    waiting = SmallPlugin()
    async with Runtime(OLD) as runtime:
        await runtime.listen(tmp_path / "s")
        for plugin in plugins:
            await plugin.join(runtime)
        await waiting.connect(tmp_path / "s")
        with pytest.raises(RpcError, match="UpdateContainers while connected"):
            await waiting.update_containers(UpdateContainersRequest())
    for plugin in [*plugins, waiting]:
        await plugin.connected.wait_closed()
    assert asyncio.all_tasks() == before
    assert not runtime.plugins
    assert {plugin.end_reason for plugin in runtime.former} == {"the runtime has ended"}


async def test_exception_in_the_body_is_not_changed() -> None:
    async def body() -> None:
        async with Runtime(OLD) as runtime:
            await SmallPlugin().join(runtime)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await body()


async def test_cancelling_the_body_ends_everything() -> None:
    plugin = SmallPlugin()
    inside = asyncio.Event()

    async def body() -> None:
        async with Runtime(OLD) as runtime:
            await plugin.join(runtime)
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(body())
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await plugin.connected.wait_closed()
