# SPDX-License-Identifier: Apache-2.0
"""What waits to be told to another process."""

from __future__ import annotations

import asyncio
import socket

import pytest

from nri_scope.tap import outbox as outbox_module
from nri_scope.tap.outbox import Outbox

PATIENCE = 10


async def test_is_told_in_order_but_not_at_once() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        outbox = Outbox(ours, lambda: None)
        wanted = [b"%05d" % number for number in range(20_000)]
        for one in wanted:
            outbox.put(one)
        theirs.setblocking(False)
        with pytest.raises(BlockingIOError):
            theirs.recv(1)
        heard = b""
        while len(heard) < 5 * len(wanted):
            async with asyncio.timeout(PATIENCE):
                heard += await asyncio.get_running_loop().sock_recv(theirs, 1 << 16)
        assert heard == b"".join(wanted)


async def test_sockets_are_looked_at_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox_module, "TURN_BYTES", 10)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        outbox = Outbox(ours, lambda: None)
        for _ in range(50):
            outbox.put(b"ten bytes.")
        theirs.setblocking(False)
        heard = await asyncio.get_running_loop().sock_recv(theirs, 1000)
        # The loop had its turn before all of it was told.
        assert 0 < len(heard) < 100
        await outbox.drain(PATIENCE)
        assert len(heard) + len(theirs.recv(1000)) == 500


async def test_nobody_who_does_not_listen_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox_module, "WAITING_BYTES_MAX", 1 << 20)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        outbox = Outbox(ours, lambda: None)
        while not outbox.is_full:
            outbox.put(bytes(1 << 16))
            await asyncio.sleep(0)
        await outbox.drain(0.01)
        theirs.setblocking(False)
        loop = asyncio.get_running_loop()
        # As soon as somebody does, there is room again.
        async with asyncio.timeout(PATIENCE):
            while outbox.is_full:
                assert await loop.sock_recv(theirs, 1 << 20)


async def test_says_when_the_other_one_is_gone() -> None:
    ours, theirs = socket.socketpair()
    gone = asyncio.Event()
    with ours:
        outbox = Outbox(ours, gone.set)
        theirs.close()
        outbox.put(b"too late")
        async with asyncio.timeout(PATIENCE):
            await gone.wait()
        # And it is not waited for.
        await outbox.drain(PATIENCE)
