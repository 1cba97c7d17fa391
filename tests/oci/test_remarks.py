# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.oci import Remark, Spec, UpdatePath, adjust, remarks, update

from .examples import ADJUSTMENT, UPDATE, without_each_field


def test_each_field_of_an_adjustment_is_applied_or_remarked_upon() -> None:
    whole = adjust({}, ADJUSTMENT), remarks(ADJUSTMENT)
    hidden = {
        path
        for path, without in without_each_field(ADJUSTMENT)
        if (adjust({}, without), remarks(without)) == whole
    }
    # The CLOS that is named wins over the class.
    assert hidden == {"linux.resources.rdt_class", "linux.resources.rdt_class.value"}


@pytest.mark.parametrize("way", UpdatePath)
def test_each_field_of_an_update_is_applied_or_remarked_upon(way: UpdatePath) -> None:
    whole = update({}, UPDATE, way), remarks(UPDATE, path=way)
    hidden = {
        path
        for path, without in without_each_field(UPDATE)
        if (update({}, without, way), remarks(without, path=way)) == whole
    }
    assert hidden == {"container_id", "ignore_failure"}
    assert remarks(UPDATE) == remarks(UPDATE.linux.resources)


def told(change: api.ContainerAdjustment | api.ContainerUpdate) -> list[str]:
    return [f"{each.kind} {each.path}" for each in remarks(change)]


def test_what_a_runtime_drops_or_resolves_of_an_adjustment() -> None:
    assert told(ADJUSTMENT) == [
        "resolved /cdiDevices/vendor.com~1gpu=0",
        "dropped /linux/seccomp/defaultErrnoRet",
        "dropped /linux/resources/memory/reservation",
        "dropped /linux/resources/memory/swap",
        "dropped /linux/resources/memory/kernel",
        "dropped /linux/resources/memory/kernelTCP",
        "dropped /linux/resources/memory/swappiness",
        "dropped /linux/resources/memory/disableOOMKiller",
        "dropped /linux/resources/memory/useHierarchy",
        "resolved /linux/resources/blockIO",
    ]


def test_what_a_runtime_drops_of_an_update() -> None:
    assert told(UPDATE) == [
        "dropped /linux/resources/memory/reservation",
        "dropped /linux/resources/memory/swap",
        "dropped /linux/resources/memory/kernel",
        "dropped /linux/resources/memory/kernelTCP",
        "dropped /linux/resources/memory/swappiness",
        "dropped /linux/resources/memory/disableOOMKiller",
        "dropped /linux/resources/memory/useHierarchy",
        "dropped /linux/resources/cpu/realtimeRuntime",
        "dropped /linux/resources/cpu/realtimePeriod",
        "dropped /linux/resources/pids/limit",
        "dropped /linux/resources/blockIO",
        "dropped /linux/intelRdt/closID",
        "dropped /linux/resources/devices",
    ]


def test_what_of_an_update_not_every_oci_runtime_applies() -> None:
    found = remarks(UPDATE, path=UpdatePath.OCI_RUNTIME)
    assert [f"{each.kind} {each.path}" for each in found] == [
        "unresolved /linux/resources/memory/kernel",
        "unresolved /linux/resources/memory/kernelTCP",
        "unresolved /linux/resources/memory/swappiness",
        "unresolved /linux/resources/memory/disableOOMKiller",
        "unresolved /linux/resources/memory/useHierarchy",
        "unresolved /linux/resources/cpu/realtimeRuntime",
        "unresolved /linux/resources/cpu/realtimePeriod",
        "dropped /linux/resources/blockIO",
        "dropped /linux/intelRdt/closID",
        *(
            f"unresolved /linux/resources/hugepageLimits/{limit.page_size}"
            for limit in UPDATE.linux.resources.hugepage_limits
        ),
        "unresolved /linux/resources/devices",
    ]


def test_no_limit_of_pids_is_not_handed_to_the_oci_runtime() -> None:
    change = api.ContainerUpdate()
    change.linux.resources.pids.limit = -1
    (remark,) = remarks(change, path=UpdatePath.OCI_RUNTIME)
    assert (remark.kind, remark.value) == ("dropped", -1)


