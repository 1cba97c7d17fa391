# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from collections.abc import Iterable

from nri_scope.logger.probes import INITIAL_INDICES, Placer


class Probes:
    def __init__(self) -> None:
        self.indices: tuple[str, ...] = INITIAL_INDICES
        self.moves: list[tuple[str, ...]] = []
        self.moved = asyncio.Event()

    def place(self, indices: Iterable[str]) -> None:
        self.indices = tuple(indices)
        self.moves.append(self.indices)
        self.moved.set()


async def test_probes_are_moved_around_the_plugins() -> None:
    probes, notices = Probes(), list[str]()
    Placer(probes, notices.append).chain(("20", "30", "60"))
    assert probes.moves == [("00", "25", "50", "99")]
    assert notices == ["plugins at 20, 30, 60: moving probes to 00, 25, 50, 99"]


async def test_pending_moves_are_replaced_by_the_newest() -> None:
    probes, notices = Probes(), list[str]()
    placer = Placer(probes, notices.append, pause=0.01)
    placer.chain(("20", "30"))
    probes.moved.clear()
    placer.chain(("20", "40"))
    placer.chain(("40", "60"))
    assert len(probes.moves) == 1
    async with asyncio.timeout(10):
        await probes.moved.wait()
    assert probes.moves == [("00", "25", "99"), ("00", "50", "99")]


async def test_well_placed_probes_do_not_move() -> None:
    probes, notices = Probes(), list[str]()
    Placer(probes, notices.append).chain(("20", "60"))
    assert (probes.moves, notices) == ([], [])
