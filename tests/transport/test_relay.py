# SPDX-License-Identifier: Apache-2.0
"""A relay between real sockets: nobody can tell whether it is there."""

from __future__ import annotations

import asyncio
import gc
import random
import socket
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nri_scope.transport.loop import loop_factory
from nri_scope.transport.relay import PIECE_MAX, Relay, RelayEnd


@dataclass
class Heard:
    """What a relay told of both ways."""

    forth: bytearray = field(default_factory=bytearray)
    back: bytearray = field(default_factory=bytearray)
    times: list[tuple[int, int]] = field(default_factory=list)

    def __call__(self, forth: bool, data: bytes, arrived_ns: int, passed_ns: int) -> None:
        (self.forth if forth else self.back).extend(data)
        self.times.append((arrived_ns, passed_ns))


class Ends:
    """Both peers of a relay, and the relay."""

    def __init__(self, heard: Callable[[bool, bytes, int, int], None] | None = None) -> None:
        self.first, first = socket.socketpair()
        self.second, second = socket.socketpair()
        self.first.setblocking(False)
        self.second.setblocking(False)
        self.heard = Heard()
        self.relay = Relay(first, second, heard or self.heard)

    async def end(self) -> RelayEnd:
        return await asyncio.wait_for(self.relay.wait_closed(), 10)

    def close(self) -> None:
        self.relay.close()
        self.first.close()
        self.second.close()


async def say(sock: socket.socket, pieces: list[bytes]) -> None:
    """Write pieces one by one, and let others run in between."""
    for piece in pieces:
        await asyncio.get_running_loop().sock_sendall(sock, piece)
        await asyncio.sleep(0)


async def hear(sock: socket.socket, steps: list[int]) -> bytes:
    """Everything until the end, in reads of these sizes, again and again."""
    heard = bytearray()
    number = 0
    while True:
        data = await asyncio.get_running_loop().sock_recv(sock, steps[number % len(steps)])
        if not data:
            return bytes(heard)
        heard += data
        number += 1
        await asyncio.sleep(0)


async def hear_until_gone(sock: socket.socket) -> tuple[bytes, bool]:
    """Everything, and whether it ended with a reset."""
    heard = bytearray()
    try:
        while data := await asyncio.get_running_loop().sock_recv(sock, 1 << 16):
            heard += data
    except ConnectionResetError:
        return bytes(heard), True
    return bytes(heard), False


def run(main: Callable[[], object], *, ours: bool = True) -> None:
    with asyncio.Runner(loop_factory=loop_factory() if ours else None) as runner:
        runner.run(main())  # type: ignore[arg-type]


_PIECES = st.lists(
    st.integers(1, 70_000) | st.sampled_from((PIECE_MAX, PIECE_MAX + 1, 4 << 20)), max_size=6
)
_STEPS = st.lists(st.integers(1_000, 300_000), min_size=1, max_size=4)


@settings(max_examples=40, deadline=None)
@given(_PIECES, _PIECES, _STEPS, _STEPS, st.integers(0, 9), st.booleans())
def test_whatever_both_say_at_once_comes_unchanged_and_so_do_half_closes(
    forth: list[int],
    back: list[int],
    first_steps: list[int],
    second_steps: list[int],
    seed: int,
    ours: bool,
) -> None:
    chance = random.Random(seed)
    said = [[chance.randbytes(size) for size in sizes] for sizes in (forth, back)]

    async def one(sock: socket.socket, pieces: list[bytes], steps: list[int]) -> bytes:
        async def speak() -> None:
            await say(sock, pieces)
            sock.shutdown(socket.SHUT_WR)

        speaking = asyncio.create_task(speak())
        heard = await hear(sock, steps)
        await speaking
        return heard

    async def main() -> None:
        ends = Ends()
        at_first, at_second = await asyncio.gather(
            one(ends.first, said[0], first_steps), one(ends.second, said[1], second_steps)
        )
        assert at_second == b"".join(said[0]) == ends.heard.forth
        assert at_first == b"".join(said[1]) == ends.heard.back
        assert (await ends.end()).words == ""
        assert all(arrived <= passed for arrived, passed in ends.heard.times)
        ends.close()

    run(main, ours=ours)


@pytest.mark.parametrize("size", [1, PIECE_MAX, 4 << 20])
async def test_a_message_of_any_size_comes_whole(size: int) -> None:
    ends = Ends()
    said = random.Random(size).randbytes(size)

    async def echo() -> None:
        left = size
        while left:
            data = await asyncio.get_running_loop().sock_recv(ends.second, 1 << 20)
            left -= len(data)
            await asyncio.get_running_loop().sock_sendall(ends.second, data)
        ends.second.shutdown(socket.SHUT_WR)

    echoing = asyncio.create_task(echo())
    saying = asyncio.create_task(say(ends.first, [said]))
    assert await hear(ends.first, [1 << 20]) == said
    await asyncio.gather(echoing, saying)
    ends.close()


