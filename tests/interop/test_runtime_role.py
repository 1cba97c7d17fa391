# SPDX-License-Identifier: Apache-2.0
"""The Go plugin under the emulated runtime."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from nri_scope._gen.nri.api_pb2 import (
    CreateContainerResponse,
    SynchronizeRequest,
    UpdateContainersRequest,
    UpdateContainersResponse,
)
from nri_scope.errors import DeadlineExceeded
from nri_scope.nri.events import STATE_CHANGE_EVENTS, EventKind
from nri_scope.runtime import PROFILES, Plugin, Profile, ProfileSetUp
from nri_scope.runtime.lifecycle import as_state_change
from tests.amount import amount
from tests.interop.build import Unavailable, Variant, build
from tests.interop.messages import exchanges, normal
from tests.interop.reference import SIZES, UNHURRIED, ReferencePlugin, read_requests
from tests.interop.traffic import LIFECYCLE, Step, container, lifecycle, pod, request, sized
from tests.runtime_emulation.runtime import Runtime

CONSERVATIVE_MASK = 0x7FF


@dataclass(frozen=True)
class Pairing:
    """A profile of the emulated runtime and a Go plugin."""

    profile: Profile
    variant: Variant
    events: int = 0
    """Event mask of the plugin; 0 for all known events."""

    @property
    def dedicated(self) -> bool:
        """Whether events arrive as dedicated requests."""
        return self.profile.dedicated_rpcs and self.variant.dedicated

    def expected(self, step: Step) -> tuple[str, bytes]:
        """Method and normal form of the request expected for an event."""
        if self.dedicated or step.event not in STATE_CHANGE_EVENTS:
            method, payload = step.event.name, step.request.SerializeToString()
        else:
            method, payload = "StateChange", as_state_change(step.event, step.request)
        return method, normal(method, payload)


NEW, OLD = (
    replace(PROFILES[name], request_timeout_ms=round(UNHURRIED * 1000))
    for name in ("containerd-2.3", "containerd-2.1")
)
PAIRINGS = {
    "both-0.12": Pairing(NEW, Variant.NRI_0_12),
    "both-0.8": Pairing(OLD, Variant.NRI_0_8),
    "runtime-0.12-plugin-0.8": Pairing(NEW, Variant.NRI_0_8),
    "runtime-0.8-plugin-0.12": Pairing(OLD, Variant.NRI_0_12, CONSERVATIVE_MASK),
}


@pytest.fixture(params=list(PAIRINGS.values()), ids=list(PAIRINGS))
def pairing(request: pytest.FixtureRequest) -> Pairing:
    chosen: Pairing = request.param
    try:
        build(chosen.variant)
    except Unavailable as error:
        pytest.skip(f"the Go reference cannot be built: {error}")
    return chosen


@asynccontextmanager
async def emulated(setup: Profile | ProfileSetUp, socket: Path) -> AsyncIterator[Runtime]:
    async with Runtime(setup) as runtime:
        await runtime.listen(socket)
        yield runtime


async def dispatch(runtime: Runtime, steps: Iterable[Step]) -> list[tuple[EventKind, str]]:
    """Send each event; return the events without exactly one reply, with the results."""
    failed = []
    for step in steps:
        answers = await runtime.dispatch(step.event, step.request)
        if len(answers) != 1 or answers[0].error is not None:
            failed.append((step.event, str(answers)))
    return failed


async def test_many_lifecycles_arrive_as_they_were_sent(
    pairing: Pairing, folder: Path, socket: Path
) -> None:
    steps = [step for number in range(amount(1000, 100)) for step in lifecycle(number)]
    async with emulated(pairing.profile, socket) as runtime:
        async with await ReferencePlugin.connect(
            socket, pairing.variant, events=pairing.events, requests=folder / "received"
        ) as plugin:
            await runtime.wait_plugins(1)
            failed = await dispatch(runtime, steps)
            await plugin.send_command("stop")
            await plugin.ended()

    assert failed == []
    configure, synchronize, *events = exchanges(read_requests(folder / "received"))
    assert (configure[0], synchronize[0]) == ("Configure", "Synchronize")
    assert configure[1] == pairing.profile.configure_request().SerializeToString(deterministic=True)
    assert events == [pairing.expected(step) for step in steps]


async def test_messages_of_any_length_arrive_as_they_were_sent(
    pairing: Pairing, folder: Path, socket: Path
) -> None:
    steps = [
        sized(
            event,
            length,
            dedicated=pairing.profile.dedicated_rpcs,
            timeout_ns=pairing.profile.request_timeout_ms * 1_000_000,
        )
        # The last three have data, without the ttRPC header, around the size of Go's buffers.
        for length in (*SIZES, 4105, 4106, 4107)
        for event in LIFECYCLE
    ]
    async with emulated(pairing.profile, socket) as runtime:
        async with await ReferencePlugin.connect(
            socket, pairing.variant, events=pairing.events, requests=folder / "received"
        ) as plugin:
            await runtime.wait_plugins(1)
            failed = await dispatch(runtime, steps)
            await plugin.send_command("stop")
            await plugin.ended()

    assert failed == []
    events = exchanges(read_requests(folder / "received"))[2:]
    assert events == [pairing.expected(step) for step in steps]


@pytest.mark.parametrize("length", SIZES)
async def test_replies_of_any_length_arrive(variant: Variant, socket: Path, length: int) -> None:
    created = container(1)
    created.name = "n" * length
    async with emulated(NEW if variant.dedicated else OLD, socket) as runtime:
        async with await ReferencePlugin.connect(socket, variant, annotation="example.com/name"):
            await runtime.wait_plugins(1)
            (answer,) = await runtime.dispatch(
                EventKind.CreateContainer, request(EventKind.CreateContainer, pod(1), created)
            )

    assert isinstance(answer.reply, CreateContainerResponse)
    assert dict(answer.reply.adjust.annotations) == {"example.com/name": created.name}


async def test_a_large_state_arrives_in_parts(variant: Variant, folder: Path, socket: Path) -> None:
    containers = [container(number) for number in range(2000)]
    for one in containers:
        one.env.extend(f"MORE_{n}={'x' * 40}" for n in range(60))
    setup = ProfileSetUp(
        NEW if variant.dedicated else OLD, [pod(number) for number in range(2000)], containers
    )
    async with emulated(setup, socket) as runtime:
        async with await ReferencePlugin.connect(
            socket, variant, requests=folder / "received"
        ) as plugin:
            await runtime.wait_plugins(1)
            failed = await dispatch(runtime, lifecycle(1))
            await plugin.send_command("stop")
            await plugin.ended()

    assert failed == []
    synchronized = plugin.last_report("synchronized")
    assert (synchronized["pods"], synchronized["containers"]) == (2000, 2000)
    parts = [
        SynchronizeRequest.FromString(item.request)
        for item in read_requests(folder / "received")
        if item.method == "Synchronize"
    ]
    assert len(parts) > 1
    assert [one for part in parts for one in part.pods] == setup.pods
    assert [one for part in parts for one in part.containers] == containers


async def test_a_late_plugin_is_disconnected_and_the_event_continues(
    variant: Variant, folder: Path, socket: Path
) -> None:
    profile = replace(NEW if variant.dedicated else OLD, request_timeout_ms=1000)
    async with emulated(profile, socket) as runtime:
        async with (
            await ReferencePlugin.connect(
                socket,
                variant,
                index="10",
                requests=folder / "received",
                delay=("StartContainer", 1, 1.5),
            ) as late,
            await ReferencePlugin.connect(socket, variant, index="20") as next_one,
        ):
            await runtime.wait_plugins(2)
            answers = [
                await runtime.dispatch(step.event, step.request)
                for number in range(2)
                for step in lifecycle(number)
            ]
            await late.ended()
            former = list(runtime.former)
            await next_one.send_command("stop")
            await next_one.ended()

    # The first StartContainer is in time, the second (event 14 of 22) is not.
    assert [len(group) for group in answers] == [2] * 15 + [1] * 7
    assert [answer.plugin for answer in answers[14]] == ["10-reference", "20-reference"]
    missed, answered = answers[14]
    assert isinstance(missed.error, DeadlineExceeded)
    assert missed.took_ns >= 1e9
    assert answered.error is None
    assert [plugin.id for plugin in former] == ["10-reference"]
    # The plugin received the event; for it, the connection is merely closed.
    received = exchanges(read_requests(folder / "received"))
    assert len(received) == 2 + 15
    assert received[-1] == Pairing(profile, variant).expected(
        Step(EventKind.StartContainer, request(EventKind.StartContainer, pod(1), container(1)))
    )


async def test_unsolicited_updates_reach_the_runtime(variant: Variant, socket: Path) -> None:
    asked: list[tuple[str, list[str]]] = []

    def on_update(plugin: Plugin, request: UpdateContainersRequest) -> UpdateContainersResponse:
        asked.append((plugin.id, [update.container_id for update in request.update]))
        return UpdateContainersResponse(failed=request.update)

    async with Runtime(NEW if variant.dedicated else OLD, on_update=on_update) as runtime:
        await runtime.listen(socket)
        async with await ReferencePlugin.connect(socket, variant) as plugin:
            await runtime.wait_plugins(1)
            report = await plugin.update("some-container")

    assert asked == [("10-reference", ["some-container"])]
    assert (report["failed"], report["error"]) == (1, "")


async def test_a_launched_plugin_receives_its_configuration(variant: Variant, folder: Path) -> None:
    program = folder / "42-reference"
    program.symlink_to(build(variant).plugin)
    config = json.dumps({"requests": str(folder / "received")})
    profile = NEW if variant.dedicated else OLD
    async with Runtime(profile) as runtime:
        plugin = await runtime.launch(program, config=config)
        failed = await dispatch(runtime, lifecycle(1))

    assert (plugin.id, failed) == ("42-reference", [])
    # The plugin opens the file in Configure, so the file begins with Synchronize.
    synchronize, *events = exchanges(read_requests(folder / "received"))
    assert synchronize == ("Synchronize", b"")
    assert events == [Pairing(profile, variant).expected(step) for step in lifecycle(1)]
