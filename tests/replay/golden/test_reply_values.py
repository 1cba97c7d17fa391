# SPDX-License-Identifier: Apache-2.0
"""Replies as goldens hold them: nothing of the API forgotten, nothing told apart that is alike."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from benchmarks.traffic import is_repeated
from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.methods import METHODS, PLUGIN_SERVICE
from nri_scope.nri.plain import UNKNOWN, Plain
from nri_scope.replay.golden import plain_reply
from nri_scope.replay.golden.reply_values import UNORDERED
from nri_scope.replay.replies import Verdict

from .replies import name_of

SAYING: list[type[Message]] = [
    *(method.reply for method in METHODS.values() if method.service == PLUGIN_SERVICE),
    api.UpdateContainersRequest,
]
_UNKNOWN_FIELD = b"\xfa\x3e\x03new"


def is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def fields_of(kind: object) -> list[FieldDescriptor]:
    return list(cast("Descriptor", kind).fields)


def paths(
    kind: object, before: tuple[FieldDescriptor, ...] = ()
) -> Iterator[tuple[FieldDescriptor, ...]]:
    """The way to every field that a message can have."""
    for field in fields_of(kind):
        way = (*before, field)
        yield way
        if field.message_type is not None and not is_map(field):
            yield from paths(field.message_type, way)


def set_along(message: Message, way: tuple[FieldDescriptor, ...], second: bool = False) -> None:
    """Set the last field of the way, and what is on the way to it."""
    field, *rest = way
    value = getattr(message, field.name)
    if is_map(field):
        assert field.message_type is not None
        if field.message_type.fields_by_name["value"].message_type is None:
            value["second" if second else "first"] = "x"
        else:
            value["host"].name = "second" if second else "first"
    elif field.message_type is not None:
        inner = value.add() if is_repeated(field) else value
        inner.SetInParent()
        if rest:
            set_along(inner, tuple(rest), second)
    else:
        sample: object = 2 if second else 1
        if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
            sample = "second" if second else "first"
        elif field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
            sample = not second
        if is_repeated(field):
            value.append(sample)
        else:
            setattr(message, field.name, sample)


KINDS: tuple[type[Message], ...] = tuple(dict.fromkeys(SAYING))
WAYS = [(kind, way) for kind in KINDS for way in paths(kind.DESCRIPTOR)]
LEAVES = [(kind, way) for kind, way in WAYS if way[-1].message_type is None or is_map(way[-1])]


def path_of(kind: type[Message], way: tuple[FieldDescriptor, ...]) -> str:
    return ".".join([kind.__name__, *(field.name for field in way)])


def test_there_are_fields_to_look_at() -> None:
    assert len(WAYS) > 300


def test_every_field_of_the_api_tells_its_value() -> None:
    hidden = []
    for kind, way in LEAVES:
        one, other = kind(), kind()
        set_along(one, way)
        set_along(other, way, second=True)
        if plain_reply(one, name_of) == plain_reply(other, name_of):
            hidden.append(path_of(kind, way))
    assert hidden == []


def test_no_type_is_beyond_a_golden() -> None:
    # Floating point numbers and bytes would need thought: the API has none.
    types = {way[-1].type for _, way in WAYS}
    assert not types & {
        FieldDescriptor.TYPE_DOUBLE,
        FieldDescriptor.TYPE_FLOAT,
        FieldDescriptor.TYPE_BYTES,
    }


def test_fields_unknown_to_us_are_visible_wherever_they_are() -> None:
    hidden = []
    for kind, way in WAYS:
        message = kind()
        at = message
        for field in way:
            if field.message_type is None or is_map(field):
                break
            value = getattr(at, field.name)
            at = value.add() if is_repeated(field) else value
        at.MergeFromString(_UNKNOWN_FIELD)
        told = plain_reply(message, name_of)
        if f"'{UNKNOWN}': [{{'field': 1007, 'value': '6e6577'}}]" not in str(told):
            hidden.append(path_of(kind, way))
    assert hidden == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_reply_has_no_field_that_is_called_as_a_verdict(kind: type[Message]) -> None:
    names = {field.name for field in fields_of(kind.DESCRIPTOR)}
    assert not names & set(Verdict)


def test_sets_are_lists_of_strings_of_the_api() -> None:
    names = {way[-1].name for _, way in WAYS}
    assert names >= UNORDERED


def adjusting() -> tuple[api.CreateContainerResponse, api.ContainerAdjustment]:
    message = api.CreateContainerResponse()
    return message, message.adjust


def adjusted(message: Message) -> dict[str, Plain]:
    told = plain_reply(message, name_of)["adjust"]
    assert isinstance(told, dict)
    return told


def test_optional_values_are_the_values_even_zero_and_empty() -> None:
    message, adjust = adjusting()
    adjust.linux.resources.cpu.shares.value = 0
    adjust.linux.resources.blockio_class.value = ""
    adjust.linux.rdt.schemata.SetInParent()
    assert adjusted(message)["linux"] == {
        "resources": {"cpu": {"shares": 0}, "blockio_class": ""},
        "rdt": {"schemata": []},
    }


def test_an_adjustment_of_nothing_is_an_empty_reply() -> None:
    message, adjust = adjusting()
    adjust.linux.resources.memory.SetInParent()
    adjust.linux.resources.cpu.SetInParent()
    adjust.linux.rdt.SetInParent()
    adjust.hooks.SetInParent()
    assert plain_reply(message, name_of) == {}


def test_what_asks_for_something_by_being_there_stays() -> None:
    message, adjust = adjusting()
    adjust.linux.resources.pids.SetInParent()
    adjust.linux.io_priority.SetInParent()
    adjust.linux.seccomp_policy.SetInParent()
    adjust.linux.memory_policy.SetInParent()
    assert adjusted(message)["linux"] == {
        "resources": {"pids": {"limit": 0}},
        "io_priority": {"class": "IOPRIO_CLASS_NONE", "priority": 0},
        "seccomp_policy": {},
        "memory_policy": {"mode": "MPOL_DEFAULT"},
    }


def test_the_order_of_keyed_things_says_nothing() -> None:
    one, adjust = adjusting()
    adjust.env.add(key="A", value="1")
    adjust.env.add(key="B", value="2")
    adjust.rlimits.add(type="RLIMIT_CORE", hard=1)
    adjust.rlimits.add(type="RLIMIT_CPU", hard=2, soft=1)
    adjust.CDI_devices.add(name="v/c=1")
    adjust.CDI_devices.add(name="v/c=2")
    other, again = adjusting()
    again.env.extend(reversed(adjust.env))
    again.rlimits.extend(reversed(adjust.rlimits))
    again.CDI_devices.extend(reversed(adjust.CDI_devices))
    assert plain_reply(one, name_of) == plain_reply(other, name_of)
    assert adjusted(one) == {
        "env": {"A": "1", "B": "2"},
        "rlimits": {"RLIMIT_CORE": {"hard": 1, "soft": 0}, "RLIMIT_CPU": {"hard": 2, "soft": 1}},
        "CDI_devices": ["v/c=1", "v/c=2"],
    }


def test_the_order_of_mounts_hooks_and_arguments_matters() -> None:
    one, adjust = adjusting()
    adjust.mounts.add(destination="/a")
    adjust.mounts.add(destination="/a/b")
    other, again = adjusting()
    again.mounts.extend(reversed(adjust.mounts))
    assert plain_reply(one, name_of) != plain_reply(other, name_of)
    one, adjust = adjusting()
    adjust.hooks.prestart.add(path="/a")
    adjust.hooks.prestart.add(path="/b")
    other, again = adjusting()
    again.hooks.prestart.extend(reversed(adjust.hooks.prestart))
    assert plain_reply(one, name_of) != plain_reply(other, name_of)
    one, adjust = adjusting()
    adjust.args.extend(["a", "b"])
    other, again = adjusting()
    again.args.extend(["b", "a"])
    assert plain_reply(one, name_of) != plain_reply(other, name_of)


def test_removing_and_setting_is_replacing_in_whichever_order() -> None:
    def of(*env: tuple[str, str]) -> dict[str, Plain]:
        message, adjust = adjusting()
        for key, value in env:
            adjust.env.add(key=key, value=value)
        return adjusted(message)

    replaced = {"env": {"-A": "removed", "A": "1"}}
    assert of(("-A", ""), ("A", "1")) == of(("A", "1"), ("-A", "")) == replaced
    assert of(("-A", ""), ("A", "1"), ("-A", "")) == replaced
    assert of(("A", "1")) == {"env": {"A": "1"}}
    assert of(("-A", "what nobody reads")) == {"env": {"-A": "removed"}}


def test_every_kind_of_removal_reads_alike() -> None:
    message, adjust = adjusting()
    adjust.annotations["-note"] = ""
    adjust.env.add(key="-A")
    adjust.mounts.add(destination="/x", source="/y")
    adjust.mounts.add(destination="-/data", type="bind")
    adjust.linux.devices.add(path="-/dev/kvm", type="c")
    adjust.linux.namespaces.add(type="-network")
    adjust.linux.sysctl["-net.core.somaxconn"] = ""
    adjust.linux.net_devices["-eth1"].SetInParent()
    assert adjusted(message) == {
        "annotations": {"-note": "removed"},
        "env": {"-A": "removed"},
        "mounts": [{"destination": "-/data"}, {"destination": "/x", "source": "/y"}],
        "linux": {
            "devices": {"-/dev/kvm": "removed"},
            "namespaces": {"-network": "removed"},
            "sysctl": {"-net.core.somaxconn": "removed"},
            "net_devices": {"-eth1": "removed"},
        },
    }


def test_a_namespace_that_is_removed_and_set_keeps_its_order() -> None:
    message, adjust = adjusting()
    adjust.linux.namespaces.add(type="network", path="/run/ns")
    adjust.linux.namespaces.add(type="-network")
    assert adjusted(message)["linux"] == {
        "namespaces": [{"type": "network", "path": "/run/ns"}, {"type": "-network"}]
    }


def test_a_dash_where_nothing_can_be_removed_is_a_dash() -> None:
    message, adjust = adjusting()
    adjust.linux.resources.unified["-memory.max"] = "1"
    assert adjusted(message)["linux"] == {"resources": {"unified": {"-memory.max": "1"}}}


def test_a_key_twice_is_shown_as_the_list_that_it_was() -> None:
    message, adjust = adjusting()
    adjust.env.add(key="A", value="1")
    adjust.env.add(key="A", value="2")
    message.update.add(container_id="c1")
    message.update.add(container_id="c1", ignore_failure=True)
    assert plain_reply(message, name_of) == {
        "adjust": {"env": [{"key": "A", "value": "1"}, {"key": "A", "value": "2"}]},
        "update": [
            {"container_id": "shop/web/app"},
            {"container_id": "shop/web/app", "ignore_failure": True},
        ],
    }


def test_other_containers_are_called_by_name() -> None:
    message = api.UpdateContainersRequest()
    message.update.add(container_id="c2").linux.resources.cpu.cpus = "0-1"
    message.evict.add(container_id="stranger", reason="full")
    assert plain_reply(message, name_of) == {
        "update": {"shop/web/sidecar": {"linux": {"resources": {"cpu": {"cpus": "0-1"}}}}},
        "evict": {"stranger": {"reason": "full"}},
    }


@pytest.mark.parametrize(
    ("mask", "told"),
    [
        (0, "all"),
        (0b1001, ["RunPodSandbox", "CreateContainer"]),
        (1 << 16 | 1, ["RunPodSandbox", 17]),
        (-(1 << 31), [32]),
    ],
)
def test_a_subscription_names_its_events(mask: int, told: Plain) -> None:
    assert plain_reply(api.ConfigureResponse(events=mask), name_of) == {"events": told}


def test_a_rejection_says_so() -> None:
    message = api.ValidateContainerAdjustmentResponse(reject=True, reason="no")
    assert plain_reply(message, name_of) == {"reject": True, "reason": "no"}
