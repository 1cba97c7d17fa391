# SPDX-License-Identifier: Apache-2.0
"""The channel between two processes: queueing and its end."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from nri_scope.process.channel import (
    HEAD,
    PAYLOAD_MAX,
    ChannelReader,
    LoopChannel,
    ThreadChannel,
    message,
)
from nri_scope.transport.loop import loop_factory

PATIENCE = 60


class Receiver:
    """Stores received messages."""

    def __init__(self) -> None:
        self.messages: list[tuple[int, bytes]] = []
        self.ended = asyncio.Event()
        self.arrived = asyncio.Event()

    def on_message(self, kind: int, payload: bytes) -> None:
        self.messages.append((kind, payload))
        self.arrived.set()

    async def wait_for(self, number: int) -> None:
        async with asyncio.timeout(PATIENCE):
            while len(self.messages) < number:
                self.arrived.clear()
                await self.arrived.wait()


@contextmanager
def pair() -> Iterator[tuple[LoopChannel, Receiver, socket.socket]]:
    """A channel, its receiver, and the socket of the other end."""
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    received = Receiver()
    channel = LoopChannel(ours, received.on_message, received.ended.set)
    with theirs:
        try:
            yield channel, received, theirs
        finally:
            channel.close()


async def read(sock: socket.socket, count: int) -> list[tuple[int, bytes]]:
    """Receive the next messages."""
    reader, found = ChannelReader(), list[tuple[int, bytes]]()
    async with asyncio.timeout(PATIENCE):
        while len(found) < count:
            data = await asyncio.get_running_loop().sock_recv(sock, 1 << 16)
            found += reader.feed(data)
    return found


async def test_messages_beyond_the_sockets_buffer_are_sent_in_order() -> None:
    with pair() as (channel, _, theirs):
        expected = [(1, b"%05d" % number) for number in range(100_000)]
        for kind, payload in expected:
            channel.send(kind, payload)
        assert channel.waiting_bytes > 0
        assert await read(theirs, len(expected)) == expected
        assert channel.waiting_bytes == 0


async def test_messages_are_sent_immediately() -> None:
    with pair() as (channel, _, theirs):
        channel.send(7, b"now", b"!")
        assert theirs.recv(100) == message(7, b"now!")


async def test_the_end_is_reported_when_a_message_cannot_be_sent() -> None:
    with pair() as (channel, received, theirs):
        theirs.close()
        channel.send(1, b"too late")
        async with asyncio.timeout(PATIENCE):
            await received.ended.wait()
        channel.send(1, b"harmless")
        assert channel.waiting_bytes == 0


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, loop_factory()])
@pytest.mark.parametrize("is_full", [False, True])
def test_the_last_messages_of_a_process_that_ended_without_reading_are_received(
    loop: Callable[[], asyncio.AbstractEventLoop], is_full: bool
) -> None:
    """A process that ends with unread messages resets the connection, which is reported once."""

    async def break_off() -> None:
        with pair() as (channel, received, theirs):
            channel.send(1, b"x" * (4 << 20 if is_full else 1))
            await asyncio.sleep(0)
            theirs.send(message(1, b"the last words"))
            theirs.close()
            async with asyncio.timeout(PATIENCE):
                while channel.can_receive:
                    await received.ended.wait()
                    received.ended.clear()
            assert [payload for _, payload in received.messages] == [b"the last words"]

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(break_off())


async def test_an_invalid_message_ends_the_channel() -> None:
    with pair() as (_, received, theirs):
        theirs.send(message(5, b"fine") + HEAD.pack(PAYLOAD_MAX + 1, 0) + b"x")
        async with asyncio.timeout(PATIENCE):
            await received.ended.wait()
        assert received.messages == [(5, b"fine")]


def test_threads_send_and_receive() -> None:
    ours, theirs = socket.socketpair()
    one, other = ThreadChannel(ours), ThreadChannel(theirs)
    payload = bytes(500_000)

    def send() -> None:
        for _ in range(5):
            one.send(1, payload)

    senders = [threading.Thread(target=send) for _ in range(3)]
    for sender in senders:
        sender.start()
    found = [other.receive() for _ in range(15)]
    for sender in senders:
        sender.join()
    assert all(each == (1, payload) for each in found)
    ours.shutdown(socket.SHUT_WR)
    assert other.receive() is None
    # The other direction is still open.
    other.send(1, b"last words")
    assert one.receive() == (1, b"last words")
    ours.close()
    other.send(1, b"harmless")
    theirs.close()
