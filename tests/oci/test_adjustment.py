# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy

import pytest
from hypothesis import given

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.oci import adjust, sort_mounts, spec_of
from nri_scope.specs import Json, Spec, changes, same
from tests.specs.generated import SPECS

from .examples import ADJUSTMENT, ADJUSTMENT_SPEC, CONTAINER, assert_includes, unset_fields


def test_every_field_of_an_adjustment_reaches_the_spec() -> None:
    assert adjust({}, ADJUSTMENT) == ADJUSTMENT_SPEC
    assert unset_fields(ADJUSTMENT) == {"LinuxRdt.remove"}


def test_an_empty_adjustment_changes_nothing() -> None:
    spec = spec_of(CONTAINER)
    empty_parts = api.ContainerAdjustment(linux=api.LinuxContainerAdjustment(rdt=api.LinuxRdt()))
    empty_parts.linux.resources.cpu.SetInParent()
    empty_parts.linux.resources.memory.SetInParent()
    for adjustment in (api.ContainerAdjustment(), empty_parts):
        after = adjust(spec, adjustment)
        assert after == spec
        assert all(after[name] is spec[name] for name in spec)
        assert adjust({}, adjustment) == {}


@given(SPECS)
def test_an_empty_adjustment_leaves_any_spec_unchanged(spec: Spec) -> None:
    empty_parts = api.ContainerAdjustment(linux=api.LinuxContainerAdjustment(rdt=api.LinuxRdt()))
    empty_parts.linux.resources.cpu.SetInParent()
    empty_parts.linux.resources.memory.SetInParent()
    for adjustment in (api.ContainerAdjustment(), empty_parts):
        assert same(adjust(spec, adjustment), spec)


@given(SPECS)
def test_sorting_mounts_only_moves_mounts(spec: Spec) -> None:
    moved = changes(spec, sort_mounts(spec))
    assert {change.path.split("/")[1] for change in moved} <= {"mounts"}
    assert same(sort_mounts(sort_mounts(spec)), sort_mounts(spec))


def test_the_argument_is_unchanged() -> None:
    spec = spec_of(CONTAINER)
    before = copy.deepcopy(spec)
    adjust(spec, ADJUSTMENT)
    assert spec == before


def env_of(before: list[Json], *env: tuple[str, str]) -> Json:
    adjustment = api.ContainerAdjustment(env=[api.KeyValue(key=k, value=v) for k, v in env])
    process = adjust({"process": {"env": before}}, adjustment).get("process", {})
    assert isinstance(process, dict)
    return process.get("env", [])


@pytest.mark.parametrize(
    ("before", "env", "after"),
    [
        (["A=1", "B=2"], [("A", "x")], ["A=x", "B=2"]),
        (["A=1", "B=2"], [("C", "x")], ["A=1", "B=2", "C=x"]),
        (["A=1", "B=2"], [("-A", "")], ["B=2"]),
        (["A=1", "B=2"], [("-A", ""), ("A", "x")], ["A=x", "B=2"]),
        (["A=1", "B=2"], [("A", "x"), ("-A", "")], ["A=x", "B=2"]),
        (["B=2"], [("-A", ""), ("A", "x")], ["B=2", "A=x"]),
        (["A=1"], [("-A", "")], []),
        (["A=1"], [("-Z", "")], ["A=1"]),
        (["A=b=c"], [("B", "=")], ["A=b=c", "B=="]),
        # Duplicate names: only the last value is kept, even over an adjusted one.
        (["A=1", "B=2", "A=3"], [("B", "x")], ["A=3", "B=x"]),
        (["A=1", "A=3"], [("A", "x")], ["A=3"]),
        (["A=1", "A=3"], [("-A", "")], ["A=3"]),
        # Adjusting the environment removes members that are not variables.
        (["A", "=x", "B=2", 7], [("B", "x")], ["B=x"]),
        (["B=2"], [("", "x")], ["B=2"]),
    ],
)
def test_environment_is_adjusted(
    before: list[Json], env: list[tuple[str, str]], after: list[Json]
) -> None:
    assert env_of(before, *env) == after


def test_annotations_and_sysctl_are_set_removed_and_replaced() -> None:
    spec: Spec = {"annotations": {"a": "1", "b": "2"}, "linux": {"sysctl": {"a": "1", "b": "2"}}}
    marks = {"-a": "", "-b": "", "b": "3", "c": "4", "-z": ""}
    adjustment = api.ContainerAdjustment(
        annotations=marks, linux=api.LinuxContainerAdjustment(sysctl=marks)
    )
    texts = {"b": "3", "c": "4"}
    assert adjust(spec, adjustment) == {"annotations": texts, "linux": {"sysctl": texts}}
    last = api.ContainerAdjustment(annotations={"-a": "", "-b": ""})
    assert adjust({"annotations": {"a": "1", "b": "2"}}, last) == {}


