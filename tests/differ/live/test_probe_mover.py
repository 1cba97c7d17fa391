# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from collections.abc import Iterable

from nri_scope.differ.live.probe_mover import INITIAL_INDICES, Placer


class Probes:
    def __init__(self) -> None:
        self.indices: tuple[str, ...] = INITIAL_INDICES
        self.moves: list[tuple[str, ...]] = []
        self.moved = asyncio.Event()

    def place(self, indices: Iterable[str]) -> None:
        self.indices = tuple(indices)
        self.moves.append(self.indices)
        self.moved.set()


async def test_probes_go_around_the_plugins_that_are_there() -> None:
    probes, said = Probes(), list[str]()
    Placer(probes, said.append).chain(("20", "30", "60"))
    assert probes.moves == [("00", "25", "50", "99")]
    assert said == ["plugins at 20, 30, 60: moving probes to 00, 25, 50, 99"]


async def test_moves_wait_for_each_other_and_only_the_newest_counts() -> None:
    probes, said = Probes(), list[str]()
    placer = Placer(probes, said.append, pause=0.01)
    placer.chain(("20", "30"))
    probes.moved.clear()
    placer.chain(("20", "40"))
    placer.chain(("40", "60"))
    assert len(probes.moves) == 1
    async with asyncio.timeout(10):
        await probes.moved.wait()
    assert probes.moves == [("00", "25", "99"), ("00", "50", "99")]


async def test_nobody_moves_where_all_is_well() -> None:
    probes, said = Probes(), list[str]()
    Placer(probes, said.append).chain(("20", "60"))
    assert (probes.moves, said) == ([], [])
