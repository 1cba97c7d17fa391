# SPDX-License-Identifier: Apache-2.0
"""A relay between real sockets behaves like a direct connection."""

from __future__ import annotations

import asyncio
import gc
import random
import select
import socket
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nri_scope.transport import relay as relay_module
from nri_scope.transport.loop import loop_factory
from nri_scope.transport.relay import PIECE_MAX, Relay, RelayEnd
from tests.amount import amount


@dataclass
class Reported:
    """Bytes that a relay reported for each direction."""

    forth: bytearray = field(default_factory=bytearray)
    back: bytearray = field(default_factory=bytearray)
    times: list[tuple[int, int]] = field(default_factory=list)

    def __call__(self, forth: bool, data: bytes, arrived_ns: int, passed_ns: int) -> None:
        (self.forth if forth else self.back).extend(data)
        self.times.append((arrived_ns, passed_ns))


class Ends:
    """Both peers of a relay, and the relay."""

    def __init__(self, on_piece: Callable[[bool, bytes, int, int], None] | None = None) -> None:
        self.first, first = socket.socketpair()
        self.second, second = socket.socketpair()
        self.first.setblocking(False)
        self.second.setblocking(False)
        self.reported = Reported()
        self.relay = Relay(first, second, on_piece or self.reported)

    async def end(self) -> RelayEnd:
        return await asyncio.wait_for(self.relay.wait_closed(), 10)

    def close(self) -> None:
        self.relay.close()
        self.first.close()
        self.second.close()


async def send(sock: socket.socket, pieces: list[bytes]) -> None:
    """Write pieces one by one, and run other tasks in between."""
    for piece in pieces:
        await asyncio.get_running_loop().sock_sendall(sock, piece)
        await asyncio.sleep(0)


async def receive_all(sock: socket.socket, sizes: list[int]) -> bytes:
    """Receive until the end of the stream, with reads of ``sizes`` in turn."""
    received = bytearray()
    number = 0
    while True:
        data = await asyncio.get_running_loop().sock_recv(sock, sizes[number % len(sizes)])
        if not data:
            return bytes(received)
        received += data
        number += 1
        await asyncio.sleep(0)


async def receive_until_closed(sock: socket.socket) -> tuple[bytes, bool]:
    """Receive all data; return it, and whether the stream ended with a reset."""
    received = bytearray()
    try:
        while data := await asyncio.get_running_loop().sock_recv(sock, 1 << 16):
            received += data
    except ConnectionResetError:
        return bytes(received), True
    return bytes(received), False


def run(main: Callable[[], object], *, is_uvloop: bool = True) -> None:
    with asyncio.Runner(loop_factory=loop_factory() if is_uvloop else None) as runner:
        runner.run(main())  # type: ignore[arg-type]


_PIECES = st.lists(
    st.integers(1, 70_000) | st.sampled_from((PIECE_MAX, PIECE_MAX + 1, 4 << 20)), max_size=6
)
_SIZES = st.lists(st.integers(1_000, 300_000), min_size=1, max_size=4)


@pytest.mark.exhaustive
@settings(max_examples=amount(40, 40), deadline=None)
@given(_PIECES, _PIECES, _SIZES, _SIZES, st.integers(0, 9), st.booleans())
def test_bytes_in_both_directions_and_half_closes_are_relayed_unchanged(
    forth: list[int],
    back: list[int],
    first_sizes: list[int],
    second_sizes: list[int],
    seed: int,
    is_uvloop: bool,
) -> None:
    chance = random.Random(seed)
    sent = [[chance.randbytes(size) for size in sizes] for sizes in (forth, back)]

    async def exchange(sock: socket.socket, pieces: list[bytes], sizes: list[int]) -> bytes:
        async def send_all() -> None:
            await send(sock, pieces)
            sock.shutdown(socket.SHUT_WR)

        sending = asyncio.create_task(send_all())
        received = await receive_all(sock, sizes)
        await sending
        return received

    async def main() -> None:
        ends = Ends()
        at_first, at_second = await asyncio.gather(
            exchange(ends.first, sent[0], first_sizes), exchange(ends.second, sent[1], second_sizes)
        )
        assert at_second == b"".join(sent[0]) == ends.reported.forth
        assert at_first == b"".join(sent[1]) == ends.reported.back
        assert (await ends.end()).reason == ""
        assert all(arrived <= passed for arrived, passed in ends.reported.times)
        ends.close()

    run(main, is_uvloop=is_uvloop)


@pytest.mark.parametrize("size", [1, PIECE_MAX, 4 << 20])
async def test_a_message_of_any_size_is_relayed_completely(size: int) -> None:
    ends = Ends()
    sent = random.Random(size).randbytes(size)

    async def echo() -> None:
        left = size
        while left:
            data = await asyncio.get_running_loop().sock_recv(ends.second, 1 << 20)
            left -= len(data)
            await asyncio.get_running_loop().sock_sendall(ends.second, data)
        ends.second.shutdown(socket.SHUT_WR)

    echoing = asyncio.create_task(echo())
    sending = asyncio.create_task(send(ends.first, [sent]))
    assert await receive_all(ends.first, [1 << 20]) == sent
    await asyncio.gather(echoing, sending)
    ends.close()


@pytest.mark.parametrize("first", [True, False])
async def test_all_bytes_before_a_close_are_relayed_before_the_other_end_is_closed(
    first: bool,
) -> None:
    ends = Ends()
    closing, other = (ends.first, ends.second) if first else (ends.second, ends.first)
    closing.send(b"last words")
    closing.close()
    assert await receive_all(other, [3]) == b"last words"
    end = await ends.end()
    assert end == RelayEnd(first, "")
    with pytest.raises(BrokenPipeError):
        other.send(b"too late")
    ends.close()


