# SPDX-License-Identifier: Apache-2.0
"""Sessions of a plugin with the runtime's end of a real socket."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import ConnectError, ConnectionClosed, RpcError, UsageError
from nri_scope.nri.events import PLUGIN_CONN, RUNTIME_CONN
from nri_scope.plugin import (
    HandledCall,
    Identity,
    PluginSession,
    SessionEnd,
    inherited,
    launched,
    unix_socket,
)
from nri_scope.wire import Connection, RequestReceived

from .runtime_end import RuntimeEnd, call, configure, synchronize

IDENTITY = Identity(index="05", name="tester")


class RecordingPlugin:
    """Plugin that records calls, and replies as the test specifies."""

    def __init__(self) -> None:
        self.exchanges: list[HandledCall] = []
        self.notices: list[str] = []
        self.refuse_configuration = ""
        self.fail_with: Exception | None = None

    def configure(self, request: api.ConfigureRequest) -> int:
        if self.refuse_configuration:
            raise UsageError(self.refuse_configuration)
        return 0x7FF

    def answer(self, request: RequestReceived) -> bytes:
        if self.fail_with is not None:
            raise self.fail_with
        return b""

    def answered(self, exchange: HandledCall) -> None:
        self.exchanges.append(exchange)

    def noticed(self, text: str) -> None:
        self.notices.append(text)


@pytest.fixture
async def runtime(tmp_path: Path) -> AsyncIterator[RuntimeEnd]:
    end = RuntimeEnd()
    await end.listen(tmp_path / "nri.sock")
    yield end
    await end.close()


def started(folder: Path, plugin: RecordingPlugin | None = None) -> asyncio.Task[SessionEnd]:
    """Start the session of a plugin."""
    session = PluginSession(IDENTITY, plugin or RecordingPlugin())
    return asyncio.create_task(session.run(unix_socket(folder / "nri.sock")))


async def test_plugin_registers_with_its_identity_and_serves_until_closed(
    runtime: RuntimeEnd, tmp_path: Path
) -> None:
    plugin = RecordingPlugin()
    run = started(tmp_path, plugin)
    link, registration = await runtime.registered()
    assert (registration.plugin_idx, registration.plugin_name) == ("05", "tester")
    assert registration.NRI_version == "v0.12.5"
    assert await configure(link) == 0x7FF
    assert await synchronize(link) == b""
    assert await call(link, "StateChange", api.StateChangeEvent(event=api.RUN_POD_SANDBOX)) == b""
    link.close()
    end = await run
    assert (end.reason, end.configured, end.synchronized) == ("closed by the runtime", True, True)
    methods = [exchange.request.method for exchange in plugin.exchanges]
    assert methods == ["Configure", "Synchronize", "StateChange"]
    assert all(exchange.took_ns > 0 and exchange.arrived_ns > 0 for exchange in plugin.exchanges)


async def test_configure_may_arrive_before_the_reply_to_register_plugin(
    runtime: RuntimeEnd, tmp_path: Path
) -> None:
    runtime.answer_registration = False
    run = started(tmp_path)
    link, request = await runtime.registrations.get()
    assert await configure(link) == 0x7FF
    link.respond(request.stream_id)
    assert await synchronize(link) == b""
    link.close()
    assert (await run).synchronized


async def test_runtime_may_close_before_it_replies_to_register_plugin(
    runtime: RuntimeEnd, tmp_path: Path
) -> None:
    runtime.answer_registration = False
    run = started(tmp_path)
    link, _ = await runtime.registrations.get()
    assert await configure(link) == 0x7FF
    assert await synchronize(link) == b""
    link.close()
    end = await run
    assert (end.reason, end.configured, end.synchronized) == ("closed by the runtime", True, True)


async def test_rejected_registration_is_an_error(runtime: RuntimeEnd, tmp_path: Path) -> None:
    runtime.refuse = (3, 'invalid plugin index "05"')
    with pytest.raises(RpcError, match="invalid plugin index"):
        await PluginSession(IDENTITY, RecordingPlugin()).run(unix_socket(tmp_path / "nri.sock"))


async def test_connection_closed_during_registration_is_an_error(
    runtime: RuntimeEnd, tmp_path: Path
) -> None:
    runtime.answer_registration = False
    run = started(tmp_path)
    link, _ = await runtime.registrations.get()
    link.abort()
    with pytest.raises(ConnectionClosed):
        await run


async def test_configuration_that_the_plugin_rejects_ends_the_session(
    runtime: RuntimeEnd, tmp_path: Path
) -> None:
    plugin = RecordingPlugin()
    plugin.refuse_configuration = "none of the events"
    run = started(tmp_path, plugin)
    link, _ = await runtime.registered()
    with pytest.raises(RpcError, match="none of the events"):
        await configure(link)
    link.close()
    with pytest.raises(UsageError, match="none of the events"):
        await run


async def test_error_replies_and_undecodable_configuration(
    runtime: RuntimeEnd, tmp_path: Path
) -> None:
    plugin = RecordingPlugin()
    run = started(tmp_path, plugin)
    link, _ = await runtime.registered()
    with pytest.raises(RpcError, match="cannot be decoded"):
        await call(link, "Configure", b"\xff\xff")
    plugin.fail_with = RpcError(9, "not now")
    with pytest.raises(RpcError, match="not now"):
        await call(link, "CreateContainer", b"")
    last = plugin.exchanges[-1]
    assert (last.code, last.message, last.reply) == (9, "not now", b"")
    link.close()
    await run


async def test_requests_out_of_order_are_answered_and_noticed(
    runtime: RuntimeEnd, tmp_path: Path
) -> None:
    plugin = RecordingPlugin()
    run = started(tmp_path, plugin)
    link, _ = await runtime.registered()
    assert await call(link, "CreateContainer", b"") == b""
    assert await synchronize(link) == b""
    await configure(link)
    await synchronize(link)
    assert await call(link, "CreateContainer", b"") == b""
    assert await call(link, "Shutdown", b"") == b""
    link.close()
    assert (await run).synchronized
    # The reply to RegisterPlugin may be processed after the request that arrived with it.
    first, second = (notice.rpartition(" while ")[0] for notice in plugin.notices)
    assert (first, second) == ("the runtime sent event", "the runtime sent Synchronize")


async def test_exception_in_a_callback_affects_neither_reply_nor_session(
    runtime: RuntimeEnd, tmp_path: Path
) -> None:
    class Crashing(RecordingPlugin):
        def answered(self, exchange: HandledCall) -> None:
            raise RuntimeError("no memory")

    plugin = Crashing()
    run = started(tmp_path, plugin)
    link, _ = await runtime.registered()
    await configure(link)
    for _ in range(3):
        assert await call(link, "CreateContainer", b"") == b""
    plugin.fail_with = ZeroDivisionError("oh")
    with pytest.raises(RpcError, match="ZeroDivisionError"):
        await call(link, "CreateContainer", b"")
    link.close()
    await run
    assert plugin.notices == [
        "internal error after Configure: RuntimeError: no memory",
        "internal error after CreateContainer: RuntimeError: no memory",
    ]


async def test_inherited_descriptor_is_used_as_the_connection() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    env = {
        "NRI_PLUGIN_SOCKET": str(ours.detach()),
        "NRI_PLUGIN_NAME": "nri-scope",
        "NRI_PLUGIN_IDX": "07",
    }
    launch = launched(env)
    assert launch is not None
    assert launch.identity == Identity(index="07", name="nri-scope")
    run = asyncio.create_task(
        PluginSession(launch.identity, RecordingPlugin()).run(inherited(launch.descriptor))
    )
    runtime = Connection(serves=RUNTIME_CONN, calls=PLUGIN_CONN)
    theirs.setblocking(False)
    async with asyncio.timeout(10):
        runtime.receive_data(await asyncio.get_running_loop().sock_recv(theirs, 4096))
    (request,) = runtime.events_received()
    assert isinstance(request, RequestReceived)
    registration = api.RegisterPluginRequest.FromString(request.payload)
    assert (registration.plugin_idx, registration.plugin_name) == ("07", "nri-scope")
    theirs.close()
    with pytest.raises(ConnectionClosed):
        await run


def test_isulad_sets_the_name_of_a_launched_plugin_to_its_file_name() -> None:
    launch = launched(
        {"NRI_PLUGIN_SOCKET": "22", "NRI_PLUGIN_NAME": "20-labels", "NRI_PLUGIN_IDX": "20"}
    )
    assert launch is not None
    assert (launch.descriptor, launch.identity) == (22, Identity(name="labels", index="20"))


def test_environment_identifies_a_launched_plugin() -> None:
    assert launched({}) is None
    with pytest.raises(UsageError, match="not a descriptor number"):
        launched({"NRI_PLUGIN_SOCKET": "/var/run/nri/nri.sock"})


async def test_missing_socket_is_a_connect_error(tmp_path: Path) -> None:
    with pytest.raises(ConnectError, match="no such socket"):
        await PluginSession(IDENTITY, RecordingPlugin()).run(unix_socket(tmp_path / "none"))


async def test_missing_configure_ends_the_session_if_required(
    runtime: RuntimeEnd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check a registration without Configure, as from iSulad under load."""
    monkeypatch.setattr("nri_scope.plugin.session.CONFIGURE_TIMEOUT", 0.05)
    connect = unix_socket(tmp_path / "nri.sock")
    end = await PluginSession(IDENTITY, RecordingPlugin()).run(connect, require_configure=True)
    assert "sent no Configure" in end.reason
    assert not end.configured


async def test_configure_within_its_timeout_keeps_the_session(
    runtime: RuntimeEnd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nri_scope.plugin.session.CONFIGURE_TIMEOUT", 0.05)
    # Requests may arrive before the reply to RegisterPlugin; the reply may never arrive.
    runtime.answer_registration = False
    run = asyncio.create_task(
        PluginSession(IDENTITY, RecordingPlugin()).run(
            unix_socket(tmp_path / "nri.sock"), require_configure=True
        )
    )
    link, request = await runtime.registrations.get()
    assert await configure(link) == 0x7FF
    link.respond(request.stream_id)
    await asyncio.sleep(0.2)
    assert await synchronize(link) == b""
    link.close()
    assert (await run).reason == "closed by the runtime"


async def test_missing_configure_is_awaited_unless_required(
    runtime: RuntimeEnd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nri_scope.plugin.session.CONFIGURE_TIMEOUT", 0.01)
    run = started(tmp_path)
    link, _ = await runtime.registered()
    await asyncio.sleep(0.1)
    assert await configure(link) == 0x7FF
    link.close()
    assert (await run).configured