def test_arguments_are_replaced() -> None:
    spec: Spec = {"process": {"args": ["a", "b"], "cwd": "/"}}
    replaced = {"process": {"args": ["x", ""], "cwd": "/"}}
    assert adjust(spec, api.ContainerAdjustment(args=["x", ""])) == replaced
    # A leading empty argument marks a replacement of another plugin's arguments.
    assert adjust(spec, api.ContainerAdjustment(args=["", "x", ""])) == replaced
    assert adjust(spec, api.ContainerAdjustment(args=[""])) == spec


def test_hooks_and_cdi_devices_are_appended() -> None:
    spec: Spec = {"hooks": {"poststop": [{"path": "/a"}]}, "cdiDevices": [{"name": "a"}]}
    adjustment = api.ContainerAdjustment(
        hooks=api.Hooks(poststop=[api.Hook(path="/a")], prestart=[api.Hook(path="/b")]),
        CDI_devices=[api.CDIDevice(name="b")],
    )
    assert adjust(spec, adjustment) == {
        "hooks": {"poststop": [{"path": "/a"}, {"path": "/a"}], "prestart": [{"path": "/b"}]},
        "cdiDevices": [{"name": "a"}, {"name": "b"}],
    }


def test_an_rlimit_of_an_existing_type_is_appended() -> None:
    old: Spec = {"type": "RLIMIT_CORE", "hard": 0, "soft": 0}
    adjustment = api.ContainerAdjustment(rlimits=[api.POSIXRlimit(type="RLIMIT_CORE", hard=5)])
    assert adjust({"process": {"rlimits": [old]}}, adjustment) == {
        "process": {"rlimits": [old, {"type": "RLIMIT_CORE", "hard": 5, "soft": 0}]}
    }


def mounts_of(before: list[str], *destinations: str) -> list[Json]:
    mounts: list[Json] = [{"destination": each, "source": "old"} for each in before]
    adjustment = api.ContainerAdjustment(
        mounts=[api.Mount(destination=each, source="new") for each in destinations]
    )
    after = adjust({"mounts": mounts}, adjustment).get("mounts", [])
    assert isinstance(after, list)
    return [f"{m['destination']} {m['source']}" for m in after if isinstance(m, dict)]


@pytest.mark.parametrize(
    ("before", "adjusted", "after"),
    [
        (["/proc", "/dev/pts", "/dev"], ["/c/d/e"], "/dev /proc /dev/pts +/c/d/e"),
        (["/b", "/a"], ["-/z"], "/a /b"),
        (["/b", "/a"], ["-/a"], "/b"),
        (["/b", "/a"], ["/b"], "/a +/b"),
        (["/b", "/a"], ["-/b", "/b"], "/a +/b"),
        (["/b", "/a"], ["/b", "-/b"], "/a +/b"),
        (["/a"], ["-/a"], ""),
        (["/b/c/..", "/z"], ["x"], "+x /b/c/.. /z"),
        (["/a/b/", "//z", "/y"], ["/"], "+/ //z /y /a/b/"),
        # Of two equal destinations the first is removed.
        (["/a", "/a"], ["-/a"], "/a"),
    ],
)
def test_mounts_are_replaced_removed_and_sorted(
    before: list[str], adjusted: list[str], after: str
) -> None:
    expected = [f"{m[1:]} new" if m[0] == "+" else f"{m} old" for m in after.split()]
    assert mounts_of(before, *adjusted) == expected


def test_mounts_can_be_sorted_without_an_adjustment() -> None:
    spec: Spec = {"mounts": [{"destination": each} for each in ("/b/c", "/b", "/a")]}
    assert sort_mounts(spec) == {"mounts": [{"destination": each} for each in ("/a", "/b", "/b/c")]}
    assert sort_mounts({}) == {}


@pytest.mark.parametrize(
    ("before", "options", "after"),
    [
        (None, [], None),
        (None, ["rprivate"], None),
        (None, ["rshared"], "rshared"),
        (None, ["rslave"], "rslave"),
        ("rshared", ["rslave"], "rshared"),
        ("private", ["rslave"], "rslave"),
        ("rslave", ["rslave", "rshared"], "rshared"),
    ],
)
def test_a_mounts_propagation_sets_that_of_the_root(
    before: str | None, options: list[str], after: str | None
) -> None:
    spec: Spec = {"linux": {"rootfsPropagation": before}} if before else {}
    adjustment = api.ContainerAdjustment(mounts=[api.Mount(destination="/a", options=options)])
    linux = adjust(spec, adjustment).get("linux", {})
    assert isinstance(linux, dict)
    assert linux.get("rootfsPropagation") == after


