# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.request_subject import decode_reply, decode_request
from nri_scope.oci import adjust, spec_of
from nri_scope.specs import Spec, changes
from tests.nri.captures import NAMES, exchanges

# The adjustment of shop/web/app by 20-device-injector, whose traffic was not captured.
DEVICE = api.ContainerAdjustment(
    linux=api.LinuxContainerAdjustment(
        devices=[api.LinuxDevice(path="/dev/nri-null", type="c", major=1, minor=3)]
    )
)

# Adjusted fields that these runtimes do not show in later events.
NOT_SHOWN = {
    "containerd-1.7.24": {
        "/process/oomScoreAdj",
        "/process/rlimits/RLIMIT_NOFILE",
        "/linux/resources/pids/limit",
    },
    "containerd-2.1.9": {"/process/rlimits/RLIMIT_NOFILE"},
}


@pytest.mark.parametrize("name", NAMES)
def test_the_adjusted_spec_equals_that_in_later_events(name: str) -> None:
    adjusted: dict[str, Spec] = {}
    seen: dict[str, Spec] = {}
    for exchange in exchanges(name):
        request = decode_request(exchange.method, exchange.request)
        container = request.container
        if container is None:
            continue
        if exchange.method == "CreateContainer":
            reply = decode_reply(exchange.method, exchange.reply)
            assert isinstance(reply, api.CreateContainerResponse)
            spec = adjusted.get(container.id)
            if spec is None:
                spec = spec_of(container)
                if container.name == "app":
                    spec = adjust(spec, DEVICE)
            adjusted[container.id] = adjust(spec, reply.adjust)
        elif request.event == "PostCreateContainer":
            seen.setdefault(container.id, spec_of(container))
    assert len(seen) > 2
    not_shown = NOT_SHOWN.get(name, set())
    for container_id, spec in seen.items():
        found = changes(adjusted[container_id], spec)
        assert {change.path for change in found} == not_shown


@pytest.mark.parametrize("name", NAMES)
def test_the_next_plugin_is_shown_the_adjusted_spec(name: str) -> None:
    before: dict[str, Spec] = {}
    adjustments: dict[str, api.ContainerAdjustment] = {}
    compared = 0
    for exchange in exchanges(name):
        container = decode_request(exchange.method, exchange.request).container
        if exchange.method != "CreateContainer" or container is None:
            continue
        if exchange.plugin == "30-env-injector":
            reply = decode_reply(exchange.method, exchange.reply)
            assert isinstance(reply, api.CreateContainerResponse)
            before[container.id] = spec_of(container)
            adjustments[container.id] = reply.adjust
        elif exchange.plugin == "50-probe-b":
            compared += 1
            expected = adjust(before[container.id], adjustments[container.id])
            found = changes(expected, spec_of(container))
            # Only after the chain does the runtime sort the mounts and remove duplicate variables
            # (CRI-O has PATH twice).
            rest = [change for change in found if change.kind != "moved"]
            paths = {"/process/env/PATH", "/process/env/PATH#2"} if name == "cri-o-1.37" else set()
            assert {change.path for change in rest} == paths
    assert compared > 2
