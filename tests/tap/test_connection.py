# SPDX-License-Identifier: Apache-2.0
"""A tapped connection: relaying, decoding and messages to the user."""

from __future__ import annotations

import asyncio
import errno
import os
import select
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nri_scope._gen.nri.api_pb2 import RegisterPluginRequest
from nri_scope.errors import UsageError
from nri_scope.nri.events import RUNTIME_SERVICE
from nri_scope.tap import connection as connection_module
from nri_scope.tap.session import TapSession
from nri_scope.transport import sockets
from nri_scope.wire import Code, Connection
from tests.tap.sink import ListSink

PATIENCE = 60.0


@contextmanager
def ends() -> Iterator[tuple[socket.socket, socket.socket, socket.socket, socket.socket]]:
    """Sockets of a runtime and a plugin, and the tap's ends of both."""
    (runtime, ours), (theirs, plugin) = socket.socketpair(), socket.socketpair()
    with runtime, plugin, ours, theirs:
        for sock in (runtime, plugin):
            sock.setblocking(False)
        yield runtime, plugin, ours, theirs


async def receive_some(sock: socket.socket) -> bytes:
    """Return the next data; b"" at the end of the stream."""
    async with asyncio.timeout(PATIENCE):
        return await asyncio.get_running_loop().sock_recv(sock, 1 << 20)


async def test_a_refused_plugin_that_stays_connected_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection_module, "REFUSED_S", 0.0)
    messages: asyncio.Queue[str] = asyncio.Queue()
    ours, runtime = socket.socketpair()
    theirs, plugin = socket.socketpair()
    tapped = connection_module.TappedConnection(
        ListSink(), None, lambda start, policy: None, say=messages.put_nowait
    )
    with runtime, plugin:
        relaying = asyncio.create_task(tapped.relay(ours, theirs))
        plugin_end, runtime_end = Connection(serves=1, calls=2), Connection(serves=2, calls=1)
        payload = RegisterPluginRequest(plugin_idx="1x", plugin_name="thing").SerializeToString()
        stream_id = plugin_end.send_request(RUNTIME_SERVICE, "RegisterPlugin", payload)
        plugin.sendall(b"".join(plugin_end.data_to_send()))
        runtime.setblocking(False)
        runtime_end.receive_data(await asyncio.get_running_loop().sock_recv(runtime, 1000))
        runtime_end.events_received()
        runtime_end.send_error(stream_id, Code.UNKNOWN, "no such index")
        runtime.sendall(b"".join(runtime_end.data_to_send()))
        async with asyncio.timeout(10):
            message = await messages.get()
        assert "1x-thing: no such index" in message
        assert not relaying.done()
    assert (await relaying).refused == "no such index"


async def test_a_socket_made_anew_is_reported_and_the_relay_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "CHECK_S", 0.01)
    path, messages = tmp_path / "nri.sock", asyncio.Queue[str]()
    listener = sockets.ListeningSocket(path)
    ours = await sockets.connect_socket(path)
    theirs, plugin = socket.socketpair()
    plugin.setblocking(False)
    tapped = connection_module.TappedConnection(
        ListSink(), None, lambda start, policy: None, say=messages.put_nowait
    )
    with await listener.accept() as runtime, plugin:
        relaying = asyncio.create_task(tapped.relay(ours, theirs))
        path.chmod(0o666)
        await asyncio.sleep(0.1)
        assert messages.empty()
        listener.close()
        await asyncio.sleep(0.1)
        assert messages.empty()
        again = sockets.ListeningSocket(path)
        async with asyncio.timeout(10):
            assert await messages.get() == (
                "warning: the runtime's socket was made anew: a plugin may get no more events "
                "until it connects again"
            )
        runtime.send(b"a question")
        assert await receive_some(plugin) == b"a question"
        again.close()
    await relaying


async def test_closing_a_connection_closes_both_ends() -> None:
    with ends() as (runtime, plugin, ours, theirs):
        tapped = connection_module.TappedConnection(ListSink(), None, lambda start, policy: None)
        relaying = asyncio.create_task(tapped.relay(ours, theirs))
        runtime.send(b"a question")
        assert await receive_some(plugin) == b"a question"
        tapped.close("enough")
        assert await receive_some(runtime) == await receive_some(plugin) == b""
        assert (await relaying).reason == "enough"