def test_nothing_is_known_of_an_unknown_runtime() -> None:
    assert {each.kind for each in remarks(UPDATE, path=UpdatePath.UNKNOWN)} == {"unresolved"}


def test_zeros_that_leave_things_as_they_are() -> None:
    change = api.ContainerUpdate()
    change.linux.resources.cpu.quota.SetInParent()
    change.linux.resources.memory.limit.SetInParent()
    paths = ["dropped /linux/resources/memory/limit", "dropped /linux/resources/cpu/quota"]
    assert told(change) == paths
    adjustment = api.ContainerAdjustment()
    adjustment.linux.resources.CopyFrom(change.linux.resources)
    assert told(adjustment) == paths[:1]


def test_no_limit_of_pids_leaves_one_that_is_there() -> None:
    adjustment = api.ContainerAdjustment()
    adjustment.linux.resources.pids.limit = -1
    assert told(adjustment) == ["dropped /linux/resources/pids/limit"]


def test_unknown_namespaces_are_refused_in_the_runtimes_words() -> None:
    adjustment = api.ContainerAdjustment()
    adjustment.linux.namespaces.add(type="-net")
    adjustment.linux.namespaces.add(type="network")
    assert remarks(adjustment) == (
        Remark("/linux/namespaces/net", "-net", "refused", 'unrecognized namespace "net"'),
    )


def test_mounts_that_need_a_propagation_of_their_source() -> None:
    adjustment = api.ContainerAdjustment()
    adjustment.mounts.add(destination="/a", source="/s", options=["rslave", "rshared"])
    adjustment.mounts.add(destination="/b", source="/s", options=["rprivate"])
    adjustment.mounts.add(destination="-/c", options=["rshared"])
    (remark,) = remarks(adjustment)
    assert remark[:3] == ("/mounts/~1a/options", "rshared", "unresolved")
    assert "/s" in remark.reason


def test_a_removal_and_a_value_for_one_key_are_a_matter_of_luck() -> None:
    keys = {"-a": "", "a": "1", "-b": "", "c": "2"}
    adjustment = api.ContainerAdjustment(annotations=keys)
    adjustment.linux.sysctl.update(keys)
    for key in keys:
        adjustment.linux.net_devices[key].name = keys[key]
    found = remarks(adjustment)
    assert [each[:3] for each in found] == [
        ("/annotations/a", "1", "unresolved"),
        ("/linux/sysctl/a", "1", "unresolved"),
        ("/linux/netDevices/a", {"name": "1"}, "unresolved"),
    ]


def test_a_limit_whose_type_is_there_already() -> None:
    adjustment = api.ContainerAdjustment()
    adjustment.rlimits.add(type="RLIMIT_CORE", hard=1)
    adjustment.rlimits.add(type="RLIMIT_AS")
    spec: Spec = {"process": {"rlimits": [{"type": "RLIMIT_CORE", "hard": 0, "soft": 0}]}}
    (remark,) = remarks(adjustment, spec)
    assert remark[:3] == (
        "/process/rlimits/RLIMIT_CORE",
        {"type": "RLIMIT_CORE", "hard": 1, "soft": 0},
        "unresolved",
    )
    others: list[Spec | None] = [None, {}, {"process": 1}, {"process": {"rlimits": [1, {}]}}]
    for other in others:
        assert remarks(adjustment, other) == ()
    adjustment.rlimits.add(type="RLIMIT_AS")
    assert [each.path for each in remarks(adjustment)] == ["/process/rlimits/RLIMIT_AS"]


def test_a_variable_without_a_name_is_dropped() -> None:
    adjustment = api.ContainerAdjustment(env=[api.KeyValue(value="x")])
    assert told(adjustment) == ["dropped /process/env/"]


def test_nothing_to_say() -> None:
    assert remarks(api.ContainerAdjustment()) == ()
    assert remarks(api.ContainerUpdate()) == ()
