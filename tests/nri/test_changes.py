# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json

import pytest
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.changes import (
    NO_CHANGES,
    REQUIRED_PLUGINS,
    Requirement,
    absent_plugins,
    changes_of,
    is_named,
    requirement_of,
)
from nri_scope.nri.request_subject import decode_reply, decode_request

from .captures import NAMES, exchanges


@pytest.mark.parametrize("name", NAMES)
def test_changes_in_real_traffic(name: str) -> None:
    found: dict[str, set[str]] = {}
    for exchange in exchanges(name):
        request = decode_request(exchange.method, exchange.request).message
        reply = decode_reply(exchange.method, exchange.reply)
        changed, owners = changes_of(exchange.method, request, reply, exchange.plugin)
        assert bool(changed) == bool(owners)
        if exchange.method == "ValidateContainerAdjustment":
            found.setdefault("owners", set()).update(owners)
            found.setdefault("validated", set()).update(changed)
        else:
            found.setdefault(exchange.plugin, set()).update(changed)
            assert owners in ((), (exchange.plugin,))
    injected = {
        "/annotations/example.com~1injected-by",
        "/mounts/~1mnt~1tmp",
        "/process/env/FOO",
        "/process/env/INJECTED",
        "/process/rlimits/RLIMIT_NOFILE",
    }
    policy = {
        "/linux/resources/cpu/cpus",
        "/linux/resources/cpu/shares",
        "/linux/resources/pids/limit",
        "/process/oomScoreAdj",
    }
    assert found["30-env-injector"] == injected
    assert found["60-cpu-policy"] == policy
    assert not any(found[probe] for probe in ("00-probe-a", "50-probe-b", "95-probe-c"))
    if "owners" in found:
        assert found["owners"] == {"20-device-injector", "30-env-injector", "60-cpu-policy"}
        assert found["validated"] == injected | policy | {"/linux/devices/~1dev~1nri-null"}


def test_every_field_of_an_adjustment_has_its_path() -> None:
    adjust = api.ContainerAdjustment(
        annotations={"-gone": "", "a~b/c": ""},
        mounts=[api.Mount(destination="-/data")],
        env=[api.KeyValue(key="-FOO"), api.KeyValue(key="FOO", value="1")],
        hooks=api.Hooks(start_container=[api.Hook()], poststop=[api.Hook()]),
        rlimits=[api.POSIXRlimit(type="RLIMIT_CORE")],
        CDI_devices=[api.CDIDevice(name="v/c=d")],
        args=["", "sh"],
        linux=api.LinuxContainerAdjustment(
            devices=[api.LinuxDevice(path="/dev/x")],
            cgroups_path="/x",
            oom_score_adj=api.OptionalInt(value=0),
            io_priority=api.LinuxIOPriority(),
            seccomp_policy=api.LinuxSeccomp(),
            namespaces=[api.LinuxNamespace(type="-network")],
            sysctl={"net.x": "1"},
            net_devices={"-eth1": api.LinuxNetDevice()},
            scheduler=api.LinuxScheduler(),
            rdt=api.LinuxRdt(clos_id=api.OptionalString(value="x"), remove=True),
            memory_policy=api.LinuxMemoryPolicy(),
            resources=api.LinuxResources(
                memory=api.LinuxMemory(kernel_tcp=api.OptionalInt64(value=1)),
                cpu=api.LinuxCPU(mems="0"),
                hugepage_limits=[api.HugepageLimit(page_size="2MB")],
                blockio_class=api.OptionalString(value="b"),
                rdt_class=api.OptionalString(value="r"),
                unified={"memory.high": "1"},
                devices=[api.LinuxDeviceCgroup(allow=True)],
                pids=api.LinuxPids(limit=0),
            ),
        ),
    )
    for message in (adjust, adjust.linux, adjust.linux.resources):
        unset = set(message.DESCRIPTOR.fields_by_name) - {f.name for f, _ in message.ListFields()}
        assert not unset, "the example above must set every field"
    reply = api.CreateContainerResponse(adjust=adjust)
    changed, owners = changes_of("CreateContainer", None, reply, "10-x")
    assert owners == ("10-x",)
    assert changed == tuple(
        sorted(
            [
                "/annotations/a~0b~1c",
                "/annotations/gone",
                "/cdiDevices/v~1c=d",
                "/hooks/poststop",
                "/hooks/startContainer",
                "/linux/cgroupsPath",
                "/linux/devices/~1dev~1x",
                "/linux/intelRdt",
                "/linux/intelRdt/closID",
                "/linux/memoryPolicy",
                "/linux/namespaces/network",
                "/linux/netDevices/eth1",
                "/linux/resources/blockIO",
                "/linux/resources/cpu/mems",
                "/linux/resources/devices",
                "/linux/resources/hugepageLimits/2MB",
                "/linux/resources/memory/kernelTCP",
                "/linux/resources/pids/limit",
                "/linux/resources/unified/memory.high",
                "/linux/seccomp",
                "/linux/sysctl/net.x",
                "/mounts/~1data",
                "/process/args",
                "/process/env/FOO",
                "/process/ioPriority",
                "/process/oomScoreAdj",
                "/process/rlimits/RLIMIT_CORE",
                "/process/scheduler",
            ]
        )
    )


