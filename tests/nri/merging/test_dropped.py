# SPDX-License-Identifier: Apache-2.0
"""Dropped requests of plugins are reported."""

from __future__ import annotations

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import AdjustmentRefused
from nri_scope.nri.merging import NOT_PASSED_ON, CreationMerging, Dropped, unsolicited

from .chains import A, Adjust, B, adjusting, creating, nri, update
from .merged_replies import response_of


def dropped(creation: CreationMerging) -> list[tuple[str, str]]:
    return [(one.path, one.reason) for one in creation.dropped]


NEWER_FIELDS: dict[str, tuple[str, Adjust]] = {
    "/process/rlimits/RLIMIT_CORE": ("0.3.0", lambda to: to.rlimits.add(type="RLIMIT_CORE")),
    "/linux/resources/pids/limit": (
        "0.6.1",
        lambda to: to.linux.resources.pids.SetInParent(),
    ),
    "/cdiDevices/v~1gpu=0": ("0.6.1", lambda to: to.CDI_devices.add(name="v/gpu=0")),
    "/process/oomScoreAdj": ("0.6.1", lambda to: to.linux.oom_score_adj.SetInParent()),
    "/process/args": ("0.9.0", lambda to: to.args.append("sh")),
    "/process/ioPriority": ("0.9.0", lambda to: to.linux.io_priority.SetInParent()),
    "/linux/seccomp": ("0.9.0", lambda to: to.linux.seccomp_policy.SetInParent()),
    "/linux/namespaces/pid": ("0.9.0", lambda to: to.linux.namespaces.add(type="-pid")),
    "/linux/resources/devices": ("0.9.0", lambda to: to.linux.resources.devices.add(type="a")),
    "/linux/sysctl/kernel.x": ("0.10.0", lambda to: to.linux.sysctl.update({"kernel.x": "1"})),
    "/linux/netDevices/eth0": ("0.10.0", lambda to: to.linux.net_devices["eth0"].SetInParent()),
    "/process/scheduler": ("0.10.0", lambda to: to.linux.scheduler.SetInParent()),
    "/linux/intelRdt/closID": ("0.10.0", lambda to: to.linux.rdt.clos_id.SetInParent()),
    "/linux/memoryPolicy": ("0.11.0", lambda to: to.linux.memory_policy.SetInParent()),
}


@pytest.mark.parametrize("path", NEWER_FIELDS)
def test_a_runtime_drops_fields_that_its_nri_lacks(path: str) -> None:
    version, do = NEWER_FIELDS[path]
    nothing = creating(version=version, a=adjusting(lambda to: to.linux.SetInParent()))
    creation = creating(
        version=version, a=adjusting(lambda to: to.linux.SetInParent(), do), b=adjusting(do)
    )
    reason = f"NRI {version} has no such field"
    assert dropped(creation) == [(path, reason)] * 2
    assert [one.plugin for one in creation.dropped] == [A, B]
    assert response_of(creation) == response_of(nothing)
    assert creation.request == nothing.request
    assert not creation.owners.owners
    assert not creating(a=adjusting(do)).dropped, "the newest version has the field"


def test_removing_a_variable_that_no_plugin_set_does_nothing() -> None:
    container = api.Container(id="new", env=["HOME=/root", "A=1"])
    creation = creating(container, a=adjusting(lambda to: to.env.add(key="-HOME")))
    assert not creation.adjustment.env
    assert creation.request.container.env == ["A=1"], "though the next plugin does not see it"
    assert creation.dropped == [
        Dropped(
            A,
            "new",
            "/process/env/HOME",
            "-HOME",
            NOT_PASSED_ON,
        )
    ]


def test_removing_an_earlier_plugins_value_cancels_it() -> None:
    creation = creating(
        a=adjusting(lambda to: to.linux.devices.add(path="/dev/kvm")),
        b=adjusting(lambda to: to.linux.devices.add(path="-/dev/kvm")),
    )
    assert not creation.adjustment.linux.devices
    assert not creation.dropped


def test_the_removal_of_a_mount_is_passed_on_since_nri_0_7() -> None:
    reply = adjusting(lambda to: to.mounts.add(destination="-/data"))
    creation = creating(version="0.7.0", a=reply)
    assert [mount.destination for mount in creation.adjustment.mounts] == ["-/data"]
    assert not creation.dropped
    assert dropped(creating(version="0.6.1", a=reply))[0][0] == "/mounts/~1data"


def test_until_nri_0_12_2_removing_a_sysctl_removes_an_annotation() -> None:
    reply = adjusting(lambda to: to.linux.sysctl.update({"-kernel.x": ""}))
    for version in ("0.11.0", "0.12.2"):
        creation = creating(version=version, a=reply)
        assert creation.adjustment.annotations == {"-kernel.x": ""}
        assert not creation.adjustment.linux.sysctl
        assert dropped(creation)[0][0] == "/linux/sysctl/kernel.x"
    creation = creating(version="0.12.3", a=reply)
    assert creation.adjustment.linux.sysctl == {"-kernel.x": ""}
    assert not creation.dropped


def test_nri_0_11_panics_on_a_sysctl() -> None:
    with pytest.raises(AdjustmentRefused, match=r"^panic: assignment to entry in nil map$"):
        creating(version="0.11.0", a=adjusting(lambda to: to.linux.sysctl.update({"k": "1"})))


def test_unsolicited_updates_are_not_merged() -> None:
    updates = [
        update("b", lambda to: setattr(to.pids, "limit", 5)),
        update("b", lambda to: setattr(to.pids, "limit", 6)),
    ]
    assert unsolicited(updates, A) == (updates, [])
    kept, lost = unsolicited(updates, A, version=nri("0.6.1"))
    assert [one.container_id for one in kept] == ["b", "b"]
    assert not any(one.linux.resources.HasField("pids") for one in kept)
    assert [(one.path, one.value) for one in lost] == [
        ("/linux/resources/pids/limit", "5"),
        ("/linux/resources/pids/limit", "6"),
    ]
    assert updates[0].linux.resources.pids.limit == 5, "the argument is unchanged"


def test_a_long_value_is_cut() -> None:
    reply = adjusting(lambda to: to.args.append("x" * 1000))
    (lost,) = creating(version="0.8.0", a=reply).dropped
    assert lost.value == "x" * 199 + "…"
