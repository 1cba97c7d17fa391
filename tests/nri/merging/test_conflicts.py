# SPDX-License-Identifier: Apache-2.0
"""Owners of fields, and conflicts between plugins."""

from __future__ import annotations

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import AdjustmentRefused

from .chains import A, Adjust, B, adjusting, creating, shares

ENV: Adjust = lambda to: to.env.add(key="HOME", value="/")  # noqa: E731
NO_ENV: Adjust = lambda to: to.env.add(key="-HOME")  # noqa: E731
NOTE: Adjust = lambda to: to.annotations.update({"k": "v"})  # noqa: E731
NO_NOTE: Adjust = lambda to: to.annotations.update({"-k": ""})  # noqa: E731


def test_setting_a_field_of_another_plugin_is_rejected() -> None:
    cases: dict[str, Adjust] = {
        "Annotations k": NOTE,
        "Env HOME": ENV,
        "Mounts /data": lambda to: to.mounts.add(destination="/data"),
        "Args ": lambda to: to.args.append("sh"),
        "Rlimits RLIMIT_CORE": lambda to: to.rlimits.add(type="RLIMIT_CORE"),
        "CdiDevices vendor.com/gpu=0": lambda to: to.CDI_devices.add(name="vendor.com/gpu=0"),
        "CPUShares ": lambda to: shares(3)(to.linux.resources),
        "CPUSetCPUs ": lambda to: setattr(to.linux.resources.cpu, "cpus", "1"),
        "HugepageLimits 2MB": lambda to: to.linux.resources.hugepage_limits.add(page_size="2MB"),
        "CgroupsUnified cpu.idle": lambda to: to.linux.resources.unified.update({"cpu.idle": "1"}),
        "PidsLimit ": lambda to: to.linux.resources.pids.SetInParent(),
        "CgroupsPath ": lambda to: setattr(to.linux, "cgroups_path", "/x"),
        "SeccompPolicy ": lambda to: to.linux.seccomp_policy.SetInParent(),
        "Namespace pid": lambda to: to.linux.namespaces.add(type="-pid"),
        "LinuxSched ": lambda to: to.linux.scheduler.SetInParent(),
        "RdtClosID ": lambda to: to.linux.rdt.clos_id.SetInParent(),
        "MemoryPolicy ": lambda to: to.linux.memory_policy.SetInParent(),
    }
    for subject, do in cases.items():
        with pytest.raises(AdjustmentRefused) as refused:
            creating(a=adjusting(do), b=adjusting(do))
        assert str(refused.value) == f'plugins "20-b" and "10-a" both tried to set {subject}'


def test_a_plugin_conflicts_with_itself() -> None:
    with pytest.raises(AdjustmentRefused, match='"10-a" and "10-a" both tried to set Env HOME'):
        creating(a=adjusting(ENV, ENV))


def test_different_keys_do_not_conflict() -> None:
    other = adjusting(lambda to: to.env.add(key="LANG", value="C"))
    creation = creating(a=adjusting(ENV), b=other)
    owners = creation.owners.owners["new"].compound[api.Env].owners
    assert owners == {"HOME": A, "LANG": B}


def test_removing_and_setting_replaces() -> None:
    creation = creating(a=adjusting(ENV), b=adjusting(NO_ENV, ENV))
    assert [(one.key, one.value) for one in creation.adjustment.env] == [("HOME", "/")]
    assert creation.owners.owners["new"].compound[api.Env].owners == {"HOME": B}


def test_a_removal_owns_the_key() -> None:
    creation = creating(a=adjusting(ENV), b=adjusting(NO_ENV))
    assert creation.owners.owners["new"].compound[api.Env].owners == {"HOME": f"-{B}"}
    with pytest.raises(AdjustmentRefused, match='"30-c" and "20-b" both tried to set Env HOME'):
        creation.apply(adjusting(ENV), "30-c")


def test_before_nri_0_10_a_removal_releases_the_key() -> None:
    creation = creating(version="0.8.0", a=adjusting(ENV), b=adjusting(NO_ENV), c=adjusting(ENV))
    assert creation.owners.owners["new"].compound[api.Env].owners == {"HOME": "30-c"}


def test_before_nri_0_10_conflicts_have_other_messages() -> None:
    cases: dict[str, Adjust] = {
        "annotation k": NOTE,
        "memory 'UseHierarchy'": lambda to: to.linux.resources.memory.use_hierarchy.SetInParent(),
        "hugepage limit of size 2MB": lambda to: to.linux.resources.hugepage_limits.add(
            page_size="2MB"
        ),
        "pids pinning": lambda to: to.linux.resources.pids.SetInParent(),
    }
    for subject, do in cases.items():
        with pytest.raises(AdjustmentRefused) as refused:
            creating(version="0.8.0", a=adjusting(do), b=adjusting(do))
        assert str(refused.value) == f'plugins "20-b" and "10-a" both tried to set {subject}'


def test_a_plugins_name_is_quoted_as_go_does() -> None:
    creation = creating()
    creation.apply(adjusting(NOTE), '10-"\\\n\x01é')
    with pytest.raises(AdjustmentRefused) as refused:
        creation.apply(adjusting(NOTE), B)
    assert r'"20-b" and "10-\"\\\n\x01é" both' in str(refused.value)


def test_hooks_have_all_their_owners() -> None:
    hook = adjusting(lambda to: to.hooks.prestart.add(path="/hook"))
    creation = creating(a=hook, b=hook, c=hook)
    assert creation.owners.owners["new"].simple == {api.OciHooks: "10-a,20-b,30-c"}


def test_nri_0_10_and_0_11_lose_the_owners_of_hooks() -> None:
    hook = adjusting(lambda to: to.hooks.prestart.add(path="/hook"))
    creation = creating(version="0.11.0", a=hook, b=hook)
    assert creation.owners.owners["new"].simple == {api.OciHooks: "-20-b"}


def test_the_first_conflict_in_upstreams_order_is_reported() -> None:
    both = adjusting(lambda to: to.rlimits.add(type="RLIMIT_CORE"), NOTE, ENV)
    with pytest.raises(AdjustmentRefused, match="Annotations k"):
        creating(a=both, b=both)


def test_a_removed_annotation_is_still_shown_to_later_plugins() -> None:
    container = api.Container(id="new")
    container.annotations["k"] = "old"
    creation = creating(container, a=adjusting(NO_NOTE))
    assert creation.request.container.annotations == {"k": "old"}
    assert creation.adjustment.annotations == {"-k": ""}


def test_an_empty_first_argument_replaces() -> None:
    creation = creating(
        a=adjusting(lambda to: to.args.append("sh")),
        b=adjusting(lambda to: to.args.extend(["", "bash", "-l"])),
    )
    assert creation.adjustment.args == ["bash", "-l"]
    assert creation.owners.owners["new"].simple == {api.Args: B}


def test_rdt_is_removed_with_all_its_members() -> None:
    creation = creating(
        a=adjusting(lambda to: setattr(to.linux.rdt.clos_id, "value", "gold")),
        b=adjusting(lambda to: setattr(to.linux.rdt, "remove", True)),
    )
    assert creation.adjustment.linux.rdt == api.LinuxRdt(remove=True)
    creation.apply(
        adjusting(
            lambda to: setattr(to.linux.rdt, "remove", True),
            lambda to: to.linux.rdt.schemata.value.append("L3:0=f"),
        ),
        "30-c",
    )
    assert not creation.adjustment.linux.rdt.remove
    assert creation.adjustment.linux.rdt.schemata.value == ["L3:0=f"]
