# SPDX-License-Identifier: Apache-2.0
"""Links over real sockets, both ends."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nri_scope.errors import ConnectError, ConnectionClosed, DeadlineExceeded, RpcError
from nri_scope.transport import (
    Link,
    Notice,
    RequestHandler,
    Server,
    adopt_descriptor,
    connect_unix,
    listen_unix,
)
from nri_scope.wire import Connection, FrameIgnored, RequestReceived


def ignore(link: Link, request: RequestReceived, arrived_ns: int) -> None:
    """Leave a request unanswered."""


def echo(link: Link, request: RequestReceived, arrived_ns: int) -> None:
    """Answer with the request's own payload, or with an error for method "fail"."""
    if request.method == "fail":
        link.respond_error(request.stream_id, 13, "as you wish")
    else:
        link.respond(request.stream_id, request.payload)


@pytest.fixture
async def listening(tmp_path: Path) -> AsyncIterator[tuple[Server, list[Link]]]:
    links: list[Link] = []

    def accept() -> Link:
        links.append(Link(Connection(serves=2, calls=1), echo))
        return links[-1]

    server = await listen_unix(tmp_path / "s", accept)
    yield server, links
    await server.close()
    for link in links:
        link.abort()


async def open_link(server: Server) -> Link:
    return await connect_unix(server.path, lambda: Link(Connection(serves=1, calls=2), echo))


async def pair(first: RequestHandler, second: RequestHandler) -> tuple[Link, Link]:
    """Return two links inside this process."""
    ours, theirs = (one.detach() for one in socket.socketpair())
    return (
        await adopt_descriptor(ours, lambda: Link(Connection(serves=2, calls=1), first)),
        await adopt_descriptor(theirs, lambda: Link(Connection(serves=1, calls=2), second)),
    )


@pytest.mark.parametrize("size", [0, 100, 4086, 4097, 1_000_000, 4_000_000])
async def test_call_returns_the_reply(listening: tuple[Server, list[Link]], size: int) -> None:
    link = await open_link(listening[0])
    payload = os.urandom(size)
    assert await link.call("s", "m", payload, timeout=10) == payload
    assert await listening[1][0].call("s", "m", payload, timeout=10) == payload
    link.close()
    assert await listening[1][0].wait_closed() == "closed by the peer"
    assert await link.wait_closed() == "closed by us"


async def test_many_calls_at_once(listening: tuple[Server, list[Link]]) -> None:
    link = await open_link(listening[0])
    payloads = [bytes([i % 256]) * i * 50 for i in range(200)]
    replies = await asyncio.gather(*(link.call("s", "m", one, timeout=10) for one in payloads))
    assert replies == payloads
    link.close()


async def test_error_status_becomes_an_exception(listening: tuple[Server, list[Link]]) -> None:
    link = await open_link(listening[0])
    with pytest.raises(RpcError) as caught:
        await link.call("s", "fail", b"")
    assert (caught.value.code, caught.value.message) == (13, "as you wish")
    link.close()


async def test_a_reply_after_the_deadline_is_ignored() -> None:
    waiting: list[tuple[Link, int]] = []
    first, second = await pair(
        ignore, lambda link, request, _: waiting.append((link, request.stream_id))
    )
    with pytest.raises(DeadlineExceeded, match="slow: no answer within"):
        await first.call("s", "slow", b"", timeout=0.05)
    link, stream = waiting[0]
    link.respond(stream, b"late")
    call = asyncio.create_task(first.call("s", "next", b"", timeout=10))
    while len(waiting) < 2:
        await asyncio.sleep(0)
    link.respond(waiting[1][1], b"in time")
    assert await call == b"in time"
    first.close()
    second.close()


async def test_lost_connection_fails_pending_calls() -> None:
    first, second = await pair(ignore, ignore)
    call = asyncio.create_task(first.call("s", "m", b""))
    await asyncio.sleep(0)
    second.abort()
    with pytest.raises(ConnectionClosed):
        await call
    with pytest.raises(ConnectionClosed):
        await first.call("s", "m", b"")
    assert first.closed


async def test_protocol_error_closes_with_its_reason(
    listening: tuple[Server, list[Link]],
) -> None:
    with socket.socket(socket.AF_UNIX) as raw:
        raw.connect(listening[0].path)
        raw.sendall(struct.pack(">II", 1, 0xFFFFFFFF))
        while not listening[1]:
            await asyncio.sleep(0.001)
        reason = await listening[1][0].wait_closed()
    assert "mux frame of 4294967295 bytes" in reason


