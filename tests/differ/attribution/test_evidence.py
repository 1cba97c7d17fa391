# SPDX-License-Identifier: Apache-2.0
"""Recorded ContainerStatus replies as evidence."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope.recording.query.cri_answers import NOT_FOUND, CriStatus, container_status
from nri_scope.specs import Spec, patch_of


def test_a_reply_has_the_runtimes_spec() -> None:
    assert container_status(b'{"pid": 3, "runtimeSpec": {"linux": {"x": 1.5}}}').spec == {
        "linux": {"x": 1.5}
    }


def test_a_reply_has_what_the_containers_files_say() -> None:
    spec: Spec = {"hostname": "x", "linux": {"resources": {"cpu": {"shares": 2}}}}
    config: Spec = {"hostname": "y", "process": {"args": ["a"]}}
    limits: Spec = {"/linux/resources/pids/limit": -1, "/linux/resources/cpu/cpus": "0-1"}
    reply = {"runtimeSpec": spec, "bundleSpec": patch_of(spec, config)}
    status = container_status(json.dumps({**reply, "cgroup": {**limits, "/other": 1}}).encode())
    assert status == CriStatus(spec, "", config, limits)
    assert container_status(b'{"runtimeSpec": {"a": 1}, "bundleSpec": {}}').bundle_spec == {"a": 1}
    assert container_status(NOT_FOUND.encode()) == CriStatus(None, not_found=True)


@pytest.mark.parametrize(
    "member",
    [
        {"bundleSpec": 1},
        {"bundleSpec": {"a": None}, "runtimeSpec": 3},
        {"cgroup": [1]},
        {"cgroup": {"": 1}},
        {"notFound": 1},
    ],
)
def test_unusable_members_say_nothing(member: Spec) -> None:
    assert container_status(json.dumps(member).encode()) == CriStatus(None)


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