async def test_an_internal_error_stops_recording_but_not_the_relay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("on purpose")

    monkeypatch.setattr(TapSession, "receive", fail)
    messages: asyncio.Queue[str] = asyncio.Queue()
    sink = ListSink()
    with ends() as (runtime, plugin, ours, theirs):
        tapped = connection_module.TappedConnection(
            sink, None, lambda start, policy: None, say=messages.put_nowait
        )
        relaying = asyncio.create_task(tapped.relay(ours, theirs))
        for data in (b"one", b"two"):
            runtime.send(data)
            assert await receive_some(plugin) == data
        async with asyncio.timeout(PATIENCE):
            assert "an internal error: ValueError: on purpose" in await messages.get()
        runtime.close()
        plugin.close()
        await relaying
    assert messages.empty()
    assert [text for _, text in sink.gaps] == [
        "recording stopped after an internal error: ValueError: on purpose"
    ]


async def test_data_that_waits_to_be_decoded_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "WAIT_S", PATIENCE)
    monkeypatch.setattr(connection_module, "WAITING_BYTES_MAX", 1000)
    decoded: list[bytes] = []
    monkeypatch.setattr(TapSession, "receive", lambda _, forth, data, *times: decoded.append(data))
    with ends() as (runtime, plugin, ours, theirs):
        tapped = connection_module.TappedConnection(ListSink(), None, lambda start, policy: None)
        relaying = asyncio.create_task(tapped.relay(ours, theirs))
        for size in (400, 600, 400):
            runtime.send(b"x" * size)
            assert len(await receive_some(plugin)) == size
            assert sum(map(len, decoded)) == (1400 if size == 400 and decoded else 0)
        tapped.close("enough")
        await relaying


async def test_data_that_waits_is_decoded_at_the_end_of_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection_module, "WAIT_S", PATIENCE)
    sink = ListSink()
    with ends() as (runtime, plugin, ours, theirs):
        tapped = connection_module.TappedConnection(sink, None, lambda start, policy: None)
        relaying = asyncio.create_task(tapped.relay(ours, theirs))
        plugin_end = Connection(serves=1, calls=2)
        payload = RegisterPluginRequest(plugin_idx="10", plugin_name="thing").SerializeToString()
        plugin_end.send_request(RUNTIME_SERVICE, "RegisterPlugin", payload)
        plugin.sendall(b"".join(plugin_end.data_to_send()))
        assert await receive_some(runtime)
        runtime.close()
        plugin.close()
        assert (await relaying).plugin == "10-thing"
    assert [(item.method, item.status_message) for item in sink.items] == [
        ("RegisterPlugin", "not answered: the runtime closed the connection")
    ]


async def test_data_of_several_connections_is_decoded_in_the_order_of_arrival(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection_module, "WAIT_S", PATIENCE)
    decoded: list[bytes] = []
    monkeypatch.setattr(TapSession, "receive", lambda _, forth, data, *times: decoded.append(data))
    pieces = connection_module.PieceQueue()
    with ends() as first, ends() as second:
        tapped, relaying = [], []
        for _, _, ours, theirs in (first, second):
            one = connection_module.TappedConnection(
                ListSink(), None, lambda start, policy: None, pieces=pieces
            )
            tapped.append(one)
            relaying.append(asyncio.create_task(one.relay(ours, theirs)))
        for number in range(6):
            # The second connection gets the last piece, and the first one ends first.
            runtime, plugin, _, _ = (first, second)[number % 2]
            runtime.send(b"%d" % number)
            assert await receive_some(plugin) == b"%d" % number
        tapped[0].close("enough")
        await relaying[0]
        assert decoded == [b"0", b"1", b"2", b"3", b"4"]
        tapped[1].close("enough")
        await relaying[1]
    assert decoded == [b"0", b"1", b"2", b"3", b"4", b"5"]


async def test_without_a_free_descriptor_both_ends_are_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse() -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with ends() as (runtime, plugin, ours, theirs):
        tapped = connection_module.TappedConnection(ListSink(), None, lambda start, policy: None)
        monkeypatch.setattr(select, "epoll", refuse)
        with pytest.raises(UsageError, match="cannot be relayed: too many open files"):
            await tapped.relay(ours, theirs)
        monkeypatch.undo()
        assert runtime.recv(1) == plugin.recv(1) == b""