@pytest.mark.parametrize("group", ["memory", "cpu", "hooks", "rdt"])
def test_each_field_of_a_group_has_its_own_path(group: str) -> None:
    seen = set()
    fields = {
        "memory": api.LinuxMemory.DESCRIPTOR,
        "cpu": api.LinuxCPU.DESCRIPTOR,
        "hooks": api.Hooks.DESCRIPTOR,
        "rdt": api.LinuxRdt.DESCRIPTOR,
    }[group].fields
    for field in fields:
        adjust = api.ContainerAdjustment()
        message: Message = {
            "memory": adjust.linux.resources.memory,
            "cpu": adjust.linux.resources.cpu,
            "hooks": adjust.hooks,
            "rdt": adjust.linux.rdt,
        }[group]
        if field.message_type is None:
            setattr(message, field.name, True if field.name == "remove" else "0")
        elif group == "hooks":
            getattr(message, field.name).add()
        else:
            getattr(message, field.name).SetInParent()
        reply = api.CreateContainerResponse(adjust=adjust)
        (path,), _ = changes_of("CreateContainer", None, reply, "10-x")
        seen.add(path)
    assert len(seen) == len(fields)


def test_messages_without_content_change_nothing() -> None:
    reply = api.CreateContainerResponse(
        adjust=api.ContainerAdjustment(
            hooks=api.Hooks(),
            linux=api.LinuxContainerAdjustment(
                rdt=api.LinuxRdt(),
                resources=api.LinuxResources(memory=api.LinuxMemory(), cpu=api.LinuxCPU()),
            ),
        ),
    )
    assert changes_of("CreateContainer", None, reply, "10-x") == NO_CHANGES


@pytest.mark.parametrize(
    "reply",
    [
        api.SynchronizeResponse,
        api.CreateContainerResponse,
        api.UpdateContainerResponse,
        api.StopContainerResponse,
    ],
)
def test_updates_of_other_containers_count(
    reply: type[api.SynchronizeResponse],
) -> None:
    message = reply()
    message.update.add(container_id="c").linux.resources.cpu.quota.value = 0
    method = reply.__name__.removesuffix("Response")
    assert changes_of(method, None, message, "10-x") == (
        ("/linux/resources/cpu/quota",),
        ("10-x",),
    )


def test_unsolicited_updates_count() -> None:
    request = api.UpdateContainersRequest()
    request.update.add(container_id="c").linux.resources.memory.limit.value = -1
    assert changes_of("UpdateContainers", request, None, "10-x") == (
        ("/linux/resources/memory/limit",),
        ("10-x",),
    )


def test_owners_in_a_validation_request_are_parsed() -> None:
    request = api.ValidateContainerAdjustmentRequest()
    fields = request.owners.owners["c"]
    fields.simple[api.OciHooks] = "10-a,20-b"
    fields.simple[api.RdtClosID] = "-30-remover"
    fields.simple[77] = "40-future"
    fields.compound[api.Mounts].owners["/a/b"] = "50-m"
    fields.compound[78].owners["k"] = "40-future"
    assert changes_of("ValidateContainerAdjustment", request, None, "99-me") == (
        ("/hooks", "/linux/intelRdt/closID", "/mounts/~1a~1b", "/nri/77", "/nri/78/k"),
        ("10-a", "20-b", "30-remover", "40-future", "50-m"),
    )


