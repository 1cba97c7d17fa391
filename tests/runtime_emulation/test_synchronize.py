# SPDX-License-Identifier: Apache-2.0
"""Synchronize, in one message or in parts."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope._gen.nri.api_pb2 import (
    Container,
    ContainerUpdate,
    PodSandbox,
    SynchronizeRequest,
    SynchronizeResponse,
)
from nri_scope.errors import ConnectionClosed
from nri_scope.runtime import EmulatedRuntime, ProfileSetUp, synchronize_parts
from nri_scope.wire.ttrpc import MESSAGE_DATA_MAX

from .profiles import OLD, SPLITTING, patient
from .small_plugin import SmallPlugin


def pods(count: int) -> list[PodSandbox]:
    return [PodSandbox(id=f"pod-{number}", namespace="shop") for number in range(count)]


def containers(count: int, size: int = 3_000) -> list[Container]:
    return [
        Container(id=f"container-{number}", env=["PADDING=" + "x" * size])
        for number in range(count)
    ]


def everything(plugin: SmallPlugin) -> tuple[list[PodSandbox], list[Container]]:
    requests = plugin.messages("Synchronize")
    seen: tuple[list[PodSandbox], list[Container]] = ([], [])
    for request in requests:
        assert isinstance(request, SynchronizeRequest)
        seen[0].extend(request.pods)
        seen[1].extend(request.containers)
    return seen


async def test_state_of_2000_containers_is_split() -> None:
    setup = ProfileSetUp(SPLITTING, pods(500), containers(2000))
    plugin = SmallPlugin()
    async with EmulatedRuntime(setup) as runtime:
        await plugin.join(runtime)
    assert everything(plugin) == (setup.pods, setup.containers)
    assert plugin.methods == ["Configure", "Synchronize", "Synchronize"]
    assert all(len(request.payload) < MESSAGE_DATA_MAX for request in plugin.requests)


async def test_small_state_is_one_message() -> None:
    setup = ProfileSetUp(SPLITTING, pods(5), containers(20))
    plugin = SmallPlugin()
    async with EmulatedRuntime(setup) as runtime:
        await plugin.join(runtime)
    assert plugin.methods == ["Configure", "Synchronize"]
    assert plugin.messages("Synchronize") == [
        SynchronizeRequest(pods=setup.pods, containers=setup.containers)
    ]


async def test_later_plugin_receives_the_current_state() -> None:
    setup = ProfileSetUp(SPLITTING)
    async with EmulatedRuntime(setup) as runtime:
        early, late = SmallPlugin(), SmallPlugin()
        await early.join(runtime)
        setup.pods += pods(1)
        await late.join(runtime)
    assert everything(early) == ([], [])
    assert everything(late) == (setup.pods, [])


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (SynchronizeResponse(more=False), "no more=true"),
        (
            SynchronizeResponse(more=True, update=[ContainerUpdate(container_id="container-1")]),
            "updates before the last part",
        ),
    ],
    ids=["more is not echoed", "updates too early"],
)
async def test_wrong_reply_to_a_part_drops_the_plugin(
    reply: SynchronizeResponse, reason: str
) -> None:
    plugin = SmallPlugin()
    plugin.on["Synchronize"] = lambda request: reply
    async with EmulatedRuntime(ProfileSetUp(SPLITTING, [], containers(2000))) as runtime:
        with pytest.raises(ConnectionClosed, match=reason):
            await plugin.join(runtime)
    assert plugin.methods == ["Configure", "Synchronize"]


async def test_one_deadline_covers_all_parts() -> None:
    plugin = SmallPlugin()
    async with EmulatedRuntime(ProfileSetUp(SPLITTING, [], containers(40, 1_000_000))) as runtime:
        await plugin.join(runtime)
    deadlines = [one.timeout_ns for one in plugin.requests if one.method == "Synchronize"]
    assert len(deadlines) > 5
    assert deadlines == sorted(deadlines, reverse=True)
    assert len(set(deadlines)) == len(deadlines)


async def test_deadline_can_expire_between_two_parts() -> None:
    profile = patient("containerd-2.1", request_timeout_ms=300)
    plugin = SmallPlugin()
    plugin.on["Synchronize"] = lambda request: (
        SynchronizeResponse(more=True) if plugin.methods.count("Synchronize") < 3 else None
    )
    async with EmulatedRuntime(ProfileSetUp(profile, [], containers(40, 1_000_000))) as runtime:
        with pytest.raises(ConnectionClosed, match="Synchronize: no answer within"):
            await plugin.join(runtime)


async def test_runtime_that_cannot_split_drops_the_plugin() -> None:
    plugin = SmallPlugin()
    async with EmulatedRuntime(ProfileSetUp(OLD, [], containers(2000))) as runtime:
        with pytest.raises(ConnectionClosed, match="exceeds the limit of 4194304"):
            await plugin.join(runtime)
    assert plugin.methods == ["Configure"]


async def test_single_object_over_the_limit_drops_the_plugin() -> None:
    """Check a state that upstream retries forever."""
    plugin = SmallPlugin()
    async with EmulatedRuntime(
        ProfileSetUp(SPLITTING, pods(3), containers(1, 5_000_000))
    ) as runtime:
        with pytest.raises(ConnectionClosed, match="exceeds the limit of 4194304"):
            await plugin.join(runtime)


@given(
    st.lists(st.integers(0, 300), max_size=30),
    st.lists(st.integers(0, 300), max_size=30),
    st.integers(20, 2_000),
)
def test_parts_contain_the_whole_state_in_order(
    pod_sizes: Sequence[int], container_sizes: Sequence[int], limit: int
) -> None:
    pods = [PodSandbox(id="p" * size) for size in pod_sizes]
    containers = [Container(id="c" * size) for size in container_sizes]
    parts = synchronize_parts(pods, containers, limit=limit)
    requests = [SynchronizeRequest.FromString(part) for part in parts]
    assert [pod for request in requests for pod in request.pods] == pods
    assert [container for request in requests for container in request.containers] == containers
    assert [request.more for request in requests] == [True] * (len(requests) - 1) + [False]
    for part, request in zip(parts, requests, strict=True):
        assert len(part) <= limit or len(request.pods) + len(request.containers) == 1
