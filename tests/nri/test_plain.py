# SPDX-License-Identifier: Apache-2.0
"""Messages as plain values with the API's field names."""

from __future__ import annotations

from nri_scope._gen.nri.api_pb2 import (
    Container,
    ContainerState,
    LinuxContainer,
    LinuxCPU,
    LinuxMemory,
    LinuxResources,
    OptionalInt64,
    OptionalUInt64,
    PodSandbox,
    StateChangeEvent,
)
from nri_scope.nri.plain import plain
from nri_scope.nri.request_subject import decode_request
from tests.recording.recordings import captured


def test_fields_have_the_api_s_names_and_kinds() -> None:
    container = Container(
        id="c",
        state=ContainerState.CONTAINER_RUNNING,
        labels={"b": "2", "a": "1"},
        env=["A=1", "B=2"],
        linux=LinuxContainer(
            resources=LinuxResources(
                memory=LinuxMemory(limit=OptionalInt64(value=2**62)),
                cpu=LinuxCPU(shares=OptionalUInt64(value=2**64 - 1)),
            )
        ),
    )
    assert plain(container) == {
        "id": "c",
        "state": "CONTAINER_RUNNING",
        "labels": {"a": "1", "b": "2"},
        "env": ["A=1", "B=2"],
        "linux": {
            "resources": {
                "memory": {"limit": {"value": 2**62}},
                "cpu": {"shares": {"value": 2**64 - 1}},
            }
        },
    }


def test_a_map_is_sorted_by_its_keys() -> None:
    pod = PodSandbox(labels=dict.fromkeys("zebra", ""))
    labels = plain(pod)["labels"]
    assert isinstance(labels, dict) and list(labels) == sorted("zebra")


def test_an_empty_submessage_is_kept() -> None:
    assert plain(Container(linux=LinuxContainer())) == {"linux": {}}
    assert plain(Container()) == {}


def test_an_enum_value_without_a_name_is_a_number() -> None:
    assert plain(StateChangeEvent.FromString(b"\x08\x63")) == {"event": 99}


def test_unknown_fields_are_shown() -> None:
    # Field 500: a varint, a text, four bytes, eight bytes, a group with a varint in it.
    content = Container(id="c").SerializeToString() + (
        b"\xa0\x1f\x07" + b"\xa2\x1f\x02hi" + b"\xa5\x1f\1\0\0\0" + b"\xa1\x1f\2\0\0\0\0\0\0\0"
        b"\xa3\x1f\x08\x05\xa4\x1f"
    )
    assert plain(Container.FromString(content)) == {
        "id": "c",
        "unknown_fields": [
            {"field": 500, "value": 7},
            {"field": 500, "value": "6869"},
            {"field": 500, "value": 1, "bits": 32},
            {"field": 500, "value": 2, "bits": 64},
            {"field": 500, "value": [{"field": 1, "value": 5}]},
        ],
    }


def test_every_request_of_real_runtimes_has_all_fields() -> None:
    for capture in ("containerd-1.7.24", "containerd-2.4-beta", "cri-o-1.37"):
        for _, item in captured(capture):
            message = decode_request(item.method, item.request).message
            assert message is not None
            shown = plain(message)
            assert set(shown) == {field.name for field, _ in message.ListFields()}
