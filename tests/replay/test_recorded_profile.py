# SPDX-License-Identifier: Apache-2.0
"""The profile "recorded" of a recording behaves as the profile whose emulation made it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import RpcError
from nri_scope.recording.reading.reader import Recording
from nri_scope.replay.plugin_command import PluginCommand
from nri_scope.replay.plugins import PluginSet
from nri_scope.replay.result import Replayed
from nri_scope.replay.run import Job, replay
from nri_scope.runtime import PROFILES, recorded_profile
from nri_scope.runtime.plugin_setup import SETUP_METHODS
from nri_scope.scenario.playable import playable
from nri_scope.transport.loop import run
from nri_scope.wire import RequestReceived
from tests.runtime_emulation.small_plugin import SmallPlugin

from .plays import decode_event, decode_events, job_of, played_to_peers
from .recordings import RECORDING

SCENARIO = """\
scenario: 1
runtime: PROFILE
pods:
  payments-prod/checkout-api-7d9f8c6b5d-x2x9z:
    containers:
      checkout-api: {labels: {io.kubernetes.container.name: checkout-api}}
      istio-proxy: {env: [A=b], user: {uid: 1337}}
      unstarted: {}
existing:
  shop/older: {containers: {worker: {}}}
steps:
  - run: payments-prod/checkout-api-7d9f8c6b5d-x2x9z
  - create: payments-prod/checkout-api-7d9f8c6b5d-x2x9z/checkout-api
  - start: payments-prod/checkout-api-7d9f8c6b5d-x2x9z/checkout-api
  - create: payments-prod/checkout-api-7d9f8c6b5d-x2x9z/istio-proxy
  - start: payments-prod/checkout-api-7d9f8c6b5d-x2x9z/istio-proxy
  - create: payments-prod/checkout-api-7d9f8c6b5d-x2x9z/unstarted
  - update: payments-prod/checkout-api-7d9f8c6b5d-x2x9z/istio-proxy
    linux_resources: {cpu: {shares: 7}}
  - remove: payments-prod/checkout-api-7d9f8c6b5d-x2x9z/unstarted
  - stop: payments-prod/checkout-api-7d9f8c6b5d-x2x9z/istio-proxy
  - remove: payments-prod/checkout-api-7d9f8c6b5d-x2x9z/istio-proxy
  - stop: payments-prod/checkout-api-7d9f8c6b5d-x2x9z
  - remove: payments-prod/checkout-api-7d9f8c6b5d-x2x9z/checkout-api
  - remove: payments-prod/checkout-api-7d9f8c6b5d-x2x9z
  - stop: shop/older/worker
