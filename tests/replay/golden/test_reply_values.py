# SPDX-License-Identifier: Apache-2.0
"""Replies as plain values: every field of the API, and one form for equivalent replies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from benchmarks.traffic import is_repeated
from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.events import METHODS, PLUGIN_SERVICE
from nri_scope.nri.plain import UNKNOWN, Plain
from nri_scope.replay.golden import plain_reply
from nri_scope.replay.golden.reply_values import UNORDERED
from nri_scope.replay.replies import Verdict

from .replies import name_of

REPLIES: list[type[Message]] = [
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
    """Yield the path to every field of a message."""
    for field in fields_of(kind):
        path = (*before, field)
        yield path
        if field.message_type is not None and not is_map(field):
            yield from paths(field.message_type, path)


def set_along(message: Message, path: tuple[FieldDescriptor, ...], second: bool = False) -> None:
    """Set the last field of the path, and the messages above it."""
    field, *rest = path
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


KINDS: tuple[type[Message], ...] = tuple(dict.fromkeys(REPLIES))
PATHS = [(kind, path) for kind in KINDS for path in paths(kind.DESCRIPTOR)]
LEAVES = [(kind, path) for kind, path in PATHS if path[-1].message_type is None or is_map(path[-1])]


def path_of(kind: type[Message], path: tuple[FieldDescriptor, ...]) -> str:
    return ".".join([kind.__name__, *(field.name for field in path)])


def test_the_api_has_many_fields() -> None:
    assert len(PATHS) > 300


def test_every_field_of_the_api_is_in_the_plain_reply() -> None:
    hidden = []
    for kind, path in LEAVES:
        one, other = kind(), kind()
        set_along(one, path)
        set_along(other, path, second=True)
        if plain_reply(one, name_of) == plain_reply(other, name_of):
            hidden.append(path_of(kind, path))
    assert hidden == []


def test_the_api_has_no_floats_or_bytes() -> None:
    # Goldens have no notation for floating point numbers and bytes.
    types = {path[-1].type for _, path in PATHS}
    assert not types & {
        FieldDescriptor.TYPE_DOUBLE,
        FieldDescriptor.TYPE_FLOAT,
        FieldDescriptor.TYPE_BYTES,
    }


def test_unknown_fields_are_included_at_every_level() -> None:
    hidden = []
    for kind, path in PATHS:
        message = kind()
        at = message
        for field in path:
            if field.message_type is None or is_map(field):
                break
            value = getattr(at, field.name)
            at = value.add() if is_repeated(field) else value
        at.MergeFromString(_UNKNOWN_FIELD)
        plain = plain_reply(message, name_of)
        if f"'{UNKNOWN}': [{{'field': 1007, 'value': '6e6577'}}]" not in str(plain):
            hidden.append(path_of(kind, path))
    assert hidden == []


@pytest.mark.parametrize("kind", KINDS)
def test_no_field_of_a_reply_has_the_name_of_a_verdict(kind: type[Message]) -> None:
    names = {field.name for field in fields_of(kind.DESCRIPTOR)}
    assert not names & set(Verdict)


def test_unordered_fields_exist_in_the_api() -> None:
    names = {path[-1].name for _, path in PATHS}
    assert names >= UNORDERED


def new_adjustment() -> tuple[api.CreateContainerResponse, api.ContainerAdjustment]:
    message = api.CreateContainerResponse()
    return message, message.adjust


def plain_adjustment(message: Message) -> dict[str, Plain]:
    plain = plain_reply(message, name_of)["adjust"]
    assert isinstance(plain, dict)
    return plain


def test_optional_values_are_kept_even_if_zero_or_empty() -> None:
    message, adjust = new_adjustment()
    adjust.linux.resources.cpu.shares.value = 0
    adjust.linux.resources.blockio_class.value = ""
    adjust.linux.rdt.schemata.SetInParent()
    assert plain_adjustment(message)["linux"] == {
        "resources": {"cpu": {"shares": 0}, "blockio_class": ""},
        "rdt": {"schemata": []},
    }


def test_an_empty_adjustment_is_an_empty_reply() -> None:
    message, adjust = new_adjustment()
    adjust.linux.resources.memory.SetInParent()
    adjust.linux.resources.cpu.SetInParent()
    adjust.linux.rdt.SetInParent()
    adjust.hooks.SetInParent()
    assert plain_reply(message, name_of) == {}


def test_empty_messages_with_a_meaning_are_kept() -> None:
    message, adjust = new_adjustment()
    adjust.linux.resources.pids.SetInParent()
    adjust.linux.io_priority.SetInParent()
    adjust.linux.seccomp_policy.SetInParent()
    adjust.linux.memory_policy.SetInParent()
    assert plain_adjustment(message)["linux"] == {
        "resources": {"pids": {"limit": 0}},
        "io_priority": {"class": "IOPRIO_CLASS_NONE", "priority": 0},
        "seccomp_policy": {},
        "memory_policy": {"mode": "MPOL_DEFAULT"},
    }


def test_the_order_of_keyed_entries_does_not_matter() -> None:
    one, adjust = new_adjustment()
    adjust.env.add(key="A", value="1")
    adjust.env.add(key="B", value="2")
    adjust.rlimits.add(type="RLIMIT_CORE", hard=1)
    adjust.rlimits.add(type="RLIMIT_CPU", hard=2, soft=1)
    adjust.CDI_devices.add(name="v/c=1")
    adjust.CDI_devices.add(name="v/c=2")
    other, again = new_adjustment()
    again.env.extend(reversed(adjust.env))
    again.rlimits.extend(reversed(adjust.rlimits))
    again.CDI_devices.extend(reversed(adjust.CDI_devices))
    assert plain_reply(one, name_of) == plain_reply(other, name_of)
    assert plain_adjustment(one) == {
        "env": {"A": "1", "B": "2"},
        "rlimits": {"RLIMIT_CORE": {"hard": 1, "soft": 0}, "RLIMIT_CPU": {"hard": 2, "soft": 1}},
        "CDI_devices": ["v/c=1", "v/c=2"],
    }


def test_the_order_of_mounts_hooks_and_arguments_matters() -> None:
    one, adjust = new_adjustment()
    adjust.mounts.add(destination="/a")
    adjust.mounts.add(destination="/a/b")
    other, again = new_adjustment()
    again.mounts.extend(reversed(adjust.mounts))
    assert plain_reply(one, name_of) != plain_reply(other, name_of)
    one, adjust = new_adjustment()
    adjust.hooks.prestart.add(path="/a")
    adjust.hooks.prestart.add(path="/b")
    other, again = new_adjustment()
    again.hooks.prestart.extend(reversed(adjust.hooks.prestart))
    assert plain_reply(one, name_of) != plain_reply(other, name_of)
    one, adjust = new_adjustment()
    adjust.args.extend(["a", "b"])
    other, again = new_adjustment()
    again.args.extend(["b", "a"])
    assert plain_reply(one, name_of) != plain_reply(other, name_of)


def test_removing_and_setting_is_replacing_in_any_order() -> None:
    def env_of(*env: tuple[str, str]) -> dict[str, Plain]:
        message, adjust = new_adjustment()
        for key, value in env:
            adjust.env.add(key=key, value=value)
        return plain_adjustment(message)

    replaced = {"env": {"-A": "removed", "A": "1"}}
    assert env_of(("-A", ""), ("A", "1")) == env_of(("A", "1"), ("-A", "")) == replaced
    assert env_of(("-A", ""), ("A", "1"), ("-A", "")) == replaced
    assert env_of(("A", "1")) == {"env": {"A": "1"}}
    assert env_of(("-A", "ignored")) == {"env": {"-A": "removed"}}


def test_every_kind_of_removal_has_the_same_notation() -> None:
    message, adjust = new_adjustment()
    adjust.annotations["-note"] = ""
    adjust.env.add(key="-A")
    adjust.mounts.add(destination="/x", source="/y")
    adjust.mounts.add(destination="-/data", type="bind")
    adjust.linux.devices.add(path="-/dev/kvm", type="c")
    adjust.linux.namespaces.add(type="-network")
    adjust.linux.sysctl["-net.core.somaxconn"] = ""
    adjust.linux.net_devices["-eth1"].SetInParent()
    assert plain_adjustment(message) == {
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


def test_removed_and_set_namespaces_keep_their_order() -> None:
    message, adjust = new_adjustment()
    adjust.linux.namespaces.add(type="network", path="/run/ns")
    adjust.linux.namespaces.add(type="-network")
    assert plain_adjustment(message)["linux"] == {
        "namespaces": [{"type": "network", "path": "/run/ns"}, {"type": "-network"}]
    }


def test_a_dash_is_literal_where_nothing_can_be_removed() -> None:
    message, adjust = new_adjustment()
    adjust.linux.resources.unified["-memory.max"] = "1"
    assert plain_adjustment(message)["linux"] == {"resources": {"unified": {"-memory.max": "1"}}}


def test_duplicate_keys_are_kept_as_a_list() -> None:
    message, adjust = new_adjustment()
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


def test_other_containers_are_identified_by_name() -> None:
    message = api.UpdateContainersRequest()
    message.update.add(container_id="c2").linux.resources.cpu.cpus = "0-1"
    message.evict.add(container_id="stranger", reason="full")
    assert plain_reply(message, name_of) == {
        "update": {"shop/web/sidecar": {"linux": {"resources": {"cpu": {"cpus": "0-1"}}}}},
        "evict": {"stranger": {"reason": "full"}},
    }


@pytest.mark.parametrize(
    ("mask", "plain"),
    [
        (0, "all"),
        (0b1001, ["RunPodSandbox", "CreateContainer"]),
        (1 << 16 | 1, ["RunPodSandbox", 17]),
        (-(1 << 31), [32]),
    ],
)
def test_a_subscription_names_its_events(mask: int, plain: Plain) -> None:
    assert plain_reply(api.ConfigureResponse(events=mask), name_of) == {"events": plain}


def test_a_subscription_has_its_failure_policy() -> None:
    message = api.ConfigureResponse()
    message.failure_policy.keep_connected = True
    assert plain_reply(message, name_of) == {
        "events": "all",
        "failure_policy": {"keep_connected": True},
    }


def test_a_rejection_has_its_reason() -> None:
    message = api.ValidateContainerAdjustmentResponse(reject=True, reason="no")
    assert plain_reply(message, name_of) == {"reject": True, "reason": "no"}