def linux_of(before: Spec, adjustment: api.LinuxContainerAdjustment) -> Json:
    return adjust({"linux": before}, api.ContainerAdjustment(linux=adjustment)).get("linux")


def test_devices_are_replaced_removed_and_allowed_in_the_cgroup() -> None:
    spec: Spec = {
        "devices": [{"path": "/dev/a"}, {"path": "/dev/b"}, {"path": "/dev/c"}],
        "resources": {"devices": [{"allow": False, "access": "rwm"}]},
    }
    adjustment = api.LinuxContainerAdjustment(
        devices=[
            api.LinuxDevice(path="/dev/a", type="b", major=1, minor=2),
            api.LinuxDevice(path="-/dev/b"),
            api.LinuxDevice(path="-/dev/z"),
        ]
    )
    assert linux_of(spec, adjustment) == {
        "devices": [
            {"path": "/dev/c"},
            {"path": "/dev/a", "type": "b", "major": 1, "minor": 2},
        ],
        "resources": {
            "devices": [
                {"allow": False, "access": "rwm"},
                {"allow": True, "type": "b", "major": 1, "minor": 2, "access": "rwm"},
            ]
        },
    }
    gone = api.LinuxContainerAdjustment(devices=[api.LinuxDevice(path="-/dev/b")])
    assert linux_of({"devices": [{"path": "/dev/b"}]}, gone) is None


def test_namespaces_and_net_devices_are_replaced_and_removed() -> None:
    spec: Spec = {
        "namespaces": [{"type": "pid"}, {"type": "network", "path": "/n"}],
        "netDevices": {"eth0": {}, "eth1": {}},
    }
    adjustment = api.LinuxContainerAdjustment(
        namespaces=[
            api.LinuxNamespace(type="-network"),
            api.LinuxNamespace(type="pid", path="/p"),
            api.LinuxNamespace(type="user"),
        ],
        net_devices={
            "-eth0": api.LinuxNetDevice(),
            "-eth1": api.LinuxNetDevice(),
            "eth1": api.LinuxNetDevice(name="x"),
        },
    )
    assert linux_of(spec, adjustment) == {
        "namespaces": [{"type": "pid", "path": "/p"}, {"type": "user"}],
        "netDevices": {"eth1": {"name": "x"}},
    }


def test_a_removal_with_a_new_value_replaces_in_either_order() -> None:
    spec: Spec = {"devices": [{"path": "/dev/a"}], "namespaces": [{"type": "pid"}]}
    adjustment = api.LinuxContainerAdjustment(
        devices=[api.LinuxDevice(path="/dev/a", type="c"), api.LinuxDevice(path="-/dev/a")],
        namespaces=[api.LinuxNamespace(type="pid", path="/p"), api.LinuxNamespace(type="-pid")],
    )
    after = linux_of(spec, adjustment)
    assert isinstance(after, dict)
    assert after["devices"] == [{"path": "/dev/a", "type": "c", "major": 0, "minor": 0}]
    assert after["namespaces"] == [{"type": "pid", "path": "/p"}]


def test_a_scheduler_or_io_priority_without_policy_or_class_removes_the_old_one() -> None:
    spec: Spec = {"process": {"scheduler": {"policy": "SCHED_RR"}, "ioPriority": {"class": "x"}}}
    adjustment = api.ContainerAdjustment(
        linux=api.LinuxContainerAdjustment(
            scheduler=api.LinuxScheduler(nice=3), io_priority=api.LinuxIOPriority(priority=2)
        )
    )
    assert adjust(spec, adjustment) == {}


def resources_of(before: Spec, adjustment: api.LinuxResources) -> Json:
    linux = linux_of({"resources": before}, api.LinuxContainerAdjustment(resources=adjustment))
    return linux.get("resources") if isinstance(linux, dict) else None


def test_only_the_memory_limit_is_applied_and_also_limits_swap() -> None:
    adjustment = api.LinuxResources(
        memory=api.LinuxMemory(
            limit=api.OptionalInt64(value=5),
            swap=api.OptionalInt64(value=9),
            reservation=api.OptionalInt64(value=1),
        )
    )
    before: Spec = {"memory": {"limit": 1, "swap": 2, "reservation": 3}}
    after = {"memory": {"limit": 5, "swap": 5, "reservation": 3}}
    assert resources_of(before, adjustment) == after
    adjustment.memory.limit.value = 0
    assert resources_of(before, adjustment) == before


