# SPDX-License-Identifier: Apache-2.0
"""A validator that ends its connection fails no creation of a container."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.events import PASSIVE_EVENTS, EventKind, mask_of
from nri_scope.nri.no_change import no_change
from nri_scope.nri.runtime_setup import ConfigureRequest
from nri_scope.plugin import HandledCall, Identity, SessionEnd, ValidatorSession, unix_socket
from nri_scope.plugin.deregistration import deregister
from nri_scope.runtime import PROFILES, Profile, ProfileSetUp
from nri_scope.wire import RequestReceived
from tests.amount import sampled
from tests.runtime_emulation.profiles import patient
from tests.runtime_emulation.runtime import Runtime
from tests.runtime_emulation.small_plugin import SmallPlugin

CREATE = api.CreateContainerRequest(
    pod=api.PodSandbox(id="p1"), container=api.Container(id="c1", pod_sandbox_id="p1")
)
PASSIVE = mask_of(PASSIVE_EVENTS)
VALIDATING = PASSIVE | EventKind.ValidateContainerAdjustment.bit
ASKS_CLOSED = [
    name for name, one in PROFILES.items()
    if one.mask & EventKind.ValidateContainerAdjustment.bit
]  # fmt: skip
SELF = Identity("00", "validator")


class Passive:
    """Plugin that requests no change."""

    def __init__(self, mask: int) -> None:
        self.mask = mask

    def configure(self, request: ConfigureRequest) -> int:
        return self.mask

    def answer(self, request: RequestReceived) -> bytes:
        return no_change(request.method, request.payload, request.service)

    def answered(self, exchange: HandledCall) -> None:
        pass

    def noticed(self, text: str) -> None:
        pass


@asynccontextmanager
async def connected(
    runtime: Runtime, path: Path, mask: int = VALIDATING
) -> AsyncIterator[tuple[ValidatorSession, asyncio.Task[SessionEnd]]]:
    """A session of a passive plugin with this event mask."""
    await runtime.listen(path)
    session = ValidatorSession(SELF, Passive(mask))
    running = asyncio.create_task(session.run(unix_socket(path)))
    await runtime.wait_plugins(1)
    try:
        yield session, running
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


async def create(runtime: Runtime) -> str:
    return (await runtime.operate(EventKind.CreateContainer, CREATE)).failure


# NRI's own profile takes 10 ms, each of the others 300.
@pytest.mark.parametrize("name", sampled(sorted(ASKS_CLOSED, key="nri-0.12.5".__ne__)))
@pytest.mark.parametrize("more", [False, True])
async def test_the_creation_after_a_closed_validator_succeeds(
    name: str, more: bool, tmp_path: Path
) -> None:
    pods = [api.PodSandbox(id=f"p{number}") for number in range(20)]
    setup = ProfileSetUp(patient(name), pods, [])
    async with (
        Runtime(setup, sync_part_max=10 if more else None) as runtime,
        connected(runtime, tmp_path / "s") as (session, running),
    ):
        session.close("the end")
        assert (await running).reason == "the end"
        assert await session.left() == ""
        assert await create(runtime) == ""
        assert not runtime.plugins


async def test_the_creation_after_a_validator_that_just_vanished_fails(tmp_path: Path) -> None:
    """Check the emulated runtime: it must fail what the other tests want to succeed."""
    async with (
        Runtime(patient("containerd-2.3")) as runtime,
        connected(runtime, tmp_path / "s") as (_, running),
    ):
        running.cancel()
        await runtime.wait_for(lambda: bool(runtime.former))
        assert await create(runtime) == (
            "failed to create containerd container: failed to get NRI adjustment for container: "
            "validator plugin 00-validator failed: ttrpc: closed"
        )
        assert await create(runtime) == ""


async def test_no_creation_fails_at_any_moment_while_a_validator_closes(tmp_path: Path) -> None:
    async with (
        Runtime(patient("containerd-2.3")) as runtime,
        connected(runtime, tmp_path / "s") as (session, running),
    ):
        creations = [await create(runtime)]
        session.close("the end")
        leaving = asyncio.create_task(session.left())
        while not leaving.done():
            creations.append(await create(runtime))
            await asyncio.sleep(0)
        creations.append(await create(runtime))
        assert set(creations) == {""} and len(creations) > 3
        await running


@pytest.mark.parametrize(
    ("profile", "mask"),
    [
        (patient("containerd-2.3"), PASSIVE),
        (replace(patient("containerd-2.3"), nri_version="0.12.5"), VALIDATING),
    ],
)
async def test_other_sessions_are_closed_without_another_registration(
    profile: Profile, mask: int, tmp_path: Path
) -> None:
    async with (
        Runtime(profile) as runtime,
        connected(runtime, tmp_path / "s", mask) as (session, running),
    ):
        session.close("the end")
        assert not session.open
        await running
        assert await session.left() == ""
        await runtime.wait_for(lambda: bool(runtime.former))
        assert await create(runtime) == ""
        assert len(runtime.former) == 1


async def test_a_validator_is_closed_without_a_runtime_that_synchronizes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check a runtime that handles a long request first: it may wait for the validator's end."""
    monkeypatch.setattr("nri_scope.plugin.deregistration.SYNCHRONIZE_S", 0.05)
    async with Runtime(patient("containerd-2.3")) as runtime:
        async with connected(runtime, tmp_path / "s") as (session, running):
            async with runtime._chain.lock:
                session.close("the end")
                warning = await session.left()
                assert (await running).reason == "the end"
            assert "may fail once" in warning and "not synchronized" in warning


async def test_a_second_close_closes_at_once(tmp_path: Path) -> None:
    async with (
        Runtime(patient("containerd-2.3")) as runtime,
        connected(runtime, tmp_path / "s") as (session, running),
    ):
        async with runtime._chain.lock:
            session.close("the end")
            assert session.open
            session.close("again")
            await running
        assert await session.left() == ""


async def test_a_killed_validator_is_deregistered_by_another_process(tmp_path: Path) -> None:
    async with Runtime(patient("containerd-2.3")) as runtime:
        await runtime.listen(tmp_path / "s")
        killed = SmallPlugin("00-validator")
        await killed.connect(tmp_path / "s")
        await killed.register()
        await runtime.wait_plugins(1)
        killed.connected.abort()
        assert await deregister(unix_socket(tmp_path / "s"), SELF) == ""
        assert await create(runtime) == ""
    assert "no such socket" in await deregister(unix_socket(tmp_path / "s"), SELF)
