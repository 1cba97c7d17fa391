# SPDX-License-Identifier: Apache-2.0
"""Properties of the generated code that other rooms rely on."""

import subprocess
import sys

import pytest
from google.protobuf import any_pb2

from nri_scope._gen.nri import api_pb2
from nri_scope._gen.ttrpc import ttrpc_pb2


@pytest.mark.parametrize(
    ("module", "other"),
    [
        ("nri_scope._gen.nri.api_pb2", "betterproto2"),
        ("nri_scope._gen.nri.api_pb2", "grpclib"),
        ("nri_scope._gen.ttrpc.ttrpc_pb2", "betterproto2"),
        ("nri_scope._gen.cri.runtime.v1", "google.protobuf"),
        ("nri_scope", "google.protobuf"),
    ],
)
def test_a_module_does_not_import_the_other_protobuf_library(module: str, other: str) -> None:
    program = f"import sys, {module}; sys.exit({other!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_event_numbers_are_contiguous_and_last_is_the_largest() -> None:
    numbers = [value.number for value in api_pb2.Event.DESCRIPTOR.values]
    assert numbers == list(range(16))
    assert api_pb2.LAST == api_pb2.VALIDATE_CONTAINER_ADJUSTMENT + 1


def test_every_event_has_a_dedicated_call() -> None:
    calls = {method.name for method in api_pb2.DESCRIPTOR.services_by_name["Plugin"].methods}
    events = [
        value.name.title().replace("_", "")
        for value in api_pb2.Event.DESCRIPTOR.values
        if value.name not in {"UNKNOWN", "LAST"}
    ]
    assert calls == {*events, "Configure", "Synchronize", "Shutdown", "StateChange"}


def test_the_enum_member_none_is_accessible() -> None:
    assert api_pb2.Field.Value("None") == 0
    assert api_pb2.Field.Name(api_pb2.MemoryPolicy) == "MemoryPolicy"


def test_unknown_fields_survive() -> None:
    future = api_pb2.Container(id="c").SerializeToString() + b"\xfa\x3f\x01x"  # field 1023
    assert api_pb2.Container.FromString(future).SerializeToString() == future


def test_a_detail_has_the_encoding_of_any() -> None:
    original = any_pb2.Any(type_url="t.example/x", value=b"\x00\x01")
    detail = ttrpc_pb2.Detail.FromString(original.SerializeToString())
    assert (detail.type_url, detail.value) == (original.type_url, original.value)
    assert detail.SerializeToString() == original.SerializeToString()