async def test_a_half_closed_end_still_receives_data() -> None:
    ends = Ends()
    ends.first.shutdown(socket.SHUT_WR)
    assert await receive_all(ends.second, [10]) == b""
    await send(ends.second, [b"still there?"])
    assert await asyncio.get_running_loop().sock_recv(ends.first, 100) == b"still there?"
    ends.first.close()
    assert await ends.end() == RelayEnd(True, "")
    with pytest.raises(BrokenPipeError):
        ends.second.send(b"and now?")
    ends.close()


async def test_an_end_that_closes_with_unread_data_causes_a_reset() -> None:
    ends = Ends()
    ends.second.send(b"never read")
    ends.first.send(b"last words")
    while not ends.reported.back or not ends.reported.forth:
        await asyncio.sleep(0.001)
    ends.first.close()
    received, _ = await receive_until_closed(ends.second)
    assert received == b"last words"
    end = await ends.end()
    assert end.by_first is True
    assert "reset" in end.reason
    ends.close()


async def fill(ends: Ends, *, forth: bool = True) -> int:
    """Send from one end until all buffers are full; return the number of bytes sent."""
    source, direction = (
        (ends.first, ends.relay._forth) if forth else (ends.second, ends.relay._back)
    )
    sent = 0
    while True:
        try:
            sent += source.send(bytes(10_000))
        except BlockingIOError:
            if direction.queued:
                return sent
        await asyncio.sleep(0)


async def test_a_peer_is_not_read_while_the_other_does_not_read() -> None:
    ends = Ends()
    sent = await fill(ends)
    # At most the buffers of two sockets and one piece.
    assert sent < 2_000_000
    # The other direction still works.
    await send(ends.second, [b"hello"])
    assert await asyncio.get_running_loop().sock_recv(ends.first, 10) == b"hello"
    ends.first.close()
    # All data arrives once the second end reads, although the sender is gone by then.
    assert len(await receive_all(ends.second, [100_000])) == sent == len(ends.reported.forth)
    assert (await ends.end()).by_first is True
    ends.close()


async def test_a_closed_end_whose_data_is_queued_is_not_polled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[None] = []

    class Counted:
        def __init__(self) -> None:
            self._epoll = epoll()

        def __getattr__(self, name: str) -> object:
            if name == "poll":
                calls.append(None)
            return getattr(self._epoll, name)

    epoll = select.epoll
    monkeypatch.setattr(select, "epoll", Counted)
    ends = Ends()
    await fill(ends)
    ends.first.close()
    calls.clear()
    for _ in range(100):
        await asyncio.sleep(0)
    assert len(calls) < 5
    assert not ends.relay.closed
    ends.second.close()
    assert (await ends.end()).by_first is False
    ends.close()


@pytest.mark.parametrize("closes_first", [True, False])
@pytest.mark.parametrize("full", [(True,), (False,), (True, False)])
async def test_a_peer_that_never_reads_does_not_keep_the_relay_of_a_closed_one(
    full: tuple[bool, ...], closes_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay_module, "LAST_S", 0.05)
    ends = Ends()
    for forth in full:
        await fill(ends, forth=forth)
    (ends.first if closes_first else ends.second).close()
    assert (await ends.end()).by_first is closes_first
    assert ends.relay.closed
    for sock in ends.relay._sockets:
        assert sock.fileno() == -1
    timer = ends.relay._last_timer
    assert timer is None or timer.cancelled() or timer.when() <= asyncio.get_running_loop().time()
    ends.close()


async def test_bytes_sent_before_a_close_arrive_although_the_other_end_still_writes() -> None:
    ends = Ends()
    loop = asyncio.get_running_loop()
    ends.second.send(b"goodbye")
    ends.second.close()

    async def write_on() -> None:
        while True:
            await loop.sock_sendall(ends.first, b"are you there?")
            await asyncio.sleep(0)

    with pytest.raises((BrokenPipeError, ConnectionResetError)):
        await write_on()
    received, _ = await receive_until_closed(ends.first)
    assert received == b"goodbye"
    assert (await ends.end()).by_first is False
    ends.close()


async def test_an_error_of_the_listener_does_not_end_the_relay() -> None:
    failures: list[Exception] = []

    def broken(forth: bool, data: bytes, arrived_ns: int, passed_ns: int) -> None:
        raise ValueError("listener failed")

    ends = Ends(broken)
    ends.relay._on_failure = failures.append
    for word in (b"one", b"two"):
        await send(ends.first, [word])
        assert await asyncio.get_running_loop().sock_recv(ends.second, 10) == word
    assert [str(failure) for failure in failures] == ["listener failed"]
    ends.close()


async def test_a_relay_can_be_closed() -> None:
    ends = Ends()
    ends.relay.close("enough")
    assert await ends.end() == RelayEnd(None, "enough")
    assert await receive_all(ends.first, [10]) == b""
    assert await receive_all(ends.second, [10]) == b""
    ends.close()


async def test_a_closed_relay_frees_its_buffer() -> None:
    tracemalloc.start()
    gc.disable()
    try:
        before, _ = tracemalloc.get_traced_memory()
        relays: list[Relay] = []
        for _ in range(8):
            ends = Ends()
            ends.relay.close()
            ends.close()
            relays.append(ends.relay)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        gc.enable()
        tracemalloc.stop()
    assert all(relay.closed for relay in relays)
    assert after - before < PIECE_MAX