"""
ADJUSTMENT = api.CreateContainerResponse(
    adjust=api.ContainerAdjustment(
        annotations={"io.kubernetes.container.name": "renamed", "example.com/a": "b"},
        rlimits=[api.POSIXRlimit(type="RLIMIT_NOFILE", hard=9, soft=9)],
    )
)
REPLIES: Mapping[str, Mapping[str, Message | RpcError]] = {
    "passive": {},
    "adjusting": {"CreateContainer": ADJUSTMENT},
    **{
        f"failing {event}": {event: RpcError(2, "not today")}
        for event in (
            "RunPodSandbox", "CreateContainer", "StartContainer", "UpdateContainer",
            "StopContainer", "StopPodSandbox",
        )
    },
}  # fmt: skip
"""Replies of a plugin to events, by its name."""


class Replying(SmallPlugin):
    """Plugin with replies to events, however they are sent."""

    def __init__(self, replies: Mapping[str, Message | RpcError]) -> None:
        super().__init__("10-replying")
        self._replies = replies

    def serve(self, link: object, request: RequestReceived, arrived_ns: int) -> None:
        self.on.pop("StateChange", None)
        if request.method not in SETUP_METHODS:
            event, _ = decode_event(request.method, request.payload)
            if event in self._replies:
                self.on[request.method] = lambda _: self._replies[event]
        super().serve(link, request, arrived_ns)  # type: ignore[arg-type]


def emulated(profile: str, folder: Path) -> Path:
    """Return a recording made by the emulated runtime of a profile."""
    source = folder / "scenario.yaml"
    source.write_text(SCENARIO.replace("PROFILE", profile), encoding="utf-8")
    output = folder / "made.nriscope.db"
    with playable(source) as compiled:
        played_to_peers(job_of(compiled, {}, profile=profile, output=output), Replying({}))
    return output


def events_of(path: Path, profile: str, plugin: str) -> tuple[list[tuple[str, Message]], Replayed]:
    """Return what a plugin gets after its set-up, and the result."""
    peer = Replying(REPLIES[plugin])
    result = played_to_peers(job_of(path, {}, profile=profile), peer)
    return decode_events(peer.events), result


@pytest.mark.parametrize("profile", PROFILES)
def test_a_recording_behaves_as_its_profile(profile: str, tmp_path: Path) -> None:
    path = emulated(profile, tmp_path)
    for plugin in REPLIES:
        events, result = events_of(path, profile, plugin)
        own_events, own_result = events_of(path, "recorded", plugin)
        assert own_events == events, plugin
        failures = [(event.event, event.failure, event.logged) for event in result.events]
        assert failures == [
            (event.event, event.failure, event.logged) for event in own_result.events
        ], plugin
        assert events, plugin


INDEX_BY_NAME = """\
from nri_scope.plugin import api, run

LIMITS = {"checkout-api": "4", "istio-proxy": "1", "upload": "2", "report": "2"}


class ByName:
    def create_container(self, pod, container):
        return api.ContainerAdjustment(annotations={"example.com/limit": LIMITS[container.name]})


run(ByName(), name="by-name", index="20")
"""
"""A plugin that looks containers up by their name."""


@pytest.mark.parametrize(
    ("profile", "fails"),
    [("cri-o-1.33", True), ("cri-o-1.36", True), ("cri-o", False), ("containerd-2.4", False)],
)
def test_a_plugin_that_looks_up_names_fails_on_older_cri_o(
    profile: str, fails: bool, tmp_path: Path
) -> None:
    program = tmp_path / "by_name.py"
    program.write_text(INDEX_BY_NAME, encoding="utf-8")
    command = PluginCommand("20", "by-name", (sys.executable, str(program)))
    environment = {"PYTHONPATH": str(Path(__file__).parents[2])}
    plugin_set = PluginSet((command,), environment=environment)
    result = run(replay(Job(RECORDING, plugin_set, profile=profile)))
    failures = {event.failure for event in result.events if event.event == "CreateContainer"}
    assert any("KeyError" in failure for failure in failures) == fails
    assert ("" in failures) != fails


def test_labelled_containers_have_names_on_older_cri_o(tmp_path: Path) -> None:
    """Check a recording of Kubernetes: the kubelet labels containers with their names."""
    path = emulated("containerd-2.4", tmp_path)
    events, _ = events_of(path, "cri-o-1.36", "passive")
    names = [message.container.name for event, message in events if event == "CreateContainer"]  # type: ignore[attr-defined]
    assert names == ["checkout-api", "", ""]


def test_a_recorded_cri_o_fails_stops_as_its_version_does(tmp_path: Path) -> None:
    for version, fails in (("cri-o-1.34", True), ("cri-o-1.34.5", False), ("cri-o", False)):
        folder = tmp_path / version
        folder.mkdir()
        path = emulated(version, folder)
        with Recording.open(path) as recording:
            (session,) = recording.sessions()
        profile = recorded_profile(
            session.runtime_name, session.runtime_version, session.nri_version
        )
        assert profile.dispatch_rules == PROFILES[version].dispatch_rules
        _, result = events_of(path, "recorded", "failing StopContainer")
        stops = [event for event in result.events if event.event == "StopContainer"]
        assert stops
        assert all(bool(event.failure) == fails for event in stops)
