# SPDX-License-Identifier: Apache-2.0
"""Merging matches real chains: each plugin's request and the resulting container."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.merging import CreationMerging, UpdateMerging, adjusted, with_resources
from nri_scope.nri.request_subject import decode_request
from tests.nri.captures import NAMES, exchanges

from .chains import nri

VERSIONS = {
    "containerd-1.7.24": "0.6.1",
    "containerd-2.1.9": "0.8.0",
    "containerd-2.4-beta": "0.12.1",
    "cri-o-1.37": "0.12.0",
}
PROBE = "00-probe-a"
"""The first plugin of the chain."""


def in_order(container: api.Container) -> api.Container:
    """Return a copy with sorted namespaces: runtimes shuffle them after an adjustment."""
    copy = api.Container()
    copy.CopyFrom(container)
    namespaces = sorted(copy.linux.namespaces, key=lambda namespace: namespace.type)
    if namespaces:
        del copy.linux.namespaces[:]
        copy.linux.namespaces.extend(namespaces)
    return copy


def injected_device(request: api.CreateContainerRequest) -> api.CreateContainerResponse:
    """Return the reply of 20-device-injector, whose traffic is not in the captures."""
    reply = api.CreateContainerResponse()
    if f"devices.nri.io/container.{request.container.name}" in request.pod.annotations:
        reply.adjust.linux.devices.add(path="/dev/nri-null", type="c", major=1, minor=3)
    return reply


def creations(
    name: str,
) -> Iterator[tuple[api.CreateContainerRequest, CreationMerging, list[Message]]]:
    """Yield each creation after its chain, with the first request and the later messages.

    Assert that every plugin's request equals the recorded one.
    """
    started: dict[str, tuple[api.CreateContainerRequest, CreationMerging, list[Message]]] = {}
    for exchange in exchanges(name):
        request = decode_request(exchange.method, exchange.request).message
        if isinstance(request, api.CreateContainerRequest):
            container_id = request.container.id
            if exchange.plugin == PROBE:
                creation = CreationMerging(request, version=nri(VERSIONS[name]))
                started[container_id] = request, creation, []
            creation = started[container_id][1]
            if exchange.plugin == "30-env-injector":
                creation.apply(injected_device(request), "20-device-injector")
            assert in_order(creation.request.container) == in_order(request.container)
            creation.apply(api.CreateContainerResponse.FromString(exchange.reply), exchange.plugin)
        elif isinstance(
            request, api.ValidateContainerAdjustmentRequest | api.PostCreateContainerRequest
        ) or (
            isinstance(request, api.StateChangeEvent) and request.event == api.POST_CREATE_CONTAINER
        ):
            started[request.container.id][2].append(request)
    yield from started.values()


@pytest.mark.parametrize("name", NAMES)
def test_a_real_chain_is_merged_as_the_runtime_did(name: str) -> None:
    all_creations = list(creations(name))
    assert len(all_creations) == 4
    validations = 0
    for _, creation, followed in all_creations:
        assert not creation.dropped or name == "containerd-1.7.24"
        for request in followed:
            if isinstance(request, api.ValidateContainerAdjustmentRequest):
                assert creation.validation(request.plugins) == request
                validations += 1
    assert validations == (12 if nri(VERSIONS[name]) >= nri("0.10.0") else 0)


@pytest.mark.parametrize("name", NAMES)
def test_the_merged_container_equals_that_in_later_events(name: str) -> None:
    compared = 0
    for request, creation, followed in creations(name):
        for later in followed:
            if isinstance(later, api.ValidateContainerAdjustmentRequest):
                continue
            assert isinstance(later, api.PostCreateContainerRequest | api.StateChangeEvent)
            shows_rlimits = name in ("containerd-2.4-beta", "cri-o-1.37")
            ours = adjusted(request.container, creation.adjustment, shows_rlimits=shows_rlimits)
            theirs = in_order(later.container)
            # The runtime sets these fields during the creation.
            for field in ("state", "pid", "created_at"):
                theirs.ClearField(field)
            if not theirs.linux.resources.HasField("memory"):
                # An empty message added for the chain.
                assert not ours.linux.resources.memory.ByteSize()
                ours.linux.resources.ClearField("memory")
            added = set(theirs.annotations) - set(ours.annotations)
            assert all(key.endswith("crio.io") or "kubernetes" in key for key in added)
            for key in added:
                del theirs.annotations[key]
            assert in_order(ours) == theirs
            compared += 1
    assert compared >= 9


@pytest.mark.parametrize("name", NAMES)
def test_a_real_update_shows_in_later_events(name: str) -> None:
    merging: UpdateMerging | None = None
    shown = 0
    for exchange in exchanges(name):
        request = decode_request(exchange.method, exchange.request).message
        if isinstance(request, api.UpdateContainerRequest):
            if exchange.plugin == PROBE:
                merging = UpdateMerging(request, version=nri(VERSIONS[name]))
            assert merging is not None
            assert merging.request == request
            merging.apply(api.UpdateContainerResponse.FromString(exchange.reply), exchange.plugin)
        elif isinstance(request, api.PostUpdateContainerRequest) or (
            isinstance(request, api.StateChangeEvent) and request.event == api.POST_UPDATE_CONTAINER
        ):
            assert merging is not None
            after = with_resources(merging.request.container, merging.resources)
            assert after.linux.resources == request.container.linux.resources
            shown += 1
    assert shown == 3
