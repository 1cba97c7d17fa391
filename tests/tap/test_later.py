# SPDX-License-Identifier: Apache-2.0
"""Pieces that are looked at when there is time."""

from __future__ import annotations

import asyncio

import pytest

from nri_scope.tap import later as later_module
from nri_scope.tap.later import Later

Piece = tuple[bool, bytes, int, int]


def pieces(count: int) -> list[Piece]:
    return [(number % 2 == 0, b"%d" % number, number, number + 1) for number in range(count)]


def unexpected(error: Exception) -> None:
    raise AssertionError(error)


async def test_pieces_are_handed_on_in_order_but_not_at_once() -> None:
    heard: list[Piece] = []
    done = asyncio.Event()

    def hear(*piece: bool | bytes | int) -> None:
        heard.append(piece)  # type: ignore[arg-type]
        if len(heard) == 1000:
            done.set()

    later = Later(hear, unexpected)
    for piece in pieces(1000):
        later.put(*piece)
    assert heard == []
    await asyncio.wait_for(done.wait(), 10)
    assert heard == pieces(1000)


async def test_sockets_are_looked_at_between_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(later_module, "TURN_NS", 0)
    heard: list[bytes] = []
    later = Later(lambda forth, data, arrived_ns, passed_ns: heard.append(data), unexpected)
    for piece in pieces(50):
        later.put(*piece)
    between = set()
    while len(heard) < 50:
        between.add(len(heard))
        await asyncio.sleep(0)
    assert between == set(range(50))


async def test_at_the_end_nothing_waits() -> None:
    heard: list[bytes] = []
    later = Later(lambda forth, data, arrived_ns, passed_ns: heard.append(data), unexpected)
    for piece in pieces(3):
        later.put(*piece)
    later.finish()
    assert heard == [b"0", b"1", b"2"]


async def test_only_so_much_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(later_module, "WAITING_BYTES_MAX", 10 * (10 + later_module.PIECE_COST))
    heard: list[bytes] = []
    later = Later(lambda forth, data, arrived_ns, passed_ns: heard.append(data), unexpected)
    for _ in range(20):
        later.put(True, bytes(10), 0, 0)
    # With one too many all of them are handed on, and the rest waits again.
    assert len(heard) == 11


async def test_after_a_failure_nothing_is_handed_on_and_one_is_told() -> None:
    told: list[str] = []

    def fail(forth: bool, data: bytes, arrived_ns: int, passed_ns: int) -> None:
        raise ValueError(data.decode())

    later = Later(fail, lambda error: told.append(str(error)))
    for piece in pieces(5):
        later.put(*piece)
    later.finish()
    assert told == ["0"]
