# SPDX-License-Identifier: Apache-2.0
"""Merging of updates in replies to UpdateContainer and StopContainer."""

from __future__ import annotations

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import AdjustmentRefused
from nri_scope.nri.merging import Dropped, StopMerging

from .chains import A, B, quota, shares, update, updating
from .merged_replies import update_response


def test_the_next_plugin_sees_the_resources_as_updated() -> None:
    asked = api.LinuxResources()
    asked.memory.limit.value = 1
    merging = updating([update("own", shares(5))], asked=asked)
    assert merging.request.linux_resources.cpu.shares.value == 5
    assert merging.request.linux_resources.memory.limit.value == 1
    assert merging.resources == update_response(merging).update[0].linux.resources
    assert not asked.HasField("cpu"), "the argument is unchanged"


def test_the_update_of_the_requests_container_is_the_last_of_the_response() -> None:
    merging = updating([update("own", shares(5)), update("b", shares(1)), update("a", shares(2))])
    assert [one.container_id for one in update_response(merging).update] == ["b", "a", "own"]
    assert [one.container_id for one in merging.updates] == ["b", "a"]


def test_without_an_update_of_the_requests_container_the_last_one_is_empty() -> None:
    merging = updating([update("b", shares(1))])
    assert update_response(merging).update[-1] == api.ContainerUpdate()
    assert merging.resources.HasField("memory"), "an empty message, as runtimes send"


def test_updates_of_one_container_are_merged() -> None:
    merging = updating([update("b", shares(1))], [update("b", quota(2))])
    (merged,) = merging.updates
    assert merged.linux.resources.cpu.shares.value == 1
    assert merged.linux.resources.cpu.quota.value == 2
    owners = merging.owners.owners["b"].simple
    assert owners == {api.CPUShares: A, api.CPUQuota: B}


def test_updates_of_one_field_conflict() -> None:
    with pytest.raises(AdjustmentRefused, match=r'"20-b" and "10-a" both .* CPUShares $'):
        updating([update("b", shares(1))], [update("b", shares(2))])


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("second", [True, False])
def test_failures_are_ignored_if_all_plugins_say_so(first: bool, second: bool) -> None:
    merging = updating(
        [update("b", shares(1), ignore=first)], [update("b", quota(2), ignore=second)]
    )
    assert merging.updates[0].ignore_failure is (first and second)


def test_an_ignored_conflict_keeps_the_claims_made_before_it() -> None:
    refused = update("b", shares(2), quota(3), ignore=True)
    refused.linux.resources.memory.limit.value = 4
    merging = updating([update("b", shares(1))], [refused])
    resources = merging.updates[0].linux.resources
    assert resources.cpu.shares.value == 1
    assert not resources.cpu.HasField("quota") and not resources.memory.HasField("limit")
    (lost,) = merging.dropped
    assert (lost.plugin, lost.container_id, lost.path) == (B, "b", "/linux/resources")
    assert lost.reason.startswith('ignore_failure is set, and plugins "20-b" and "10-a" both')
    # Memory is merged before the CPU, so its limit was claimed; quota, after the shares, was not.
    with pytest.raises(AdjustmentRefused, match='"20-b" both tried to set MemLimit'):
        merging.apply(
            api.UpdateContainerResponse(
                update=[update("b", quota(1), lambda to: setattr(to.memory.limit, "value", 1))]
            ),
            "30-c",
        )


def test_pids_and_device_rules_of_an_update_are_dropped() -> None:
    merging = updating(
        [
            update(
                "b",
                lambda to: setattr(to.pids, "limit", 9),
                lambda to: to.devices.add(type="c", access="r"),
            )
        ]
    )
    resources = merging.updates[0].linux.resources
    assert not resources.HasField("pids") and not resources.devices
    assert merging.dropped == [
        Dropped(
            A,
            "b",
            "/linux/resources/pids/limit",
            "9",
            "the runtime drops pids from the updates of plugins",
        ),
        Dropped(
            A,
            "b",
            "/linux/resources/devices",
            'type: "c" access: "r"',
            "the runtime drops device rules from the updates of plugins",
        ),
    ]


def test_with_pids_in_the_request_only_one_plugin_can_update_it() -> None:
    asked = api.LinuxResources()
    asked.pids.limit = 5
    with pytest.raises(AdjustmentRefused, match='"20-b" and "10-a" both tried to set PidsLimit'):
        updating([update("own", shares(1))], [update("own", quota(1))], asked=asked)


def test_device_rules_of_the_request_survive_since_nri_0_10() -> None:
    asked = api.LinuxResources()
    asked.devices.add(type="c")
    reply = [update("own", shares(1))]
    assert updating(reply, version="0.10.0", asked=asked).resources.devices
    assert not updating(reply, version="0.9.0", asked=asked).resources.devices


def test_a_stop_can_update_any_container() -> None:
    request = api.StopContainerRequest(container=api.Container(id="own"))
    stopping = StopMerging(request)
    replied = [update("own", shares(1)), update("b", shares(2))]
    stopping.apply(api.StopContainerResponse(update=replied), A)
    assert [one.container_id for one in stopping.updates] == ["own", "b"]
    assert set(stopping.owners.owners) == {"own", "b"}
    assert stopping.request == request