@pytest.mark.parametrize("first", [True, False])
async def test_an_end_that_closes_is_heard_to_the_last_byte_and_closed_at_the_other(
    first: bool,
) -> None:
    ends = Ends()
    closing, other = (ends.first, ends.second) if first else (ends.second, ends.first)
    closing.send(b"last words")
    closing.close()
    assert await hear(other, [3]) == b"last words"
    end = await ends.end()
    assert end == RelayEnd(first, "")
    with pytest.raises(BrokenPipeError):
        other.send(b"too late")
    ends.close()


async def test_an_end_that_half_closes_is_written_to_until_it_is_gone() -> None:
    ends = Ends()
    ends.first.shutdown(socket.SHUT_WR)
    assert await hear(ends.second, [10]) == b""
    await say(ends.second, [b"still there?"])
    assert await asyncio.get_running_loop().sock_recv(ends.first, 100) == b"still there?"
    ends.first.close()
    assert await ends.end() == RelayEnd(True, "")
    with pytest.raises(BrokenPipeError):
        ends.second.send(b"and now?")
    ends.close()


async def test_an_end_that_did_not_read_all_before_it_closed_resets_as_it_does_without() -> None:
    ends = Ends()
    ends.second.send(b"never read")
    ends.first.send(b"last words")
    while not ends.heard.back or not ends.heard.forth:
        await asyncio.sleep(0.001)
    ends.first.close()
    heard, _ = await hear_until_gone(ends.second)
    assert heard == b"last words"
    end = await ends.end()
    assert end.first is True
    assert "reset" in end.words
    ends.close()


async def fill(ends: Ends) -> int:
    """Write to the second end, which does not read, until there is no room; how much went in."""
    said = 0
    while True:
        try:
            said += ends.first.send(bytes(10_000))
        except BlockingIOError:
            if ends.relay._forth.waiting:
                return said
        await asyncio.sleep(0)


async def test_who_is_not_read_is_not_read_from() -> None:
    ends = Ends()
    said = await fill(ends)
    # What two sockets and one piece hold.
    assert said < 2_000_000
    # The other way is free meanwhile.
    await say(ends.second, [b"hello"])
    assert await asyncio.get_running_loop().sock_recv(ends.first, 10) == b"hello"
    ends.first.close()
    # All of it comes once somebody reads, although the sender is gone by then.
    assert len(await hear(ends.second, [100_000])) == said == len(ends.heard.forth)
    assert (await ends.end()).first is True
    ends.close()


async def test_an_end_that_is_gone_while_its_last_words_wait_costs_no_processor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[None] = []
    ready = Relay._ready

    def counted(relay: Relay) -> None:
        calls.append(None)
        ready(relay)

    monkeypatch.setattr(Relay, "_ready", counted)
    ends = Ends()
    await fill(ends)
    ends.first.close()
    calls.clear()
    for _ in range(100):
        await asyncio.sleep(0)
    assert len(calls) < 5
    assert not ends.relay.closed
    ends.second.close()
    assert (await ends.end()).first is False
    ends.close()


async def test_what_is_said_before_the_end_is_gone_comes_although_the_other_still_writes() -> None:
    ends = Ends()
    loop = asyncio.get_running_loop()
    ends.second.send(b"goodbye")
    ends.second.close()

    async def go_on() -> None:
        while True:
            await loop.sock_sendall(ends.first, b"are you there?")
            await asyncio.sleep(0)

    with pytest.raises((BrokenPipeError, ConnectionResetError)):
        await go_on()
    heard, _ = await hear_until_gone(ends.first)
    assert heard == b"goodbye"
    assert (await ends.end()).first is False
    ends.close()


async def test_what_goes_wrong_with_hearing_does_not_reach_the_relay() -> None:
    failures: list[Exception] = []

    def broken(forth: bool, data: bytes, arrived_ns: int, passed_ns: int) -> None:
        raise ValueError("who said that?")

    ends = Ends(broken)
    ends.relay._on_failure = failures.append
    for word in (b"one", b"two"):
        await say(ends.first, [word])
        assert await asyncio.get_running_loop().sock_recv(ends.second, 10) == word
    assert [str(failure) for failure in failures] == ["who said that?"]
    ends.close()


async def test_it_can_be_closed_from_here() -> None:
    ends = Ends()
    ends.relay.close("enough")
    assert await ends.end() == RelayEnd(None, "enough")
    assert await hear(ends.first, [10]) == b""
    assert await hear(ends.second, [10]) == b""
    ends.close()


async def test_one_that_is_over_keeps_no_room_for_pieces() -> None:
    tracemalloc.start()
    gc.disable()
    try:
        before, _ = tracemalloc.get_traced_memory()
        kept: list[Relay] = []
        for _ in range(8):
            ends = Ends()
            ends.relay.close()
            ends.close()
            kept.append(ends.relay)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        gc.enable()
        tracemalloc.stop()
    assert all(relay.closed for relay in kept)
    assert after - before < PIECE_MAX
