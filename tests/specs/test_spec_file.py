# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope.errors import UsageError
from nri_scope.specs import Spec, read_spec, same
from nri_scope.specs.json_spec import MAX_SPEC_DEPTH, MAX_SPEC_SIZE
from tests.oci.examples import CONTAINER_SPEC

from .generated import ANY


def nested(levels: int) -> str:
    return '{"linux":{"x":' + "[" * (levels - 2) + "]" * (levels - 2) + "}}"


def error_of(data: bytes) -> str:
    with pytest.raises(UsageError) as caught:
        read_spec(data, "c.json")
    text = str(caught.value)
    assert text.startswith("c.json: ") and "\n" not in text
    return text


def test_a_spec_is_read_unchanged() -> None:
    assert read_spec(json.dumps(CONTAINER_SPEC, indent=2).encode(), "c.json") == CONTAINER_SPEC
    assert read_spec(b'\xef\xbb\xbf{"ociVersion":"1.2.0"}', "c.json") == {"ociVersion": "1.2.0"}
    assert read_spec(b'{"hostname":"a","hostname":"b"}', "c.json") == {"hostname": "b"}
    assert read_spec(b'{"linux":{},"process":null,"x":1}', "c.json")["process"] is None


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "not JSON: empty;"),
        (b'{\n "process": {,}}', "not JSON: "),
        (b'{\n "process": {,}}', "(line 2, column 14)"),
        (b"ociVersion: 1.0", "not JSON: "),
        (b'{"linux": "\xff"}', "not JSON: byte 12 is not valid UTF-8"),
        (b'{"linux": {"x": NaN}}', "not JSON: NaN is not a JSON number"),
        (b'{"linux": {"x": %s}}' % (b"9" * 5000), "not JSON: Exceeds the limit"),
        (b"[]", "not an OCI spec but an array"),
        (b"null", "not an OCI spec but null"),
        (b"true", "not an OCI spec but a boolean"),
        (b"1", "not an OCI spec but a number"),
        (b'"x"', "not an OCI spec but a string"),
        (b"{}", "it has no process, mounts, linux or similar member"),
        (b'{"linux": null}', "it has no process, mounts, linux or similar member"),
        (b'{"kind": "Pod"}', "give an OCI config.json"),
        (b'{"info": {"runtimeSpec": {"linux": {}}}}', "extract .info.runtimeSpec from it"),
        (b'{"linux": []}', "linux is an array instead of an object"),
        (b'{"linux": {}, "mounts": {}}', "mounts is an object instead of an array"),
        (b'{"linux": {}, "ociVersion": 1}', "ociVersion is a number instead of a string"),
    ],
)
def test_an_invalid_spec_is_rejected_in_one_line(data: bytes, problem: str) -> None:
    assert problem in error_of(data)


def test_depth_and_size_have_limits() -> None:
    read_spec(nested(MAX_SPEC_DEPTH).encode(), "c.json")
    deep = f"nested more than {MAX_SPEC_DEPTH} deep"
    assert deep in error_of(nested(MAX_SPEC_DEPTH + 1).encode())
    assert deep in error_of(nested(200_000).encode())
    assert "too large for an OCI spec" in error_of(b" " * (MAX_SPEC_SIZE + 1))


@given(st.binary(max_size=20) | st.text('{}[]",:0n linuxE-', max_size=12).map(str.encode))
def test_any_bytes_are_a_spec_or_rejected(data: bytes) -> None:
    try:
        read_spec(data, "c.json")
    except UsageError:
        pass


@given(st.dictionaries(st.sampled_from(["a", "b"]), ANY))
def test_a_serialized_spec_round_trips(part: Spec) -> None:
    spec: Spec = {"linux": part}
    written = json.dumps(spec).encode()
    if b"NaN" in written or b"Infinity" in written:
        assert "is not a JSON number" in error_of(written)
    else:
        assert same(read_spec(written, "c.json"), spec)
