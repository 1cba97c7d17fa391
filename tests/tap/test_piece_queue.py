# SPDX-License-Identifier: Apache-2.0
"""The queue of relayed data that waits to be decoded."""

from __future__ import annotations

import asyncio
from typing import cast

from nri_scope.tap.connection import WAIT_S, PieceQueue, TappedConnection


class _Decoder:
    def __init__(self) -> None:
        self.decoded: list[bytes] = []

    def decode(self, piece: tuple[bool, bytes, int, int]) -> None:
        self.decoded.append(piece[1])


async def test_a_queue_emptied_before_its_turn_decodes_later_pieces() -> None:
    """A connection that ends decodes what it has left at once."""
    queue, decoder = PieceQueue(), _Decoder()
    connection = cast("TappedConnection", decoder)
    queue.put(connection, (True, b"1", 0, 0))
    queue.decode_oldest()
    await asyncio.sleep(3 * WAIT_S)
    for number in b"2", b"3", b"4":
        queue.put(connection, (False, number, 0, 0))
    async with asyncio.timeout(10):
        while len(decoder.decoded) < 4:
            await asyncio.sleep(WAIT_S)
    assert decoder.decoded == [b"1", b"2", b"3", b"4"]
