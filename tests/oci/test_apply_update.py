# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy

import pytest
from hypothesis import given

from nri_scope import oci
from nri_scope._gen.nri import api_pb2 as api
from nri_scope.oci import Json, Spec, UpdatePath, same, spec_of, update

from .examples import CONTAINER, UPDATE, UPDATE_SPEC, unset_fields
from .specs import SPECS


def test_an_update_reaches_the_spec_as_far_as_the_cri_goes() -> None:
    assert update({}, UPDATE) == UPDATE_SPEC
    assert update({}, UPDATE.linux.resources) == UPDATE_SPEC
    assert not unset_fields(UPDATE)


def test_an_update_replaces_what_it_names_and_nothing_else() -> None:
    spec: Spec = {
        "process": {"args": ["a"]},
        "linux": {
            "cgroupsPath": "/c",
            "resources": {
                "cpu": {"shares": 9, "quota": 9, "cpus": "9", "burst": 9},
                "memory": {"limit": 9, "swap": 10, "reservation": 9},
                "hugepageLimits": [{"pageSize": "1GB", "limit": 9}, {"pageSize": "2MB"}],
                "unified": {"a": "9", "b": "9"},
                "pids": {"limit": 9},
            },
        },
    }
    kept = copy.deepcopy(spec)
    assert update(spec, UPDATE) == {
        "process": {"args": ["a"]},
        "linux": {
            "cgroupsPath": "/c",
            "resources": {
                "cpu": {
                    "shares": 1,
                    "quota": 2,
                    "period": 3,
                    "cpus": "0-1",
                    "mems": "0",
                    "burst": 9,
                },
                "memory": {"limit": 1, "swap": 1, "reservation": 9},
                "hugepageLimits": [
                    {"pageSize": "1GB", "limit": 9},
                    {"pageSize": "2MB", "limit": 9},
                ],
                "unified": {"a": "9", "b": "2", "memory.high": "1"},
                "pids": {"limit": 9},
            },
        },
    }
    assert spec == kept


def test_an_oci_runtime_gets_what_the_cri_lacks() -> None:
    change = api.LinuxResources()
    change.memory.limit.value = 5
    change.memory.reservation.value = 4
    change.pids.limit = 66
    spec: Spec = {"linux": {"resources": {"memory": {"limit": 9, "swap": 9}}}}
    by_cri: Spec = {"linux": {"resources": {"memory": {"limit": 5, "swap": 5}}}}
    direct: Spec = {
        "linux": {
            "resources": {
                "memory": {"limit": 5, "swap": 9, "reservation": 4},
                "pids": {"limit": 66},
            }
        }
    }
    unknown: Spec = {"linux": {"resources": {"memory": {"limit": 5, "swap": 9}}}}
    assert update(spec, change, UpdatePath.CRI) == by_cri
    assert update(spec, change, UpdatePath.OCI_RUNTIME) == direct
    assert update(spec, change, UpdatePath.UNKNOWN) == unknown


@pytest.mark.parametrize("way", UpdatePath)
def test_zero_and_nothing_leave_all_as_it_is(way: UpdatePath) -> None:
    spec = spec_of(CONTAINER)
    zeros = api.LinuxResources()
    zeros.cpu.shares.SetInParent()
    zeros.cpu.quota.SetInParent()
    zeros.cpu.period.SetInParent()
    zeros.memory.limit.SetInParent()
    for resources in (zeros, api.LinuxResources()):
        assert update(spec, resources, way) == spec
        assert update({}, resources, way) == {}


@given(SPECS)
def test_no_update_changes_nothing_of_any_spec(spec: Spec) -> None:
    assert same(update(spec, api.LinuxResources()), spec)


def test_fields_of_a_newer_api_are_kept_raw() -> None:
    change = api.ContainerUpdate()
    change.linux.MergeFromString(b"\xf8\x3e\x07")
    assert update({}, change) == {"nri": {"unknown": {"update.linux.1007": ["varint 7"]}}}


@pytest.mark.parametrize("odd", [None, 1, "x", [], [1, None, {}], {"x": 1}])
def test_parts_that_are_no_oci_are_no_obstacle(odd: Json) -> None:
    update({"linux": odd}, UPDATE)
    update({"linux": {"resources": odd}}, UPDATE)
    parts = "cpu", "memory", "hugepageLimits", "unified"
    update({"linux": {"resources": dict.fromkeys(parts, odd)}}, UPDATE)


def test_a_node_that_limits_no_swap_goes_on_doing_so() -> None:
    spec: Spec = {"linux": {"resources": {"memory": {"limit": 5}}}}
    change = api.LinuxResources()
    change.memory.limit.value = 9
    assert update(spec, change) == {"linux": {"resources": {"memory": {"limit": 9}}}}


def test_cri_o_hands_on_neither_huge_pages_nor_without_cgroup_v2_unified_ones() -> None:
    wanted = api.LinuxResources()
    wanted.cpu.shares.value = 512
    wanted.hugepage_limits.add(page_size="2MB", limit=4)
    wanted.unified["memory.high"] = "max"
    assert oci.update({}, wanted, oci.UpdatePath.CRI_O) == {
        "linux": {"resources": {"cpu": {"shares": 512}}}
    }
    kinds = {one.path: one.kind for one in oci.remarks(wanted, path=oci.UpdatePath.CRI_O)}
    assert kinds == {
        "/linux/resources/hugepageLimits/2MB": "dropped",
        "/linux/resources/unified/memory.high": "unresolved",
    }
