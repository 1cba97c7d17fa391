# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import AdjustmentRefused
from nri_scope.nri.merging import CreationMerging, Dropped

from .chains import A, B, adjusting, creating, shares, update
from .merged_replies import response_of


def test_the_first_plugin_sees_the_container_with_empty_messages_added() -> None:
    request = api.CreateContainerRequest(container=api.Container(id="new", env=["A=1"]))
    creation = CreationMerging(request)
    container = creation.request.container
    assert container.env == ["A=1"]
    assert container.HasField("hooks")
    assert container.linux.resources.HasField("memory")
    assert container.linux.resources.HasField("cpu")
    assert not request.container.HasField("linux"), "the argument is unchanged"


def test_later_plugins_see_what_earlier_ones_adjusted() -> None:
    container = api.Container(id="new", args=["sleep"], env=["A=1", "B=2"])
    container.mounts.add(destination="/data", source="/old")
    reply = adjusting(
        lambda to: to.annotations.update({"k": "v"}),
        lambda to: to.env.add(key="A", value="new"),
        lambda to: to.mounts.add(destination="/data", source="/new"),
        lambda to: to.args.extend(["sh", "-c"]),
        lambda to: to.hooks.prestart.add(path="/hook"),
        lambda to: to.rlimits.add(type="RLIMIT_CORE", hard=1),
        lambda to: to.linux.devices.add(path="/dev/kvm"),
        lambda to: shares(5)(to.linux.resources),
        lambda to: setattr(to.linux, "cgroups_path", "/x"),
        lambda to: setattr(to.linux.oom_score_adj, "value", 7),
        lambda to: setattr(to.linux.scheduler, "nice", 3),
        lambda to: to.linux.sysctl.update({"kernel.x": "1"}),
    )
    seen = creating(container, a=reply).request.container
    assert seen.annotations == {"k": "v"}
    assert seen.env == ["B=2", "A=new"]
    assert [(mount.destination, mount.source) for mount in seen.mounts] == [("/data", "/new")]
    assert seen.args == ["sh", "-c"]
    assert [hook.path for hook in seen.hooks.prestart] == ["/hook"]
    assert [limit.type for limit in seen.rlimits] == ["RLIMIT_CORE"]
    assert [device.path for device in seen.linux.devices] == ["/dev/kvm"]
    assert seen.linux.resources.cpu.shares.value == 5
    assert seen.linux.cgroups_path == "/x"
    assert seen.linux.oom_score_adj.value == 7
    assert seen.linux.scheduler.nice == 3
    assert seen.linux.sysctl == {"kernel.x": "1"}


def test_later_plugins_never_see_cdi_devices_rdt_memory_policy_or_updates_of_others() -> None:
    reply = adjusting(
        lambda to: to.CDI_devices.add(name="vendor.com/gpu=0"),
        lambda to: setattr(to.linux.rdt.clos_id, "value", "gold"),
        lambda to: setattr(to.linux.memory_policy, "nodes", "0"),
    )
    reply.update.append(update("other", shares(5)))
    creation = creating(a=reply)
    assert creation.request == creating().request
    assert [device.name for device in creation.adjustment.CDI_devices] == ["vendor.com/gpu=0"]
    assert creation.adjustment.linux.rdt.clos_id.value == "gold"
    assert creation.adjustment.linux.memory_policy.nodes == "0"
    assert [one.container_id for one in creation.updates] == ["other"]


def test_an_empty_rdt_is_in_every_adjustment_with_a_linux_part() -> None:
    assert not creating(a=adjusting()).adjustment.linux.HasField("rdt")
    reply = adjusting(lambda to: to.linux.SetInParent())
    assert creating(a=reply).adjustment.linux.HasField("rdt")


def test_hooks_of_all_plugins_are_run_in_order() -> None:
    one = adjusting(lambda to: to.hooks.poststop.add(path="/1"))
    two = adjusting(lambda to: to.hooks.poststop.add(path="/2"))
    container = api.Container(id="new")
    container.hooks.poststop.add(path="/0")
    creation = creating(container, a=one, b=two)
    assert [hook.path for hook in creation.adjustment.hooks.poststop] == ["/1", "/2"]
    assert [hook.path for hook in creation.request.container.hooks.poststop] == ["/0", "/1", "/2"]


def test_a_namespace_is_replaced_or_removed_by_its_type() -> None:
    container = api.Container(id="new")
    for kind in ("ipc", "pid", "network"):
        container.linux.namespaces.add(type=kind)
    reply = adjusting(
        lambda to: to.linux.namespaces.add(type="pid", path="/proc/1/ns/pid"),
        lambda to: to.linux.namespaces.add(type="-network"),
        lambda to: to.linux.namespaces.add(type="uts"),
    )
    creation = creating(container, a=reply)
    seen = creation.request.container.linux.namespaces
    assert [one.type for one in seen] == ["ipc", "pid", "uts"]
    assert seen[1].path == "/proc/1/ns/pid"
    requested = [namespace.type for namespace in creation.adjustment.linux.namespaces]
    assert requested == ["pid", "-network", "uts"]


def test_the_container_that_is_created_cannot_be_updated() -> None:
    reply = api.CreateContainerResponse(update=[update("new", ignore=True)])
    with pytest.raises(AdjustmentRefused, match=r'^plugin "10-a" asked update of "new" during cre'):
        creating(a=reply)


def test_an_eviction_is_dropped() -> None:
    reply = api.CreateContainerResponse()
    reply.evict.add(container_id="other", reason="no room")
    creation = creating(a=reply)
    assert creation.dropped == [
        Dropped(A, "other", "/evict", "no room", "the runtime ignores evictions")
    ]


def test_a_creation_has_the_adjustment_and_the_updates() -> None:
    reply = adjusting(lambda to: to.annotations.update({"k": "v"}))
    reply.update.append(update("other", shares(5)))
    creation = creating(a=reply)
    assert creation.adjustment.annotations == {"k": "v"}
    (other,) = creation.updates
    assert (other.container_id, other.linux.resources.cpu.shares.value) == ("other", 5)


def test_validators_receive_the_pristine_container_and_all_plugins() -> None:
    container = api.Container(id="new", env=["A=1"])
    reply = adjusting(lambda to: to.env.add(key="A", value="2"))
    creation = creating(container, a=reply, b=adjusting())
    plugins = [api.PluginInstance(name="a", index="10"), api.PluginInstance(name="b", index="20")]
    validation = creation.validation(plugins)
    assert validation.container.env == ["A=1"]
    assert validation.adjust == creation.adjustment
    assert list(validation.plugins) == plugins
    assert validation.owners.owners["new"].compound[api.Env].owners == {"A": A}
    assert not validation.HasField("pod"), "the request had none"


def test_a_reply_without_adjustment_changes_nothing() -> None:
    creation = creating(a=api.CreateContainerResponse())
    creation.apply(api.CreateContainerResponse(), B)
    assert response_of(creation) == response_of(creating())
    assert not creation.owners.owners
