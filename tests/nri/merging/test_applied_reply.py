# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.merging import adjusted, with_resources

from .chains import quota, shares, update


def test_removals_and_values_are_applied() -> None:
    container = api.Container(id="c", env=["A=1", "B=2", "C=3"], args=["sleep"])
    container.annotations.update({"gone": "1", "kept": "2"})
    for kind in ("pid", "network"):
        container.linux.namespaces.add(type=kind)
    container.linux.net_devices["eth0"].name = "eth0"
    adjustment = api.ContainerAdjustment(args=["sh"])
    adjustment.annotations.update({"-gone": "", "new": "3"})
    adjustment.env.add(key="B", value="new")
    adjustment.env.add(key="-A")
    adjustment.env.add(key="D", value="=")
    adjustment.hooks.poststart.add(path="/hook")
    adjustment.linux.namespaces.add(type="-pid")
    adjustment.linux.namespaces.add(type="network", path="/ns")
    adjustment.linux.net_devices["-eth0"].SetInParent()
    adjustment.linux.net_devices["eth1"].name = "net1"
    adjustment.linux.scheduler.CopyFrom(api.LinuxScheduler(policy=api.SCHED_BATCH, nice=5))
    result = adjusted(container, adjustment)
    assert result.annotations == {"kept": "2", "new": "3"}
    assert result.env == ["B=new", "C=3", "D=="]
    assert result.args == ["sh"]
    assert [hook.path for hook in result.hooks.poststart] == ["/hook"]
    assert [(one.type, one.path) for one in result.linux.namespaces] == [("network", "/ns")]
    assert set(result.linux.net_devices) == {"eth1"}
    assert result.linux.scheduler.nice == 5
    assert container.args == ["sleep"], "the argument is unchanged"


def test_mounts_are_sorted_by_depth() -> None:
    container = api.Container(id="c")
    for destination in ("/z", "/a/b/c", "/gone", "/proc"):
        container.mounts.add(destination=destination)
    adjustment = api.ContainerAdjustment()
    adjustment.mounts.add(destination="/a/b", source="/new")
    adjustment.mounts.add(destination="-/gone")
    result = adjusted(container, adjustment)
    assert [mount.destination for mount in result.mounts] == ["/proc", "/z", "/a/b", "/a/b/c"]
    untouched = adjusted(container, api.ContainerAdjustment())
    assert untouched.mounts == container.mounts, "without adjusted mounts the order is kept"


def test_a_device_adds_its_cgroup_rule() -> None:
    adjustment = api.ContainerAdjustment()
    adjustment.linux.devices.add(path="/dev/sda", type="b", major=8, minor=1)
    linux = adjusted(api.Container(id="c"), adjustment).linux
    assert [device.path for device in linux.devices] == ["/dev/sda"]
    (rule,) = linux.resources.devices
    assert (rule.allow, rule.type, rule.access) == (True, "b", "rwm")
    assert (rule.major.value, rule.minor.value) == (8, 1)


def test_a_memory_limit_limits_swap_and_the_rest_of_memory_has_no_effect() -> None:
    adjustment = api.ContainerAdjustment()
    adjustment.linux.resources.memory.limit.value = 5
    adjustment.linux.resources.memory.reservation.value = 3
    adjustment.linux.resources.cpu.realtime_period.value = 0
    resources = adjusted(api.Container(id="c"), adjustment).linux.resources
    assert (resources.memory.limit.value, resources.memory.swap.value) == (5, 5)
    assert not resources.memory.HasField("reservation")
    assert resources.cpu.HasField("realtime_period")


def test_rdt_members_are_replaced_or_all_removed() -> None:
    container = api.Container(id="c")
    container.linux.rdt.clos_id.value = "old"
    container.linux.rdt.enable_monitoring.value = True
    adjustment = api.ContainerAdjustment()
    adjustment.linux.rdt.clos_id.value = "new"
    rdt = adjusted(container, adjustment).linux.rdt
    assert rdt.clos_id.value == "new" and rdt.enable_monitoring.value
    removal = api.ContainerAdjustment()
    removal.linux.rdt.remove = True
    assert not adjusted(container, removal).linux.HasField("rdt")


def test_rlimits_are_shown_unless_the_runtime_hides_them() -> None:
    adjustment = api.ContainerAdjustment()
    adjustment.rlimits.add(type="RLIMIT_CORE")
    assert adjusted(api.Container(), adjustment).rlimits
    assert not adjusted(api.Container(), adjustment, shows_rlimits=False).rlimits


def test_an_update_applies_only_nonzero_values() -> None:
    container = api.Container(id="c")
    container.linux.resources.cpu.quota.value = 7
    container.linux.resources.memory.reservation.value = 9
    asked = update("c", shares(5), quota(0))
    asked.linux.resources.memory.limit.value = 3
    asked.linux.resources.unified["cpu.idle"] = "1"
    asked.linux.resources.cpu.mems = "0"
    asked.linux.resources.hugepage_limits.add(page_size="2MB", limit=1)
    resources = with_resources(container, asked.linux.resources).linux.resources
    assert (resources.cpu.shares.value, resources.cpu.quota.value) == (5, 7)
    assert (resources.memory.limit.value, resources.memory.swap.value) == (3, 3)
    assert resources.memory.reservation.value == 9
    assert resources.unified == {"cpu.idle": "1"}
    assert resources.cpu.mems == "0"
    assert [limit.page_size for limit in resources.hugepage_limits] == ["2MB"]
    assert with_resources(container, api.LinuxResources()) == container


def test_a_scheduler_without_policy_removes_the_existing_one() -> None:
    container = api.Container(id="c")
    container.linux.scheduler.CopyFrom(api.LinuxScheduler(policy=api.SCHED_BATCH))
    adjustment = api.ContainerAdjustment()
    adjustment.linux.scheduler.nice = 5
    assert not adjusted(container, adjustment).linux.HasField("scheduler")


def test_a_seccomp_policy_loses_its_default_errno() -> None:
    adjustment = api.ContainerAdjustment()
    adjustment.linux.seccomp_policy.default_action = "SCMP_ACT_ERRNO"
    adjustment.linux.seccomp_policy.default_errno.value = 38
    policy = adjusted(api.Container(id="c"), adjustment).linux.seccomp_policy
    assert policy == api.LinuxSeccomp(default_action="SCMP_ACT_ERRNO")
