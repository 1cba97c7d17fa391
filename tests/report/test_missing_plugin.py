# SPDX-License-Identifier: Apache-2.0
"""Containers created while a plugin was not connected, held against what recordings show."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.events import CapturedCall
from nri_scope.recorder.writer import Recorder
from nri_scope.recording.reader import Recording
from nri_scope.report.missing_plugin import Creation, Presence, creations
from tests.recording.traffic import NOW, a_start, an_item, record

RECORDINGS = Path(__file__).parents[2] / "recordings"


def found(name: str, plugin: str) -> dict[str, Creation]:
    with Recording.open(RECORDINGS / name) as recording:
        return {one.container: one for one in creations(recording, plugin)}


FAILED = "containerd-2.1-conflict.nriscope.zip"
CREATED = {"shop/web/app", "shop/web/sidecar"}


@pytest.mark.parametrize("plugin", ["30-env-injector", "cpu-policy", "20-device-injector"])
def test_a_validator_proves_that_a_plugin_was_connected(plugin: str) -> None:
    every = found("containerd-2.4.nriscope.zip", plugin)
    assert every.keys() >= CREATED
    assert {every[name].presence for name in CREATED} == {Presence.CONNECTED}
    evidence = {every[name].evidence for name in CREATED}
    assert evidence <= {"named to the validator", "it changed the container"}


@pytest.mark.parametrize("plugin", ["never-connected", "31-env-injector"])
def test_a_validator_proves_that_a_plugin_was_not_connected(plugin: str) -> None:
    every = found("containerd-2.4.nriscope.zip", plugin)
    for name in CREATED:
        assert every[name].presence is Presence.MISSING
        assert "30-env-injector" in every[name].evidence


def test_containers_that_existed_before_are_unknown() -> None:
    every = found("containerd-2.4.nriscope.zip", "never-connected")
    old = every["kube-system/old-1/main"]
    assert old.presence is Presence.UNKNOWN
    assert "created before the recorder connected" in old.evidence


def test_a_tap_proves_only_that_its_plugin_was_connected() -> None:
    every = found("demo.nriscope.db", "40-image-check")
    assert every["shop/web/app"].presence is Presence.CONNECTED
    late = every["shop/api/sidecar"]
    assert late.presence is Presence.UNKNOWN
    assert "its tap's session 4 had ended" in late.evidence


def test_without_evidence_nothing_is_claimed() -> None:
    every = found("containerd-2.1.nriscope.db", "any")
    assert {one.presence for one in every.values()} == {Presence.UNKNOWN}


def test_failed_creations_are_left_out() -> None:
    with Recording.open(RECORDINGS / FAILED) as recording:
        asked = {
            f"{one.namespace}/{one.pod}/{one.container}"
            for one in recording.events()
            if one.event == "CreateContainer"
        }
        created = {
            f"{one.namespace}/{one.pod}/{one.container}"
            for one in recording.events()
            if one.event == "PostCreateContainer"
        }
    every = found(FAILED, "any")
    assert asked > created
    assert set(every) & asked == created


def a_container(identity: str, created_ns: int = 0) -> api.Container:
    return api.Container(id=identity, pod_sandbox_id="p", name=identity, created_at=created_ns)


def synchronized(at_ns: int, *containers: api.Container) -> CapturedCall:
    pod = api.PodSandbox(id="p", namespace="shop", name="web")
    request = api.SynchronizeRequest(pods=[pod], containers=containers)
    return an_item("Synchronize", request, wall_ns=at_ns)


def test_containers_created_before_the_events_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "part.nriscope.db"
    old, new, unknown = a_container("old", NOW - 9), a_container("new", NOW + 1), a_container("x")
    record(path, [synchronized(NOW + 10, old, new, unknown)])
    with Recording.open(path) as recording:
        assert len(list(creations(recording, "any"))) == 3
        every = {one.container_id: one for one in creations(recording, "any", NOW)}
    assert every.keys() == {"new", "x"}
    assert "before the recorder connected" in every["new"].evidence
    assert "at an unknown time, maybe before" in every["x"].evidence


@pytest.mark.parametrize("validation", [b"\xff", None])
def test_a_validator_whose_request_does_not_tell_is_named(
    tmp_path: Path, validation: bytes | None
) -> None:
    path = tmp_path / "node.nriscope.db"
    pod = api.PodSandbox(id="p", namespace="shop", name="web")
    create = api.CreateContainerRequest(pod=pod, container=a_container("c"))
    post = api.StateChangeEvent(
        event=api.Event.POST_CREATE_CONTAINER, pod=pod, container=a_container("c")
    )
    recorder = Recorder.open(path)
    session = recorder.begin_session(replace(a_start(), mask=1 << 13))
    recorder.capture(session, an_item("CreateContainer", create))
    if validation is not None:
        recorder.capture(session, an_item("ValidateContainerAdjustment", validation))
    recorder.capture(session, an_item("StateChange", post))
    recorder.end_session(session, "over", NOW + 10**9)
    recorder.close()
    with Recording.open(path) as recording:
        (one,) = creations(recording, "any")
    why = "the request to the validator (session 1) is missing or malformed"
    assert (one.presence, one.evidence) == (Presence.UNKNOWN, why)