def test_every_ownable_field_has_a_path() -> None:
    request = api.ValidateContainerAdjustmentRequest()
    numbers = [v.number for v in api.Field.DESCRIPTOR.values if v.number]
    for number in numbers:
        request.owners.owners["c"].simple[number] = "10-a"
    changed, _ = changes_of("ValidateContainerAdjustment", request, None, "")
    assert not any(path.startswith("/nri/") for path in changed)


def test_passive_exchanges_change_nothing() -> None:
    assert changes_of("StartContainer", api.StartContainerRequest(), None, "p") == NO_CHANGES
    assert changes_of("CreateContainer", None, None, "p") == NO_CHANGES
    assert changes_of("CreateContainer", None, api.CreateContainerResponse(), "p") == NO_CHANGES
    assert changes_of("FromTheFuture", None, None, "p") == NO_CHANGES
    empty = api.ValidateContainerAdjustmentRequest()
    assert changes_of("ValidateContainerAdjustment", empty, None, "p") == NO_CHANGES


NAME = st.from_regex(r"[A-Za-z0-9_.+-]{1,12}", fullmatch=True)


@pytest.mark.parametrize(
    ("value", "plugins"),
    [
        ('["plugin1", "10-plugin2"]', ("plugin1", "10-plugin2")),
        ("[ plugin2 ]", ("plugin2",)),
        ("- a\n- b\n- a\n", ("a", "b")),
        ("[10, yes, 1.5]", ("10", "yes", "1.5")),
        ("[]", ()),
        ("plugin", None),
        ("", None),
        ("[a", None),
        ("[[a]]", None),
        ("{a: b}", None),
        ("&a [*a]", None),
        ("[" * 2_000, None),
        (json.dumps([f"p{number}" for number in range(33)]), None),
        (json.dumps(["x" * 5_000]), None),
    ],
)
def test_the_value_of_a_requirement(value: str, plugins: tuple[str, ...] | None) -> None:
    """As the default validator of NRI reads it, with limits."""
    assert requirement_of({REQUIRED_PLUGINS: value}) == Requirement(plugins, REQUIRED_PLUGINS)


@given(st.text(max_size=200))
def test_no_value_of_a_requirement_fails(value: str) -> None:
    found = requirement_of({REQUIRED_PLUGINS: value})
    assert found is not None and found.annotation == REQUIRED_PLUGINS


SCOPES = "/container.app", "/pod", ""


@given(st.sets(st.sampled_from((*SCOPES, "/container.other"))), st.sampled_from(("app", "")))
def test_the_narrowest_requirement_counts(scopes: set[str], container: str) -> None:
    annotations = {f"{REQUIRED_PLUGINS}{scope}": f"[of{scope}]" for scope in scopes}
    applicable = [scope for scope in SCOPES[0 if container else 1 :] if scope in scopes]
    found = requirement_of(annotations, container)
    expected = applicable[:1] and (f"of{applicable[0]}",)
    assert (found.plugins if found else []) == expected


INDEX = st.from_regex("[0-9]{2}", fullmatch=True)


@given(st.lists(NAME, max_size=4), st.lists(st.tuples(INDEX, NAME)))
def test_plugins_that_a_request_to_validators_does_not_name(
    required: list[str], named: list[tuple[str, str]]
) -> None:
    pod = api.PodSandbox()
    pod.annotations[REQUIRED_PLUGINS] = json.dumps(required)
    plugins = [api.PluginInstance(index=index, name=name) for index, name in named]
    request = api.ValidateContainerAdjustmentRequest(pod=pod, plugins=plugins)
    # As api.ValidateContainerAdjustmentRequest.GetPluginMap in Go.
    known = {name for _, name in named} | {f"{index}-{name}" for index, name in named}
    assert absent_plugins(request.SerializeToString()) == [
        plugin for plugin in dict.fromkeys(required) if plugin not in known
    ]
    assert all(is_named(plugin, [f"{i}-{n}" for i, n in named]) for plugin in known)
    assert absent_plugins(b"\xff") == []
