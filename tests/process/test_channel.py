# SPDX-License-Identifier: Apache-2.0
"""The channel between two processes: queueing, dropped messages and descriptors."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest

from nri_scope.process import channel as channel_module
from nri_scope.process.channel import LoopChannel, ThreadChannel
from nri_scope.process.messages import HEAD, PAYLOAD_MAX, MessageReader, message
from nri_scope.transport.loop import loop_factory

PATIENCE = 60


class Receiver:
    """Stores received messages."""

    def __init__(self) -> None:
        self.messages: list[tuple[int, bytes, Sequence[int]]] = []
        self.ended = asyncio.Event()
        self.arrived = asyncio.Event()

    def on_message(self, kind: int, payload: bytes, descriptors: Sequence[int]) -> None:
        self.messages.append((kind, payload, descriptors))
        self.arrived.set()

    async def wait_for(self, number: int) -> None:
        async with asyncio.timeout(PATIENCE):
            while len(self.messages) < number:
                self.arrived.clear()
                await self.arrived.wait()


@contextmanager
def pair(delay_s: float = 0.0) -> Iterator[tuple[LoopChannel, Receiver, socket.socket]]:
    """A channel, its receiver, and the socket of the other end."""
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    received = Receiver()
    channel = LoopChannel(ours, received.on_message, received.ended.set, delay_s=delay_s)
    with theirs:
        try:
            yield channel, received, theirs
        finally:
            channel.close()


async def read(sock: socket.socket, count: int) -> list[tuple[int, bytes]]:
    """Receive the next messages."""
    reader, found = MessageReader(), list[tuple[int, bytes]]()
    async with asyncio.timeout(PATIENCE):
        while len(found) < count:
            data = await asyncio.get_running_loop().sock_recv(sock, 1 << 16)
            found += reader.feed(data)
    return found


async def test_messages_are_sent_in_order_after_a_delay() -> None:
    with pair(delay_s=0.02) as (channel, _, theirs):
        expected = [(1, b"%05d" % number) for number in range(20_000)]
        for kind, payload in expected:
            channel.send(kind, payload)
        with pytest.raises(BlockingIOError):
            theirs.recv(1)
        assert await read(theirs, len(expected)) == expected


async def test_messages_without_a_delay_are_sent_immediately() -> None:
    with pair() as (channel, _, theirs):
        channel.send(7, b"now", b"!")
        assert theirs.recv(100) == message(7, b"now!")


async def test_the_loop_runs_between_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_module, "TURN_BYTES", 30)
    with pair(delay_s=0.01) as (channel, _, theirs):
        for _ in range(50):
            channel.send(1, b"ten bytes.")
        first = await asyncio.get_running_loop().sock_recv(theirs, 1000)
        # The loop ran before all messages were sent.
        assert 0 < len(first) < 100
        await channel.drain(PATIENCE)
        assert len(first) + len(theirs.recv(1000)) == 50 * len(message(1, b"ten bytes."))


async def test_offers_are_dropped_while_the_other_end_does_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(channel_module, "WAITING_BYTES_MAX", 1 << 20)
    with pair() as (channel, _, theirs):
        offered = 0
        while channel.offer(1, bytes(1 << 16)):
            offered += 1
            await asyncio.sleep(0)
        # `send` never drops a message.
        channel.send(2, b"the last")
        await channel.drain(0.01)
        found = await read(theirs, offered + 1)
        assert [kind for kind, _ in found] == [1] * offered + [2]
        # The queue is empty again.
        assert channel.offer(1, b"more")
        assert await read(theirs, 1) == [(1, b"more")]


async def test_the_end_is_reported_when_a_message_cannot_be_sent() -> None:
    with pair() as (channel, received, theirs):
        theirs.close()
        channel.send(1, b"too late")
        async with asyncio.timeout(PATIENCE):
            await received.ended.wait()
        channel.send(1, b"harmless")
        # Nothing is queued, so this returns immediately.
        await channel.drain(PATIENCE)


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
            assert [payload for _, payload, _ in received.messages] == [b"the last words"]

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(break_off())


async def test_an_invalid_message_ends_the_channel() -> None:
    with pair() as (_, received, theirs):
        theirs.send(message(5, b"fine") + HEAD.pack(PAYLOAD_MAX + 1, 0) + b"x")
        async with asyncio.timeout(PATIENCE):
            await received.ended.wait()
        assert received.messages == [(5, b"fine", ())]


async def test_descriptors_arrive_with_their_message() -> None:
    ours, theirs = socket.socketpair()
    unused, got = Receiver(), Receiver()
    one, other = (
        LoopChannel(ours, unused.on_message, unused.ended.set),
        LoopChannel(theirs, got.on_message, got.ended.set),
    )
    pipes = [os.pipe() for _ in range(3)]
    try:
        one.send(1, b"before")
        one.send_descriptors(pipes[0], 2, b"two")
        one.send(3, b"between")
        # Larger than one read, and than the socket's buffer.
        one.send_descriptors(pipes[1][:1], 4, bytes(300_000))
        with pytest.raises(BlockingIOError):
            one.send_descriptors(pipes[2], 5)
        one.send(6, b"after")
        await got.wait_for(5)
        counts = [(kind, len(found)) for kind, _, found in got.messages]
        assert counts == [(1, 0), (2, 2), (3, 0), (4, 1), (6, 0)]
        for (_, _, found), passed in zip(
            (got.messages[1], got.messages[3]), (pipes[0], pipes[1]), strict=True
        ):
            for copy, original in zip(found, passed, strict=False):
                assert os.path.sameopenfile(copy, original)
                os.close(copy)
    finally:
        for descriptor in (each for both in pipes for each in both):
            os.close(descriptor)
        one.close()
        other.close()


async def test_descriptors_without_free_numbers_are_missing_from_their_own_message() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    ours, theirs = socket.socketpair()
    unused, got = Receiver(), Receiver()
    one, other = (
        LoopChannel(ours, unused.on_message, unused.ended.set),
        LoopChannel(theirs, got.on_message, got.ended.set),
    )
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (4, hard))
        one.send_descriptors((ours.fileno(), theirs.fileno()), 1)
        await got.wait_for(1)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        one.send_descriptors((ours.fileno(),), 2)
        await got.wait_for(2)
        assert [(kind, len(found)) for kind, _, found in got.messages] == [(1, 0), (2, 1)]
        os.close(got.messages[1][2][0])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        one.close()
        other.close()


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
