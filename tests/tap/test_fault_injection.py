# SPDX-License-Identifier: Apache-2.0
"""Faults between a runtime and a plugin, over real sockets."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from nri_scope.errors import DeadlineExceeded, RpcError
from nri_scope.nri.events import PLUGIN_SERVICE
from nri_scope.tap.connection import Connection as Tapped
from nri_scope.tap.fault_injection import DROPPED, FAILED
from nri_scope.tap.settings import Faults, parse_faults
from nri_scope.transport import Link
from nri_scope.wire import Code, Connection, RequestReceived
from tests.tap.sink import ListSink


class Tapping:
    """A runtime's link and a plugin's, with a tap in between."""

    def __init__(self, runtime: Link, received: list[str], sink: ListSink) -> None:
        self.runtime = runtime
        self.received = received
        """Methods that reached the plugin."""
        self.sink = sink

    async def call(self, method: str, *, timeout: float = 20) -> bytes:
        return await self.runtime.call(PLUGIN_SERVICE, method, b"", timeout=timeout)


@asynccontextmanager
async def tapping(faults: Faults) -> AsyncIterator[Tapping]:
    received: list[str] = []

    def respond(link: Link, request: RequestReceived, arrived_ns: int) -> None:
        received.append(request.method)
        link.respond(request.stream_id, b"\x0a\x00")

    async def link(sock: socket.socket, serves: int, calls: int) -> Link:
        sock.setblocking(False)
        _, opened = await asyncio.get_running_loop().create_unix_connection(
            lambda: Link(Connection(serves=serves, calls=calls), respond), sock=sock
        )
        return opened

    sink = ListSink()
    ours, runtime = socket.socketpair()
    theirs, plugin = socket.socketpair()
    tapped = Tapped(sink, None, lambda start, policy: None, faults)
    relaying = asyncio.create_task(tapped.relay(ours, theirs))
    at_runtime, at_plugin = await link(runtime, 2, 1), await link(plugin, 1, 2)
    try:
        yield Tapping(at_runtime, received, sink)
    finally:
        at_runtime.close()
        await relaying
        at_plugin.close()
        tapped.finish("over")


def faults(
    *, delays: tuple[str, ...] = (), drops: tuple[str, ...] = (), errors: tuple[str, ...] = ()
) -> Faults:
    return parse_faults(delays, drops, errors)


async def test_an_injected_error_replaces_the_reply_and_is_recorded() -> None:
    async with tapping(faults(errors=("CreateContainer",))) as tap:
        await tap.call("Configure")
        with pytest.raises(RpcError) as error:
            await tap.call("CreateContainer")
        await tap.call("StartContainer")
    assert error.value.message == FAILED
    assert tap.received == ["Configure", "StartContainer"]
    statuses = [(item.method, item.status_message) for item in tap.sink.items]
    assert statuses == [("Configure", ""), ("CreateContainer", FAILED), ("StartContainer", "")]
    assert "injecting faults: --error CreateContainer" in tap.sink.notes[0][1]
    assert "1 answered with an error" in tap.sink.notes[-1][1]


async def test_a_dropped_request_never_reaches_the_plugin_and_is_recorded_as_unanswered() -> None:
    async with tapping(faults(drops=("all",))) as tap:
        await tap.call("Configure")
        with pytest.raises(DeadlineExceeded):
            await tap.call("StopContainer", timeout=0.01)
    assert tap.received == ["Configure"]
    item = tap.sink.items[-1]
    assert (item.method, item.status_message) == ("StopContainer", DROPPED)
    assert item.status_code == Code.DEADLINE_EXCEEDED


async def test_a_delayed_reply_arrives_after_others() -> None:
    async with tapping(faults(delays=("CreateContainer=50ms",))) as tap:
        await tap.call("Configure")
        order: list[str] = []

        async def call(method: str) -> None:
            assert await tap.call(method) == b"\x0a\x00"
            order.append(method)

        await asyncio.gather(call("CreateContainer"), call("StartContainer"))
    assert order == ["StartContainer", "CreateContainer"]
    assert tap.received == ["Configure", "CreateContainer", "StartContainer"]
    held = {item.method: item.held_ns or 0 for item in tap.sink.items}
    took = {item.method: item.took_ns for item in tap.sink.items}
    # The added delay counts as time in the tap, not in the plugin.
    assert held["CreateContainer"] >= 50_000_000 > took["CreateContainer"]


async def test_the_seed_decides_which_requests_fail() -> None:
    async def failed(seed: int) -> list[int]:
        numbers = []
        async with tapping(parse_faults((), (), ("CreateContainer:0.5",), seed)) as tap:
            for number in range(40):
                try:
                    await tap.call("CreateContainer")
                except RpcError:
                    numbers.append(number)
        return numbers

    first = await failed(1)
    assert 0 < len(first) < 40
    assert await failed(1) == first
    assert await failed(2) != first


@pytest.mark.parametrize("chunk", [1, 7, 5000])
async def test_other_bytes_are_relayed_unchanged(
    chunk: int,
) -> None:
    sink = ListSink()
    (runtime, ours), (theirs, plugin) = socket.socketpair(), socket.socketpair()
    injected = faults(drops=("CreateContainer",))
    relaying = asyncio.create_task(
        Tapped(sink, None, lambda start, policy: None, injected).relay(ours, theirs)
    )
    loop = asyncio.get_running_loop()
    for sock in (runtime, plugin):
        sock.setblocking(False)
    sender = Connection(serves=2, calls=1)
    sender.send_request("other.Service", "CreateContainer", bytes(3000))
    sender.send_request(PLUGIN_SERVICE, "Unheard", bytes(5000))
    sent = b"".join(sender.data_to_send()) + b"\xff" * 40
    for start in range(0, len(sent), chunk):
        await loop.sock_sendall(runtime, sent[start : start + chunk])
    runtime.shutdown(socket.SHUT_WR)
    received = bytearray()
    while data := await loop.sock_recv(plugin, 1 << 16):
        received += data
    assert received == sent
    runtime.close()
    plugin.close()
    await relaying


async def test_the_end_of_the_connection_does_not_wait_for_delayed_replies() -> None:
    async with tapping(faults(delays=("all=1h",))) as tap:
        await tap.call("Configure")
        with pytest.raises(DeadlineExceeded):
            await tap.call("RunPodSandbox", timeout=0.01)
    assert tap.sink.ends == [(1, "over")]
