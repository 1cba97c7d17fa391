# SPDX-License-Identifier: Apache-2.0
"""When the CRI is asked, about whom, and what becomes of it if it does not answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from nri_scope.cri import RuntimeVersion
from nri_scope.differ.live import cri_polling
from nri_scope.differ.live.channel import Answer, CriBegan, CriEnded
from nri_scope.differ.live.cri_polling import CALLS_MAX, CriPoller
from nri_scope.errors import ConnectionClosed, DeadlineExceeded, NriScopeError, RpcError

NOT_FOUND = RpcError(5, "not found")
AWAY = ConnectionClosed("ContainerStatus: the runtime closed the connection")


class Client:
    """A CRI that answers what it is told to; with ``gate`` closed, not yet."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.now = 0
        self.most = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.errors: list[NriScopeError] = []
        """To be raised by the next calls, first one first."""
        self.text = '{"runtimeSpec": {}}'

    async def version(self, *, timeout: float = 1) -> RuntimeVersion:
        if self.errors:
            raise self.errors.pop(0)
        return RuntimeVersion("containerd", "v2")

    async def container_info(self, container_id: str, *, timeout: float = 1) -> str:
        self.asked.append(container_id)
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await self.gate.wait()
        finally:
            self.now -= 1
        if self.errors:
            raise self.errors.pop(0)
        return self.text


class Hearer:
    def __init__(self) -> None:
        self.told: list[str] = []

    def tell(self, message: CriBegan | Answer | CriEnded) -> None:
        match message:
            case CriBegan(name):
                self.told.append(f"began {name}")
            case CriEnded():
                self.told.append("away")
            case Answer():
                assert message.wall_ns > 0
                assert message.took_ns >= 0
                self.told.append(message.container)


class Asking:
    def __init__(self, pauses: int) -> None:
        self.client = Client()
        self.hearer = Hearer()
        self.asker = CriPoller(
            self.client, self.hearer.tell, settle=0.0, pauses=(0.0,) * pauses, away_pause=0.0
        )

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not condition():
                await asyncio.sleep(0)

    async def all_done(self) -> tuple[int, int]:
        await self.asker.finish(10)
        return self.asker.answered, self.asker.unanswered


@asynccontextmanager
async def asking_(pauses: int = 3) -> AsyncIterator[Asking]:
    one = Asking(pauses)
    task = asyncio.create_task(one.asker.run())
    try:
        yield one
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_each_container_is_asked_about_once_however_often_it_is_wanted() -> None:
    async with asking_() as one:
        for _ in range(5):
            one.asker.want("a")
            one.asker.want("b")
        assert await one.all_done() == (2, 0)
        assert sorted(one.client.asked) == one.hearer.told == ["a", "b"]


async def test_what_changes_while_it_is_asked_about_is_asked_about_again() -> None:
    async with asking_() as one:
        one.client.gate.clear()
        one.asker.want("a")
        await one.until(lambda: one.client.asked == ["a"])
        one.asker.want("a")
        one.asker.want("a")
        one.client.gate.set()
        assert await one.all_done() == (2, 0)
        assert one.client.asked == ["a", "a"]


async def test_only_a_few_are_asked_about_at_a_time() -> None:
    async with asking_() as one:
        one.client.gate.clear()
        for number in range(20):
            one.asker.want(f"c{number}")
        await one.until(lambda: one.client.now == CALLS_MAX)
        one.client.gate.set()
        assert await one.all_done() == (20, 0)
        assert one.client.most == CALLS_MAX


async def test_one_that_is_not_there_yet_is_asked_about_again() -> None:
    async with asking_() as one:
        one.client.errors = [NOT_FOUND, NOT_FOUND]
        one.asker.want("a")
        assert await one.all_done() == (1, 0)
        assert one.client.asked == ["a"] * 3


async def test_one_that_never_comes_is_given_up() -> None:
    async with asking_(pauses=2) as one:
        one.client.errors = [NOT_FOUND] * 3
        one.asker.want("a")
        assert await one.all_done() == (0, 1)
        assert one.client.asked == ["a"] * 3
        one.asker.want("a")
        assert await one.all_done() == (1, 1)


async def test_one_that_was_removed_is_no_failure() -> None:
    async with asking_() as one:
        one.client.errors = [NOT_FOUND] * 9
        one.client.gate.clear()
        one.asker.want("a")
        await one.until(lambda: one.client.asked == ["a"])
        one.asker.forget("a")
        one.asker.forget("never heard of")
        one.client.gate.set()
        assert await one.all_done() == (0, 0)
        assert one.client.asked == ["a"]


@pytest.mark.parametrize("error", [RpcError(13, "boom"), DeadlineExceeded("ContainerStatus", 10)])
async def test_other_errors_are_counted_and_no_more(error: NriScopeError) -> None:
    async with asking_() as one:
        one.client.errors = [error]
        one.asker.want("a")
        one.asker.want("b")
        assert await one.all_done() == (1, 1)
        assert one.hearer.told == ["b"]


async def test_an_answer_without_a_spec_is_none() -> None:
    async with asking_() as one:
        one.client.text = ""
        one.asker.want("a")
        assert await one.all_done() == (0, 1)
        assert one.hearer.told == []


async def test_going_away_is_told_once_and_what_waits_is_asked_later() -> None:
    async with asking_() as one:
        one.client.errors = [AWAY] * 8
        for name in "abc":
            one.asker.want(name)
        assert await one.all_done() == (3, 0)
        assert one.hearer.told[:2] == ["away", "began containerd"]
        assert sorted(one.hearer.told[2:]) == ["a", "b", "c"]


async def test_what_waits_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cri_polling, "WAITING_MAX", 3)
    async with asking_() as one:
        for number in range(5):
            one.asker.want(f"c{number}")
        assert await one.all_done() == (3, 2)


async def test_the_end_does_not_wait_for_ever() -> None:
    async with asking_() as one:
        one.client.gate.clear()
        one.asker.want("a")
        await one.asker.finish(0.01)
        assert (one.asker.answered, one.asker.unanswered) == (0, 1)
