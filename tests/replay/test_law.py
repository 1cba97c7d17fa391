# SPDX-License-Identifier: Apache-2.0
"""Replays to plugins that answer as recorded reproduce the recorded requests."""

from __future__ import annotations

from collections import defaultdict, deque
from pathlib import Path

import pytest
from google.protobuf.message import Message
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.filter import parse
from nri_scope.nri.events import EventKind
from nri_scope.nri.merging import ADJUSTABLE
from nri_scope.nri.request_subject import container_of
from nri_scope.recording.reading.reader import Recording
from nri_scope.replay.replies import Verdict
from nri_scope.replay.script import RecordingPlace, ReplaySelection
from nri_scope.runtime.plugin_setup import SETUP_METHODS
from nri_scope.wire import RequestReceived
from tests.amount import amount
from tests.runtime_emulation.captures import NAMES, exchanges
from tests.runtime_emulation.small_plugin import SmallPlugin

from .plays import decode_event, decode_events, job_of, played_to_peers
from .recordings import BUNDLED

OUR_MASK = 0x7FF
CHAIN = ("00-probe-a", "30-env-injector", "50-probe-b", "60-cpu-policy", "95-probe-c")


class Remembering(SmallPlugin):
    """Answers each request as the plugin of its name did when the capture was made."""

    def __init__(self, capture: str, plugin: str) -> None:
        super().__init__(plugin)
        self.recorded: list[tuple[str, Message]] = []
        self._replies: defaultdict[str, deque[bytes]] = defaultdict(deque)
        for stored, reply in exchanges(capture):
            if stored.plugin != plugin:
                continue
            if stored.method == "Configure":
                self.mask = api.ConfigureResponse.FromString(reply).events
            elif stored.method != "Synchronize":
                event, message = decode_event(stored.method, stored.request)
                self.recorded.append((event, message))
                self._replies[event].append(reply)

    def serve(self, link: object, request: RequestReceived, arrived_ns: int) -> None:
        if request.method not in SETUP_METHODS:
            event, _ = decode_event(request.method, request.payload)
            reply = self._replies[event].popleft() if self._replies[event] else b""
            self.on[request.method] = lambda _: reply
        super().serve(link, request, arrived_ns)  # type: ignore[arg-type]


class DeviceInjector(SmallPlugin):
    """Plugin at index 20 that was not captured; a later plugin's requests contain its devices."""

    def __init__(self, later: Remembering) -> None:
        super().__init__("20-device-injector", EventKind.CreateContainer.bit)
        self._devices = {
            message.container.id: list(message.container.linux.devices)
            for event, message in later.recorded
            if event == "CreateContainer" and isinstance(message, api.CreateContainerRequest)
        }
        self.on["CreateContainer"] = self._inject

    def _inject(self, request: RequestReceived) -> Message:
        container = api.CreateContainerRequest.FromString(request.payload).container
        existing = {device.path for device in container.linux.devices}
        reply = api.CreateContainerResponse()
        for device in self._devices[container.id]:
            if device.path not in existing:
                reply.adjust.linux.devices.append(device)
        return reply


@pytest.mark.parametrize("name", NAMES)
def test_a_chain_that_answers_as_recorded_receives_the_recorded_requests(
    name: str, captures: dict[str, Path]
) -> None:
    peers = [Remembering(name, plugin) for plugin in CHAIN]
    injector = DeviceInjector(peers[2])
    replayed = played_to_peers(job_of(captures[name], {}), injector, *peers)
    assert replayed.ok, list(replayed.failures())
    for peer in peers:
        assert [event for event, _ in decode_events(peer.events)] == [
            event for event, _ in peer.recorded
        ]
        for ours, theirs in zip(decode_events(peer.events), peer.recorded, strict=True):
            assert without_empty_memory(*ours) == without_empty_memory(*theirs), peer.name


def without_empty_memory(event: str, message: Message) -> tuple[str, Message]:
    """Remove an empty memory message: CRI-O sends one at first for containers without limits."""
    container = container_of(event, message)
    if container is not None:
        resources = container.linux.resources
        if resources.HasField("memory") and not resources.memory.ListFields():
            resources.ClearField("memory")
    return event, message


@pytest.mark.parametrize("name", [*BUNDLED, *NAMES])
def test_with_an_idle_plugin_only_formerly_adjusted_fields_differ(
    name: str, captures: dict[str, Path]
) -> None:
    path = BUNDLED.get(name) or captures[name]
    peer = SmallPlugin("00-idle", OUR_MASK)
    replayed = played_to_peers(job_of(path, {}), peer)
    assert replayed.ok
    assert not any(container.changes for container in replayed.containers.values())
    # The replay has no validator.
    recorded = [one for one in events_of(path) if one[0] != "ValidateContainerAdjustment"]
    ours = decode_events(peer.events)
    assert [event for event, _ in ours] == [event for event, _ in recorded]
    for (_, one), (event, other) in zip(ours, recorded, strict=True):
        if name not in BUNDLED and event != "CreateContainer":
            # Captured plugins had adjusted these fields.
            for message in (one, other):
                container: Message = container_of(event, message) or api.Container()
                for field in ADJUSTABLE:
                    container.ClearField(field)
        assert one == other


def events_of(path: Path) -> list[tuple[str, Message]]:
    """The events of the session that is replayed by default."""
    with Recording.open(path) as recording:
        return [
            decode_event(event.method, request)
            for event, request, _ in recording.exchanges(where=parse("session:1"))
            if event.method not in SETUP_METHODS
        ]


@settings(max_examples=amount(12, 12), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(3, 31), st.integers(1, 30), st.sampled_from(sorted(BUNDLED)))
def test_any_part_is_sent_as_recorded_with_the_state_at_its_beginning(
    begin: int, length: int, name: str
) -> None:
    path = BUNDLED[name]
    peer = SmallPlugin("00-idle", OUR_MASK)
    selection = ReplaySelection(
        begin=RecordingPlace(event_id=begin), end=RecordingPlace(event_id=begin + length)
    )
    replayed = played_to_peers(job_of(path, {}, selection=selection), peer)
    assert {reply.verdict for reply in replayed.replies()} == {Verdict.OK}
    events = events_of(path)
    first = begin - 3
    assert decode_events(peer.events) == events[first : first + length]
    (state,) = peer.messages("Synchronize")
    assert isinstance(state, api.SynchronizeRequest)
    created, ended, removed = set[str](), set[str](), set[str]()
    for event, message in events[:first]:
        container = container_of(event, message)
        if container is not None:
            {"CreateContainer": created, "StopContainer": ended, "RemoveContainer": removed}.get(
                event, set()
            ).add(container.id)
    ids = {container.id for container in state.containers}
    assert created - ended - removed <= ids
    assert not ids & (ended | removed)


@pytest.mark.parametrize("name", [*BUNDLED, *NAMES])
def test_without_effects_every_byte_is_sent_as_recorded(
    name: str, captures: dict[str, Path]
) -> None:
    path = BUNDLED.get(name) or captures[name]
    peer = SmallPlugin("00-raw")
    adjusting = api.CreateContainerResponse(adjust=api.ContainerAdjustment(annotations={"a": "b"}))
    peer.on["CreateContainer"] = lambda request: adjusting
    played_to_peers(job_of(path, {}, effects=False), peer)
    with Recording.open(path) as recording:
        recorded = [
            (event.method, request)
            for event, request, _ in recording.exchanges(where=parse("session:1"))
            if event.method not in SETUP_METHODS
        ]
    assert [(event.method, event.payload) for event in peer.events] == recorded
