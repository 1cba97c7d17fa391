# SPDX-License-Identifier: Apache-2.0
"""Recorded ContainerStatus replies as evidence."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope.differ.attribution.evidence import container_status


def test_a_reply_has_the_runtimes_spec() -> None:
    assert container_status(b'{"pid": 3, "runtimeSpec": {"linux": {"x": 1.5}}}').spec == {
        "linux": {"x": 1.5}
    }


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"\xff",
        b"[]",
        b"{}",
        b'{"runtimeSpec": 3}',
        b'{"runtimeSpec": {"x": NaN}}',
        b'{"runtimeSpec": {"x": -Infinity}}',
        b'{"runtimeSpec": {"x": 1e999}}',
        b'{"runtimeSpec": ' + b"[" * 100_000,
    ],
)
def test_an_unusable_reply_has_no_spec(reply: bytes) -> None:
    assert container_status(reply).spec is None


FAILED = {"state": "CONTAINER_EXITED", "exitCode": 128, "reason": "StartError", "message": "no: x"}


def test_a_container_that_failed_to_start_has_the_error() -> None:
    status_info = container_status(json.dumps({"runtimeSpec": {}, "status": FAILED}).encode())
    assert status_info.spec == {}
    assert status_info.failure == (
        "the container failed to start and never ran (StartError, exit code 128): no: x"
    )


@given(st.dictionaries(st.sampled_from([*FAILED]), st.one_of(st.text(), st.integers(), st.none())))
def test_any_status_is_read_and_bounded(status: dict[str, object]) -> None:
    status_info = container_status(json.dumps({"status": {**FAILED, **status}}).encode())
    assert status_info.spec is None
    assert bool(status_info.failure) == (status.get("state", FAILED["state"]) == "CONTAINER_EXITED")
    long = container_status(json.dumps({"status": {**FAILED, "message": "x" * 10**6}}).encode())
    assert len(long.failure) < 2_000
