# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.request_subject import decode_request
from nri_scope.oci import spec_of, without_state
from tests.nri.captures import NAMES, exchanges

from .examples import CONTAINER, CONTAINER_SPEC, unset_fields, without_each_field

# Fields with a container's identity and state, which no spec contains.
IDENTITY_AND_STATE = frozenset(
    {
        "id",
        "pod_sandbox_id",
        "name",
        "labels",
        "state",
        "pid",
        "created_at",
        "started_at",
        "finished_at",
        "exit_code",
        "status_reason",
        "status_message",
    }
)


def test_a_container_with_all_fields_has_the_expected_spec() -> None:
    assert spec_of(CONTAINER) == CONTAINER_SPEC


def test_the_example_has_every_field_that_a_spec_can_contain() -> None:
    assert unset_fields(CONTAINER) == {
        *(f"Container.{name}" for name in IDENTITY_AND_STATE),
        # Only adjustments use it.
        "LinuxRdt.remove",
    }


def test_removing_any_field_changes_the_spec() -> None:
    hidden = {
        path
        for path, without in without_each_field(CONTAINER)
        if spec_of(without) == CONTAINER_SPEC
    }
    # An explicit CLOS overrides the class.
    assert hidden == {"linux.resources.rdt_class", "linux.resources.rdt_class.value"}


def test_the_state_of_a_container_changes_neither_its_spec_nor_its_description() -> None:
    created = api.Container(id="app-id", args=["run"], hooks=api.Hooks())
    running = api.Container(
        id="app-id", args=["run"], state=api.CONTAINER_RUNNING, pid=7, labels={"a": "b"}
    )
    assert without_state(created) == without_state(running)
    assert spec_of(created) == spec_of(running) == {"process": {"args": ["run"]}}
    with_hook = api.Container(id="app-id", args=["run"], hooks=api.Hooks(poststop=[api.Hook()]))
    assert without_state(created) != without_state(with_hook)


def test_an_empty_container_is_an_empty_spec() -> None:
    assert spec_of(api.Container()) == {}
    empty_parts = api.Container(hooks=api.Hooks(), linux=api.LinuxContainer())
    empty_parts.linux.resources.memory.SetInParent()
    empty_parts.linux.resources.cpu.SetInParent()
    assert spec_of(empty_parts) == {}


def test_explicit_zeros_are_kept() -> None:
    container = api.Container(user=api.User())
    container.linux.oom_score_adj.SetInParent()
    container.linux.resources.cpu.quota.SetInParent()
    container.linux.resources.memory.disable_oom_killer.value = False
    container.linux.net_devices["eth1"].SetInParent()
    assert spec_of(container) == {
        "process": {"user": {"uid": 0, "gid": 0}, "oomScoreAdj": 0},
        "linux": {
            "resources": {"memory": {"disableOOMKiller": False}, "cpu": {"quota": 0}},
            "netDevices": {"eth1": {}},
        },
    }


def test_the_runtime_handler_is_that_of_the_pod() -> None:
    pod = api.PodSandbox(id="p", name="web", runtime_handler="kata")
    assert spec_of(api.Container(), pod) == {"nri": {"runtimeHandler": "kata"}}


def test_an_rdt_class_is_the_clos_unless_one_is_explicit() -> None:
    container = api.Container()
    container.linux.resources.rdt_class.value = "gold"
    assert spec_of(container) == {"linux": {"intelRdt": {"closID": "gold"}}}
    container.linux.rdt.clos_id.value = "silver"
    assert spec_of(container) == {"linux": {"intelRdt": {"closID": "silver"}}}


def test_numbers_without_a_name_stay_numbers() -> None:
    container = api.Container()
    container.linux.scheduler.ParseFromString(b"\x08\x63\x22\x01\x63")
    container.linux.io_priority.ParseFromString(b"\x08\x63")
    assert spec_of(container) == {
        "process": {
            "scheduler": {"policy": 99, "flags": [99]},
            "ioPriority": {"class": 99, "priority": 0},
        }
    }


def test_fields_of_a_newer_api_are_kept_raw() -> None:
    container = api.Container()
    container.MergeFromString(b"\xfa\x3e\x02hi\xf8\x3e\x07\xf8\x3e\x08")
    container.mounts.add(destination="/a")
    container.mounts.add(destination="/b").MergeFromString(b"\xfd\x3e\x01\0\0\0")
    container.linux.net_devices["eth0"].MergeFromString(b"\xf9\x3e\x01\0\0\0\0\0\0\0")
    container.linux.rdt.MergeFromString(b"\xfb\x3e\x08\x05\xfc\x3e")
    assert spec_of(container)["nri"] == {
        "unknown": {
            "container.1007": ["bytes aGk=", "varint 7", "varint 8"],
            "container.mounts[1].1007": ["fixed32 1"],
            "container.linux.net_devices[eth0].1007": ["fixed64 1"],
            "container.linux.rdt.1007": ["group 1=varint 5"],
        }
    }


@pytest.mark.parametrize("name", NAMES)
def test_specs_of_real_containers(name: str) -> None:
    seen = 0
    for exchange in exchanges(name):
        container = decode_request(exchange.method, exchange.request).container
        if exchange.method != "CreateContainer" or container is None:
            continue
        seen += 1
        spec = spec_of(container)
        process, linux, mounts = spec["process"], spec["linux"], spec["mounts"]
        assert isinstance(process, dict) and isinstance(linux, dict) and isinstance(mounts, list)
        assert process["args"] == list(container.args)
        assert process["env"] == list(container.env)
        assert process["oomScoreAdj"] == container.linux.oom_score_adj.value
        assert linux["cgroupsPath"] == container.linux.cgroups_path
        assert len(mounts) == len(container.mounts) > 5
        assert spec["annotations"] == dict(container.annotations)
        assert "unknown" not in str(spec.get("nri"))
    assert seen