async def test_end_in_the_middle_of_a_message_is_reported(
    listening: tuple[Server, list[Link]],
) -> None:
    with socket.socket(socket.AF_UNIX) as raw:
        raw.connect(listening[0].path)
        raw.sendall(struct.pack(">II", 1, 100))
    while not listening[1]:
        await asyncio.sleep(0.001)
    assert await listening[1][0].wait_closed() == "closed by the peer in the middle of a message"


async def test_notices_reach_their_listener(listening: tuple[Server, list[Link]]) -> None:
    seen: list[Notice] = []
    link = await connect_unix(
        listening[0].path, lambda: Link(Connection(serves=1, calls=2), echo, seen.append)
    )
    await link.call("s", "m", b"")
    link.data_received(struct.pack(">II", 7, 2) + b"hi")
    assert seen == [FrameIgnored(7, 2)]
    link.close()


async def test_a_peer_that_does_not_read_responses_is_not_read() -> None:
    """Otherwise unsent responses would fill memory."""
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    theirs.setblocking(False)
    served = 0

    def count(link: Link, request: RequestReceived, arrived_ns: int) -> None:
        nonlocal served
        served += 1
        link.respond(request.stream_id, b"x" * 500_000)

    link = await adopt_descriptor(ours.detach(), lambda: Link(Connection(serves=1, calls=2), count))
    requests = Connection(serves=2, calls=1)
    stuck, loops = 0, 0
    pending = b""
    while stuck < 50:
        loops += 1
        if not pending:
            requests.send_request("s", "m", b"y" * 100)
            pending = b"".join(requests.data_to_send())
        try:
            pending = pending[theirs.send(pending) :]
            stuck = 0
        except BlockingIOError:
            stuck += 1
        await asyncio.sleep(0)
        assert loops < 100_000
    assert served < 60
    link.abort()
    theirs.close()


# -- sockets ----------------------------------------------------------------------------------


async def test_a_failed_connect_reports_its_reason(tmp_path: Path) -> None:
    plain = tmp_path / "file"
    plain.write_text("")
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(str(tmp_path / "dead"))
    for path, words in [
        (tmp_path / "none", "no such socket"),
        (plain, "not a socket"),
        (tmp_path, "not a socket"),
        (tmp_path / "dead", "no process listens"),
        (plain / "below", "not a folder"),
        (tmp_path / ("x" * 120), "at most 107"),
    ]:
        with pytest.raises(ConnectError, match=words):
            await connect_unix(path, lambda: Link(Connection(serves=1, calls=2), ignore))
    dead.close()


async def test_connect_without_permission(tmp_path: Path) -> None:
    path = tmp_path / "s"
    server = await listen_unix(path, lambda: Link(Connection(serves=2, calls=1), ignore))
    path.chmod(0)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        with pytest.raises(ConnectError, match="permission denied"):
            await connect_unix(path, lambda: Link(Connection(serves=1, calls=2), ignore))
    finally:
        if root:
            os.seteuid(0)
        await server.close()


async def test_listening_socket_is_private_and_removed_on_close(tmp_path: Path) -> None:
    path = tmp_path / "s"
    server = await listen_unix(path, lambda: Link(Connection(serves=2, calls=1), ignore))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(ConnectError, match="another process already listens"):
        await listen_unix(path, lambda: Link(Connection(serves=2, calls=1), ignore))
    await server.close()
    assert not path.exists()


async def test_listening_replaces_only_a_stale_socket(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    server = await listen_unix(path, lambda: Link(Connection(serves=2, calls=1), ignore))
    await server.close()
    path.write_text("precious")
    with pytest.raises(ConnectError, match="exists and is not a socket"):
        await listen_unix(path, lambda: Link(Connection(serves=2, calls=1), ignore))
    assert path.read_text() == "precious"


async def test_descriptor_must_be_a_unix_stream_socket() -> None:
    read, write = os.pipe()
    with pytest.raises(ConnectError, match="not a socket"):
        await adopt_descriptor(read, lambda: Link(Connection(serves=1, calls=2), ignore))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        with pytest.raises(ConnectError, match="not a unix stream socket"):
            await adopt_descriptor(
                other.fileno(), lambda: Link(Connection(serves=1, calls=2), ignore)
            )
        assert other.fileno() >= 0
    os.close(read)
    os.close(write)
