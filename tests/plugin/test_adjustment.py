# SPDX-License-Identifier: Apache-2.0
"""Adjustments and updates: every field of the API can be set, and invalid values are rejected."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import get_args

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import UsageError
from nri_scope.plugin import Adjustment, Eviction, Update, syscall_argument, syscall_rule
from nri_scope.plugin.adjustment import HookStage


def set_all_resources(of: Adjustment | Update) -> None:
    of.set_cpu(
        shares=512,
        quota=-1,
        period=100_000,
        realtime_runtime=1,
        realtime_period=2,
        cpus="0-3,8",
        mems="0",
    )
    of.set_memory(
        limit=1 << 30,
        reservation=1,
        swap=-1,
        kernel=2,
        kernel_tcp=3,
        swappiness=60,
        disable_oom_killer=True,
        use_hierarchy=False,
    )
    of.add_hugepage_limit("2MB", 4 << 20).set_pids_limit(100).add_unified("memory.high", "max")
    of.set_blockio_class("slow").set_rdt_class("gold")
    of.add_device_rule(True, type="c", major=10, minor=200, access="rw")


def full_adjustment() -> Adjustment:
    adjustment = Adjustment()
    set_all_resources(adjustment)
    adjustment.set_args(["sleep", "1"]).add_env("TZ", "UTC").remove_env("LANG")
    adjustment.add_rlimit("RLIMIT_NOFILE", soft=1024, hard=4096).set_oom_score_adj(-500)
    adjustment.set_io_priority("IOPRIO_CLASS_BE", 7)
    adjustment.set_scheduler(
        "SCHED_DEADLINE",
        nice=-5,
        priority=1,
        flags=["SCHED_FLAG_RECLAIM"],
        runtime=1,
        deadline=2,
        period=3,
    )
    adjustment.add_mount("/data", "/srv/data", options=["ro"])
    adjustment.add_device(
        "/dev/fuse", type="c", major=10, minor=229, file_mode=0o666, uid=1000, gid=1000
    )
    adjustment.add_cdi_device("vendor.com/gpu=0").add_net_device("eth1", "net0")
    adjustment.add_annotation("example.com/by", "me").add_sysctl("net.core.somaxconn", "1024")
    for stage in get_args(HookStage):
        adjustment.add_hook(stage, "/bin/hook", args=["hook"], env=["A=1"], timeout=5)
    adjustment.add_namespace("network", "/var/run/netns/one").set_cgroups_path("/one/two")
    adjustment.set_seccomp_policy(
        "SCMP_ACT_ALLOW",
        default_errno=1,
        architectures=["SCMP_ARCH_X86_64"],
        flags=["SECCOMP_FILTER_FLAG_LOG"],
        listener_path="/run/listener",
        listener_metadata="one",
        syscalls=[
            syscall_rule(
                ["clone"],
                "SCMP_ACT_ERRNO",
                errno=1,
                args=[syscall_argument(1, "SCMP_CMP_MASKED_EQ", 1, 2)],
            )
        ],
    )
    adjustment.set_rdt(clos_id="gold", schemata=["L3:0=f"], enable_monitoring=True).remove_rdt()
    return adjustment.set_memory_policy("MPOL_BIND", "0-1", flags=["MPOL_F_STATIC_NODES"])


WRAPPERS = ("Optional",)
"""Prefix of message types whose presence is a value."""


def fields_of(descriptor: Descriptor, path: str = "") -> Iterator[str]:
    for field in descriptor.fields:
        here = f"{path}.{field.name}"
        inner = field.message_type
        if inner is None or inner.GetOptions().map_entry or inner.name.startswith(WRAPPERS):
            yield here
        else:
            yield from fields_of(inner, here)


def fields_set(message: Message, path: str = "") -> Iterator[str]:
    for field, value in message.ListFields():
        here = f"{path}.{field.name}"
        inner = field.message_type
        if inner is None or inner.GetOptions().map_entry or inner.name.startswith(WRAPPERS):
            yield here
        else:
            for one in value if _repeated(field) else [value]:
                yield from fields_set(one, here)


def _repeated(field: FieldDescriptor) -> bool:
    return bool(field.default_value == [])


def test_every_field_of_an_adjustment_can_be_set() -> None:
    assert set(fields_set(full_adjustment().message)) == set(
        fields_of(api.ContainerAdjustment.DESCRIPTOR)
    )


def test_every_field_of_an_update_can_be_set() -> None:
    update = Update("c1", ignore_failure=True)
    set_all_resources(update)
    assert set(fields_set(update.message)) == set(fields_of(api.ContainerUpdate.DESCRIPTOR))
    eviction = Eviction("c1", "too noisy")
    assert set(fields_set(eviction.message)) == set(fields_of(api.ContainerEviction.DESCRIPTOR))


def test_empty_adjustment_is_an_empty_message() -> None:
    assert Adjustment().message.ByteSize() == 0
    assert Adjustment() == Adjustment() != Adjustment().add_env("A", "1")
    assert repr(Adjustment().add_env("A", "1")) == 'Adjustment(env { key: "A" value: "1" })'


@pytest.mark.parametrize(
    ("remove", "marker"),
    [
        (lambda one: one.remove_env("X").message.env[0].key, "-X"),
        (lambda one: one.remove_mount("/x").message.mounts[0].destination, "-/x"),
        (lambda one: one.remove_device("/dev/x").message.linux.devices[0].path, "-/dev/x"),
        (lambda one: one.remove_namespace("pid").message.linux.namespaces[0].type, "-pid"),
        (lambda one: next(iter(one.remove_annotation("x").message.annotations)), "-x"),
        (lambda one: next(iter(one.remove_sysctl("x.y").message.linux.sysctl)), "-x.y"),
        (lambda one: next(iter(one.remove_net_device("x").message.linux.net_devices)), "-x"),
        (lambda one: one.set_args(["x"], replace=True).message.args[0], ""),
    ],
)
def test_removals_have_the_api_s_marker(remove: Callable[[Adjustment], str], marker: str) -> None:
    assert remove(Adjustment()) == marker


def test_last_value_of_a_key_is_sent_beside_its_removal() -> None:
    adjustment = Adjustment().remove_env("A").add_env("A", "1").add_env("B", "2").add_env("A", "3")
    assert [(one.key, one.value) for one in adjustment.message.env] == [
        ("-A", ""),
        ("A", "3"),
        ("B", "2"),
    ]
    limits = Adjustment().add_hugepage_limit("2MB", 1).add_hugepage_limit("2MB", 0).resources
    assert [(one.page_size, one.limit) for one in limits.hugepage_limits] == [("2MB", 0)]


def test_resources_are_set_separately_and_the_last_value_wins() -> None:
    resources = Adjustment().set_cpu(shares=5, quota=7).set_cpu(shares=0, cpus="1").resources
    assert resources.cpu.HasField("shares")
    assert (resources.cpu.shares.value, resources.cpu.quota.value) == (0, 7)
    assert not resources.cpu.HasField("period")
    assert not resources.HasField("memory")


@pytest.mark.parametrize(
    ("invalid_call", "words"),
    [
        (lambda: Adjustment().add_env("A=B", ""), "environment variable 'A=B' contains '='"),
        (lambda: Adjustment().add_env("", ""), "environment variable is empty"),
        (lambda: Adjustment().add_env("-A", ""), "begins with '-'.*remove_"),
        (lambda: Adjustment().add_env("A", "\0"), "contains a zero byte"),
        (lambda: Adjustment().add_env("A", "\ud800"), "not valid Unicode"),
        (lambda: Adjustment().add_annotation("a", "\ud800"), "not valid Unicode"),
        (lambda: Adjustment().add_sysctl("a", "\ud800"), "not valid Unicode"),
        (lambda: Adjustment().add_unified("a", "\ud800"), "not valid Unicode"),
        (lambda: Adjustment().set_args(["\ud800"]), "not valid Unicode"),
        (lambda: Adjustment().set_rdt_class("\ud800"), "not valid Unicode"),
        (lambda: Adjustment().add_mount("/a", "/b", options=["\ud800"]), "Mount: "),
        (lambda: Adjustment().add_annotation("-a", ""), "begins with '-'"),
        (
            lambda: Adjustment().add_mount("data", "/srv"),
            "mount destination 'data' is not an absolute",
        ),
        (lambda: Adjustment().add_mount("/data", "srv"), "source of a bind mount 'srv'"),
        (lambda: Adjustment().remove_mount("-/data"), "'-/data' is not an absolute path"),
        (lambda: Adjustment().add_rlimit("NOFILE", soft=1, hard=1), "mean RLIMIT_NOFILE"),
        (lambda: Adjustment().add_rlimit("RLIMIT_CPU", soft=2, hard=1), "above the hard limit 1"),
        (lambda: Adjustment().add_rlimit("RLIMIT_CPU", soft=0, hard=-1), "the soft limit 0"),
        (lambda: Adjustment().add_rlimit("RLIMIT_CPU", soft=0, hard=1 << 64), "POSIXRlimit: "),
        (
            lambda: Adjustment().add_device("/dev/x", type="c", major=-1, minor=0),
            "must not be negative",
        ),
        (lambda: Adjustment().remove_device("x"), "device path 'x' is not an absolute"),
        (lambda: Adjustment().add_cdi_device("gpu0"), "vendor/class=device"),
        (lambda: Adjustment().add_hook("poststop", "hook"), "hook path 'hook'"),
        (lambda: Adjustment().add_hook("poststop", "/h", env=["A"]), "not of the form NAME=value"),
        (lambda: Adjustment().add_hook("poststop", "/h", timeout=0), "hook timeout 0"),
        (lambda: Adjustment().add_namespace("net"), "there is no namespace 'net'"),
        (lambda: Adjustment().add_net_device("x" * 16), "not an interface name"),
        (lambda: Adjustment().set_args([]), "first element of args must be"),
        (lambda: Adjustment().set_args([""]), "first element of args must be"),
        (lambda: Adjustment().set_oom_score_adj(1001), "not between -1000 and 1000"),
        (lambda: Adjustment().set_io_priority("RT"), "there is no I/O priority class 'RT'"),
        (lambda: Adjustment().set_io_priority("IOPRIO_CLASS_RT", 8), "I/O priority 8"),
        (lambda: Adjustment().set_scheduler("SCHED_FIF"), "did you mean SCHED_FIFO"),
        (lambda: Adjustment().set_scheduler("SCHED_FIFO", flags=["X"]), "scheduler flag 'X'"),
        (lambda: Adjustment().set_memory_policy("BIND"), "there is no memory policy 'BIND'"),
        (lambda: Adjustment().set_seccomp_policy("allow"), "not a seccomp action"),
        (lambda: Adjustment().set_cgroups_path(""), "cgroups path is empty"),
        (lambda: Adjustment().set_cpu(cpus="0..3"), "cpus '0..3' is not a list"),
        (lambda: Adjustment().set_cpu(shares=-1), "OptionalUInt64"),
        (lambda: Adjustment().set_memory(swappiness=101), "swappiness 101"),
        (lambda: Adjustment().add_hugepage_limit("2M", 1), "huge page size '2M'"),
        (lambda: Adjustment().add_unified("a/b", ""), "cgroup file 'a/b' is not a file name"),
        (lambda: Adjustment().add_device_rule(True, access="x"), "device access 'x'"),
        (lambda: Update(""), "needs the container's id"),
        (lambda: Eviction("", "why"), "needs the container's id"),
    ],
)
def test_invalid_values_are_rejected_by_name(
    invalid_call: Callable[[], object], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        invalid_call()


ANY_TEXT = st.text(st.characters(exclude_categories=()))


@given(ANY_TEXT, ANY_TEXT)
def test_any_text_is_set_or_rejected(key: str, value: str) -> None:
    for add in (Adjustment().add_env, Adjustment().add_annotation, Adjustment().add_sysctl):
        try:
            message = add(key, value).message
        except UsageError:
            continue
        assert api.ContainerAdjustment.FromString(message.SerializeToString()) == message