def test_cpu_settings_of_zero_are_set() -> None:
    adjustment = api.LinuxResources(cpu=api.LinuxCPU(quota=api.OptionalInt64(), cpus="3"))
    assert resources_of({"cpu": {"quota": 5, "shares": 2, "cpus": "0"}}, adjustment) == {
        "cpu": {"quota": 0, "shares": 2, "cpus": "3"}
    }


@pytest.mark.parametrize(
    ("before", "limit", "after"),
    [(None, 5, {"limit": 5}), (None, 0, {"limit": 0}), (None, -1, {}), (7, -1, {"limit": 7})],
)
def test_a_pids_limit_is_applied_unless_negative(
    before: int | None, limit: int, after: Spec
) -> None:
    spec: Spec = {} if before is None else {"pids": {"limit": before}}
    adjustment = api.LinuxResources(pids=api.LinuxPids(limit=limit))
    assert resources_of(spec, adjustment) == {"pids": after}


def test_hugepages_and_unified_are_merged_by_key() -> None:
    adjustment = api.LinuxResources(
        hugepage_limits=[
            api.HugepageLimit(page_size="2MB", limit=5),
            api.HugepageLimit(page_size="1GB", limit=6),
        ],
        unified={"b": "2", "a": "1"},
    )
    before: Spec = {
        "hugepageLimits": [{"pageSize": "2MB", "limit": 1}],
        "unified": {"a": "0", "c": "0"},
    }
    assert resources_of(before, adjustment) == {
        "hugepageLimits": [{"pageSize": "2MB", "limit": 5}, {"pageSize": "1GB", "limit": 6}],
        "unified": {"a": "1", "b": "2", "c": "0"},
    }


def test_classes_are_set_and_removed() -> None:
    spec: Spec = {"intelRdt": {"closID": "a", "schemata": ["L3:0=f"]}}
    adjustment = api.LinuxContainerAdjustment()
    adjustment.resources.rdt_class.value = "gold"
    assert linux_of(spec, adjustment) == {"intelRdt": {"closID": "gold"}}
    adjustment.resources.rdt_class.value = ""
    assert linux_of(spec, adjustment) is None
    adjustment.Clear()
    adjustment.resources.blockio_class.SetInParent()
    assert linux_of({"resources": {"blockIO": {"weight": 1}}}, adjustment) is None


def test_rdt_is_set_field_by_field_and_removed() -> None:
    spec: Spec = {"intelRdt": {"closID": "a", "schemata": ["L3:0=f"]}}
    adjustment = api.LinuxContainerAdjustment()
    adjustment.rdt.enable_monitoring.SetInParent()
    assert linux_of(spec, adjustment) == {
        "intelRdt": {"closID": "a", "schemata": ["L3:0=f"], "enableMonitoring": False}
    }
    adjustment.rdt.remove = True
    assert linux_of(spec, adjustment) == {"intelRdt": {"enableMonitoring": False}}
    adjustment.rdt.ClearField("enable_monitoring")
    assert linux_of(spec, adjustment) is None


def test_fields_of_a_newer_api_are_kept_raw() -> None:
    adjustment = api.ContainerAdjustment()
    adjustment.linux.resources.MergeFromString(b"\xf8\x3e\x07")
    once = adjust({}, adjustment)
    name = "adjustment.linux.resources.1007"
    assert once == {"nri": {"unknown": {name: ["varint 7"]}}}
    assert adjust(once, adjustment) == {"nri": {"unknown": {name: ["varint 7", "varint 7"]}}}


@pytest.mark.parametrize("odd", [None, 1, "x", [], [1, None, "x", [], {}], {"x": 1}])
def test_parts_with_invalid_types_are_adjusted(odd: Json) -> None:
    specs: list[Spec] = [
        {key: odd} for key in ("process", "mounts", "hooks", "annotations", "linux", "cdiDevices")
    ]
    names = "env", "rlimits", "args", "devices", "namespaces", "sysctl", "netDevices", "intelRdt"
    process: Spec = dict.fromkeys(names, odd)
    specs.append({"process": process, "linux": {**process, "resources": odd}})
    parts = "cpu", "memory", "pids", "devices", "hugepageLimits", "unified", "blockIO"
    specs.append({"linux": {"resources": dict.fromkeys(parts, odd)}})
    for spec in specs:
        assert_includes(adjust(spec, ADJUSTMENT), ADJUSTMENT_SPEC)
    assert adjust({"nri": odd}, ADJUSTMENT) == {**ADJUSTMENT_SPEC, "nri": odd}
