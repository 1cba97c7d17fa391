# SPDX-License-Identifier: Apache-2.0
"""The channel between two processes: what waits, what is lost, and descriptors."""

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


class Heard:
    """Remembers what came."""

    def __init__(self) -> None:
        self.messages: list[tuple[int, bytes, Sequence[int]]] = []
        self.ended = asyncio.Event()
        self.something = asyncio.Event()

    def take(self, kind: int, payload: bytes, descriptors: Sequence[int]) -> None:
        self.messages.append((kind, payload, descriptors))
        self.something.set()

    async def count(self, number: int) -> None:
        async with asyncio.timeout(PATIENCE):
            while len(self.messages) < number:
                self.something.clear()
                await self.something.wait()


@contextmanager
def pair(delay_s: float = 0.0) -> Iterator[tuple[LoopChannel, Heard, socket.socket]]:
    """A channel, what it hears, and the socket of the other end."""
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    heard = Heard()
    channel = LoopChannel(ours, heard.take, heard.ended.set, delay_s=delay_s)
    with theirs:
        try:
            yield channel, heard, theirs
        finally:
            channel.close()


async def read(sock: socket.socket, count: int) -> list[tuple[int, bytes]]:
    """The next messages that come there."""
    reader, found = MessageReader(), list[tuple[int, bytes]]()
    async with asyncio.timeout(PATIENCE):
        while len(found) < count:
            data = await asyncio.get_running_loop().sock_recv(sock, 1 << 16)
            found += reader.feed(data)
    return found


async def test_messages_are_sent_in_order_but_not_at_once() -> None:
    with pair(delay_s=0.02) as (channel, _, theirs):
        wanted = [(1, b"%05d" % number) for number in range(20_000)]
        for kind, payload in wanted:
            channel.send(kind, payload)
        with pytest.raises(BlockingIOError):
            theirs.recv(1)
        assert await read(theirs, len(wanted)) == wanted


async def test_without_a_delay_they_are_sent_at_once() -> None:
    with pair() as (channel, _, theirs):
        channel.send(7, b"now", b"!")
        assert theirs.recv(100) == message(7, b"now!")


async def test_sockets_are_looked_at_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_module, "TURN_BYTES", 30)
    with pair(delay_s=0.01) as (channel, _, theirs):
        for _ in range(50):
            channel.send(1, b"ten bytes.")
        heard = await asyncio.get_running_loop().sock_recv(theirs, 1000)
        # The loop had its turn before all of it was told.
        assert 0 < len(heard) < 100
        await channel.drain(PATIENCE)
        assert len(heard) + len(theirs.recv(1000)) == 50 * len(message(1, b"ten bytes."))


async def test_who_does_not_listen_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_module, "WAITING_BYTES_MAX", 1 << 20)
    with pair() as (channel, _, theirs):
        offered = 0
        while channel.offer(1, bytes(1 << 16)):
            offered += 1
            await asyncio.sleep(0)
        # What must not be lost is not.
        channel.send(2, b"the last")
        await channel.drain(0.01)
        found = await read(theirs, offered + 1)
        assert [kind for kind, _ in found] == [1] * offered + [2]
        # There is room again.
        assert channel.offer(1, b"more")
        assert await read(theirs, 1) == [(1, b"more")]


async def test_says_when_the_other_one_is_gone() -> None:
    with pair() as (channel, heard, theirs):
        theirs.close()
        channel.send(1, b"too late")
        async with asyncio.timeout(PATIENCE):
            await heard.ended.wait()
        channel.send(1, b"harmless")
        # And it is not waited for.
        await channel.drain(PATIENCE)


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, loop_factory()])
@pytest.mark.parametrize("is_full", [False, True])
def test_the_end_is_told_although_there_is_something_to_be_read_and_to_be_sent(
    loop: Callable[[], asyncio.AbstractEventLoop], is_full: bool
) -> None:
    """One that dies with unread orders resets the connection: event loops tell of that once."""

    async def break_off() -> None:
        with pair() as (channel, heard, theirs):
            channel.send(1, b"x" * (4 << 20 if is_full else 1))
            await asyncio.sleep(0)
            theirs.send(message(1, b"the last words"))
            theirs.close()
            async with asyncio.timeout(PATIENCE):
                while channel.receives:
                    await heard.ended.wait()
                    heard.ended.clear()
            assert [payload for _, payload, _ in heard.messages] == [b"the last words"]

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(break_off())


async def test_what_is_no_message_ends_it() -> None:
    with pair() as (_, heard, theirs):
        theirs.send(message(5, b"fine") + HEAD.pack(PAYLOAD_MAX + 1, 0) + b"x")
        async with asyncio.timeout(PATIENCE):
            await heard.ended.wait()
        assert heard.messages == [(5, b"fine", ())]


async def test_descriptors_come_with_their_message_whatever_is_beside_it() -> None:
    ours, theirs = socket.socketpair()
    sent, got = Heard(), Heard()
    one, other = (
        LoopChannel(ours, sent.take, sent.ended.set),
        LoopChannel(theirs, got.take, got.ended.set),
    )
    pipes = [os.pipe() for _ in range(3)]
    try:
        one.send(1, b"before")
        one.send_with(pipes[0], 2, b"two")
        one.send(3, b"between")
        # Larger than what is read at once, and than what the socket takes.
        one.send_with(pipes[1][:1], 4, bytes(300_000))
        with pytest.raises(BlockingIOError):
            one.send_with(pipes[2], 5)
        one.send(6, b"after")
        await got.count(5)
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


async def test_descriptors_for_which_there_is_no_room_are_missed_by_their_own_message() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    ours, theirs = socket.socketpair()
    sent, got = Heard(), Heard()
    one, other = (
        LoopChannel(ours, sent.take, sent.ended.set),
        LoopChannel(theirs, got.take, got.ended.set),
    )
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (4, hard))
        one.send_with((ours.fileno(), theirs.fileno()), 1)
        await got.count(1)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        one.send_with((ours.fileno(),), 2)
        await got.count(2)
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
    assert all(told == (1, payload) for told in found)
    ours.shutdown(socket.SHUT_WR)
    assert other.receive() is None
    # The other way is open.
    other.send(1, b"last words")
    assert one.receive() == (1, b"last words")
    ours.close()
    other.send(1, b"harmless")
    theirs.close()
