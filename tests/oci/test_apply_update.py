# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy

import pytest
from hypothesis import given

from nri_scope import oci
from nri_scope._gen.nri import api_pb2 as api
from nri_scope.oci import UpdatePath, spec_of, update
from nri_scope.specs import Json, Spec, same
from tests.specs.generated import SPECS

from .examples import CONTAINER, UPDATE, UPDATE_SPEC, assert_includes, unset_fields


def test_an_update_applies_the_fields_that_the_cri_has() -> None:
    assert update({}, UPDATE) == UPDATE_SPEC
    assert update({}, UPDATE.linux.resources) == UPDATE_SPEC
    assert not unset_fields(UPDATE)


def test_an_update_replaces_only_the_fields_it_sets() -> None:
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


def test_a_direct_update_includes_fields_that_the_cri_lacks() -> None:
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
def test_zeros_and_empty_updates_change_nothing(way: UpdatePath) -> None:
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
def test_an_empty_update_leaves_any_spec_unchanged(spec: Spec) -> None:
    assert same(update(spec, api.LinuxResources()), spec)


def test_fields_of_a_newer_api_are_kept_raw() -> None:
    change = api.ContainerUpdate()
    change.linux.MergeFromString(b"\xf8\x3e\x07")
    assert update({}, change) == {"nri": {"unknown": {"update.linux.1007": ["varint 7"]}}}


@pytest.mark.parametrize("odd", [None, 1, "x", [], [1, None, {}], {"x": 1}])
def test_parts_with_invalid_types_are_updated(odd: Json) -> None:
    parts = "cpu", "memory", "hugepageLimits", "unified"
    values: list[Json] = [odd, {"resources": odd}, {"resources": dict.fromkeys(parts, odd)}]
    for linux in values:
        assert_includes(update({"linux": linux}, UPDATE), UPDATE_SPEC)


def test_an_update_sets_no_swap_limit_without_an_existing_one() -> None:
    spec: Spec = {"linux": {"resources": {"memory": {"limit": 5}}}}
    change = api.LinuxResources()
    change.memory.limit.value = 9
    assert update(spec, change) == {"linux": {"resources": {"memory": {"limit": 9}}}}


def test_cri_o_drops_huge_pages_and_without_cgroup_v2_unified_values() -> None:
    resources = api.LinuxResources()
    resources.cpu.shares.value = 512
    resources.hugepage_limits.add(page_size="2MB", limit=4)
    resources.unified["memory.high"] = "max"
    assert oci.update({}, resources, oci.UpdatePath.CRI_O) == {
        "linux": {"resources": {"cpu": {"shares": 512}}}
    }
    kinds = {one.path: one.kind for one in oci.remarks(resources, path=oci.UpdatePath.CRI_O)}
    assert kinds == {
        "/linux/resources/hugepageLimits/2MB": "dropped",
        "/linux/resources/unified/memory.high": "unresolved",
    }
