# SPDX-License-Identifier: Apache-2.0
"""Polling the CRI for container specs: scheduling, bounds and errors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from nri_scope.cri import RuntimeVersion
from nri_scope.errors import ConnectionClosed, DeadlineExceeded, NriScopeError, RpcError
from nri_scope.recording.query.cri_answers import NOT_FOUND as UNKNOWN
from nri_scope.writer import cri_polling
from nri_scope.writer.cri_polling import CALLS_MAX, CriPoller, PolledAnswer

NOT_FOUND = RpcError(5, "not found")
AWAY = ConnectionClosed("ContainerStatus: the runtime closed the connection")


class Client:
    """Fake CRI client; its replies wait while ``gate`` is cleared."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.concurrent = 0
        self.concurrent_max = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.errors: list[NriScopeError] = []
        """Errors raised by the next calls, in order."""
        self.text = '{"runtimeSpec": {}}'

    async def version(self, *, timeout: float = 1) -> RuntimeVersion:
        if self.errors:
            raise self.errors.pop(0)
        return RuntimeVersion("containerd", "v2")

    async def container_info(self, container_id: str, *, timeout: float = 1) -> str:
        self.asked.append(container_id)
        self.concurrent += 1
        self.concurrent_max = max(self.concurrent_max, self.concurrent)
        try:
            await self.gate.wait()
        finally:
            self.concurrent -= 1
        if self.errors:
            raise self.errors.pop(0)
        return self.text


class Receiver:
    def __init__(self) -> None:
        self.messages: list[str] = []

    def began(self, name: str, version: str, at_ns: int) -> None:
        self.messages.append(f"began {name}")

    def ended(self, reason: str, at_ns: int) -> None:
        self.messages.append("away")

    def answered(self, answer: PolledAnswer) -> None:
        assert answer.wall_ns > 0
        assert answer.took_ns >= 0
        unknown = answer.text == UNKNOWN
        self.messages.append(f"no {answer.container}" if unknown else answer.container)


class Polling:
    def __init__(self, pauses: int) -> None:
        self.client = Client()
        self.receiver = Receiver()
        self.poller = CriPoller(
            self.client,
            self.receiver,
            settle=0.0,
            pauses=(0.0,) * pauses,
            away_pause=0.0,
            interval=0.0,
        )

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not condition():
                await asyncio.sleep(0)

    async def all_done(self) -> tuple[int, int]:
        await self.poller.finish(10)
        return self.poller.answered, self.poller.unanswered


@asynccontextmanager
async def polling(pauses: int = 3) -> AsyncIterator[Polling]:
    one = Polling(pauses)
    task = asyncio.create_task(one.poller.run())
    try:
        yield one
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_repeated_requests_for_a_container_are_one_call() -> None:
    async with polling() as one:
        for _ in range(5):
            one.poller.want("a")
            one.poller.want("b")
        assert await one.all_done() == (2, 0)
        assert sorted(one.client.asked) == one.receiver.messages == ["a", "b"]


async def test_a_request_during_a_call_causes_another_call() -> None:
    async with polling() as one:
        one.client.gate.clear()
        one.poller.want("a")
        await one.until(lambda: one.client.asked == ["a"])
        one.poller.want("a")
        one.poller.want("a")
        one.client.gate.set()
        assert await one.all_done() == (2, 0)
        assert one.client.asked == ["a", "a"]


async def test_concurrent_calls_are_limited() -> None:
    async with polling() as one:
        one.client.gate.clear()
        for number in range(20):
            one.poller.want(f"c{number}")
        await one.until(lambda: one.client.concurrent == CALLS_MAX)
        one.client.gate.set()
        assert await one.all_done() == (20, 0)
        assert one.client.concurrent_max == CALLS_MAX


async def test_a_container_not_found_yet_is_retried() -> None:
    async with polling() as one:
        one.client.errors = [NOT_FOUND, NOT_FOUND]
        one.poller.want("a")
        assert await one.all_done() == (1, 0)
        assert one.client.asked == ["a"] * 3


async def test_a_container_never_found_is_an_answer() -> None:
    async with polling(pauses=2) as one:
        one.client.errors = [NOT_FOUND] * 3
        one.poller.want("a")
        assert await one.all_done() == (1, 0)
        assert one.client.asked == ["a"] * 3
        one.poller.want("a")
        assert await one.all_done() == (2, 0)
        assert one.receiver.messages == ["no a", "a"]


async def test_a_removed_container_is_not_counted_as_unanswered() -> None:
    async with polling() as one:
        one.client.errors = [NOT_FOUND] * 9
        one.client.gate.clear()
        one.poller.want("a")
        await one.until(lambda: one.client.asked == ["a"])
        one.poller.forget("a")
        one.poller.forget("never heard of")
        one.client.gate.set()
        assert await one.all_done() == (0, 0)
        assert one.client.asked == ["a"]


@pytest.mark.parametrize("error", [RpcError(13, "boom"), DeadlineExceeded("ContainerStatus", 10)])
async def test_other_errors_are_only_counted(error: NriScopeError) -> None:
    async with polling() as one:
        one.client.errors = [error]
        one.poller.want("a")
        one.poller.want("b")
        assert await one.all_done() == (1, 1)
        assert one.receiver.messages == ["b"]


async def test_a_reply_without_a_spec_counts_as_unanswered() -> None:
    async with polling() as one:
        one.client.text = ""
        one.poller.want("a")
        assert await one.all_done() == (0, 1)
        assert one.receiver.messages == []


async def test_a_disconnect_is_reported_once_and_waiting_containers_are_polled_later() -> None:
    async with polling() as one:
        one.client.errors = [AWAY] * 8
        for name in "abc":
            one.poller.want(name)
        assert await one.all_done() == (3, 0)
        assert one.receiver.messages[:2] == ["away", "began containerd"]
        assert sorted(one.receiver.messages[2:]) == ["a", "b", "c"]


async def test_at_the_end_an_unavailable_cri_is_not_waited_for() -> None:
    async with polling() as one:
        one.client.errors = [AWAY] * 10_000
        one.poller.want("a")
        await one.until(lambda: one.receiver.messages == ["away"])
        assert await one.all_done() == (0, 1)


async def test_calls_are_spread_over_time() -> None:
    loop = asyncio.get_running_loop()
    one = Polling(3)
    one.poller = CriPoller(one.client, one.receiver, settle=0.0, interval=0.01)
    task = asyncio.create_task(one.poller.run())
    began = loop.time()
    for number in range(10):
        one.poller.want(f"c{number}")
    assert await one.all_done() == (10, 0)
    assert loop.time() - began >= 0.09
    task.cancel()


async def test_the_waiting_list_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cri_polling, "WAITING_MAX", 3)
    async with polling() as one:
        for number in range(5):
            one.poller.want(f"c{number}")
        assert await one.all_done() == (3, 2)


async def test_finish_does_not_wait_longer_than_its_timeout() -> None:
    async with polling() as one:
        one.client.gate.clear()
        one.poller.want("a")
        await one.poller.finish(0.01)
        assert (one.poller.answered, one.poller.unanswered) == (0, 1)
