# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.oci import Remark, UpdatePath, adjust, empty_cpu_set, remarks, update
from nri_scope.specs import Spec

from .examples import ADJUSTMENT, UPDATE, without_each_field


def test_each_field_of_an_adjustment_is_applied_or_has_a_remark() -> None:
    whole = adjust({}, ADJUSTMENT), remarks(ADJUSTMENT)
    hidden = {
        path
        for path, without in without_each_field(ADJUSTMENT)
        if (adjust({}, without), remarks(without)) == whole
    }
    # An explicit CLOS overrides the class.
    assert hidden == {"linux.resources.rdt_class", "linux.resources.rdt_class.value"}


@pytest.mark.parametrize("way", UpdatePath)
def test_each_field_of_an_update_is_applied_or_has_a_remark(way: UpdatePath) -> None:
    whole = update({}, UPDATE, way), remarks(UPDATE, path=way)
    hidden = {
        path
        for path, without in without_each_field(UPDATE)
        if (update({}, without, way), remarks(without, path=way)) == whole
    }
    assert hidden == {"container_id", "ignore_failure"}
    assert remarks(UPDATE) == remarks(UPDATE.linux.resources)


def remarks_of(change: api.ContainerAdjustment | api.ContainerUpdate) -> list[str]:
    return [f"{each.kind} {each.path}" for each in remarks(change)]


def test_dropped_and_unresolved_fields_of_an_adjustment() -> None:
    assert remarks_of(ADJUSTMENT) == [
        "unresolved /cdiDevices/vendor.com~1gpu=0",
        "dropped /linux/seccomp/defaultErrnoRet",
        "dropped /linux/resources/memory/reservation",
        "dropped /linux/resources/memory/swap",
        "dropped /linux/resources/memory/kernel",
        "dropped /linux/resources/memory/kernelTCP",
        "dropped /linux/resources/memory/swappiness",
        "dropped /linux/resources/memory/disableOOMKiller",
        "dropped /linux/resources/memory/useHierarchy",
        "unresolved /linux/resources/blockIO",
    ]


def test_dropped_fields_of_an_update() -> None:
    assert remarks_of(UPDATE) == [
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


def test_fields_of_a_direct_update_that_not_every_oci_runtime_applies() -> None:
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


def test_an_empty_cpu_set_asks_for_nothing() -> None:
    resources = api.LinuxResources()
    assert not empty_cpu_set(resources)
    # As from Go, where setting an empty text creates the message.
    resources.cpu.SetInParent()
    (one,) = empty_cpu_set(resources)
    assert (one.path, one.kind) == ("/linux/resources/cpu/cpus", "dropped")
    assert "'not set'" in one.reason
    resources.cpu.shares.value = 2
    assert not empty_cpu_set(resources)


def test_an_unlimited_pids_value_is_dropped_from_a_direct_update() -> None:
    change = api.ContainerUpdate()
    change.linux.resources.pids.limit = -1
    (remark,) = remarks(change, path=UpdatePath.OCI_RUNTIME)
    assert (remark.kind, remark.value) == ("dropped", -1)


def test_every_field_is_unresolved_for_an_unknown_runtime() -> None:
    assert {each.kind for each in remarks(UPDATE, path=UpdatePath.UNKNOWN)} == {"unresolved"}


def test_zeros_without_effect_are_dropped() -> None:
    change = api.ContainerUpdate()
    change.linux.resources.cpu.quota.SetInParent()
    change.linux.resources.memory.limit.SetInParent()
    paths = ["dropped /linux/resources/memory/limit", "dropped /linux/resources/cpu/quota"]
    assert remarks_of(change) == paths
    adjustment = api.ContainerAdjustment()
    adjustment.linux.resources.CopyFrom(change.linux.resources)
    assert remarks_of(adjustment) == paths[:1]


def test_an_unlimited_pids_value_leaves_an_existing_limit() -> None:
    adjustment = api.ContainerAdjustment()
    adjustment.linux.resources.pids.limit = -1
    spec: Spec = {"linux": {"resources": {"pids": {"limit": 64}}}}
    for before, kind in ((spec, "dropped"), ({}, "unresolved")):
        (one,) = remarks(adjustment, before)
        assert (one.path, one.kind) == ("/linux/resources/pids/limit", kind)


def test_unknown_namespaces_are_refused_with_the_runtimes_message() -> None:
    adjustment = api.ContainerAdjustment()
    adjustment.linux.namespaces.add(type="-net")
    adjustment.linux.namespaces.add(type="network")
    assert remarks(adjustment) == (
        Remark("/linux/namespaces/net", "-net", "refused", 'unrecognized namespace "net"'),
    )


def test_mounts_that_depend_on_their_sources_propagation_are_unresolved() -> None:
    adjustment = api.ContainerAdjustment()
    adjustment.mounts.add(destination="/a", source="/s", options=["rslave", "rshared"])
    adjustment.mounts.add(destination="/b", source="/s", options=["rprivate"])
    adjustment.mounts.add(destination="-/c", options=["rshared"])
    (remark,) = remarks(adjustment)
    assert remark[:3] == ("/mounts/~1a/options", "rshared", "unresolved")
    assert "/s" in remark.reason


def test_a_removal_with_a_value_for_one_key_is_unresolved() -> None:
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


def test_an_rlimit_of_an_existing_type_is_unresolved() -> None:
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
    assert remarks_of(adjustment) == ["dropped /process/env/"]


def test_empty_messages_have_no_remarks() -> None:
    assert remarks(api.ContainerAdjustment()) == ()
    assert remarks(api.ContainerUpdate()) == ()
