# SPDX-License-Identifier: Apache-2.0
"""Playback of stored requests: byte for byte, in order, at a given pace."""

from __future__ import annotations

from collections import deque
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope._gen.nri.api_pb2 import ConfigureRequest, ConfigureResponse, SynchronizeRequest
from nri_scope.errors import RpcError, UsageError
from nri_scope.nri.events import EventKind
from nri_scope.replay.playback import pause_s
from nri_scope.runtime import PROFILES, Answer, Profile
from nri_scope.wire import RequestReceived
from tests.runtime_emulation.runtime import Runtime

from .captures import NAMES, exchanges
from .profiles import OLD
from .small_plugin import Reply, SmallPlugin
from .stored_requests import Stored, play, split_setup

SETUP = ("Configure", "Synchronize")


def answering_as_captured(name: str, plugin_id: str) -> SmallPlugin:
    """Plugin that sends the replies of the capture, in order."""
    replies: dict[str, deque[bytes]] = {}
    for exchange in exchanges(name):
        if exchange.stored.plugin == plugin_id:
            replies.setdefault(exchange.stored.method, deque()).append(exchange.reply)

    def reply(request: RequestReceived) -> Reply:
        return replies[request.method].popleft()

    plugin = SmallPlugin(plugin_id)
    plugin.on = dict.fromkeys(replies, reply)
    return plugin


@pytest.mark.parametrize("name", NAMES)
async def test_capture_is_sent_unchanged_to_each_of_its_plugins(name: str) -> None:
    ids = sorted({exchange.stored.plugin for exchange in exchanges(name)})
    plugins = {plugin_id: answering_as_captured(name, plugin_id) for plugin_id in ids}
    setup, events = split_setup(exchange.stored for exchange in exchanges(name))
    exchanged: list[tuple[Stored, list[Answer]]] = []
    async with Runtime(setup) as runtime:
        for plugin in plugins.values():
            await plugin.join(runtime)
        played = await play(
            runtime, events, on_event=lambda item, answers: exchanged.append((item, answers))
        )
        assert [plugin.id for plugin in runtime.plugins] == ids
    for plugin_id, plugin in plugins.items():
        captured = [one.stored for one in exchanges(name) if one.stored.plugin == plugin_id]
        assert [(one.service, one.method, one.payload) for one in plugin.requests] == [
            (one.service, one.method, one.request) for one in captured
        ]
        assert [event.timeout_ns for event in plugin.events] == [
            one.timeout_ns for one in captured if one.method not in SETUP
        ]
    expected = [exchange for exchange in exchanges(name) if exchange.stored.method not in SETUP]
    assert [item for item, _ in exchanged] == [one.stored for one in expected]
    assert [answers[0].payload for _, answers in exchanged] == [one.reply for one in expected]
    assert (played.events, played.answers, played.errors) == (len(expected), len(expected), 0)


@pytest.mark.parametrize("name", NAMES)
async def test_one_plugin_s_stream_can_be_sent_to_others(name: str) -> None:
    stream = [
        exchange.stored._replace(plugin="")
        for exchange in exchanges(name)
        if exchange.stored.plugin == "50-probe-b"
    ]
    setup, events = split_setup(stream)
    everything, creations = (
        SmallPlugin("00-everything"),
        SmallPlugin("90-creations", EventKind.CreateContainer.bit),
    )
    async with Runtime(setup) as runtime:
        await everything.join(runtime)
        await creations.join(runtime)
        await play(runtime, events)
    assert [request.payload for request in everything.requests] == [one.request for one in stream]
    assert [one.payload for one in creations.requests[:2]] == [one.request for one in stream[:2]]
    assert {event.method for event in creations.events} == {"CreateContainer"}


@pytest.mark.parametrize(
    ("name", "profile"),
    [
        ("containerd-1.7.24", "containerd-1.7"),
        ("containerd-2.1.9", "containerd-2.1"),
        ("cri-o-1.37", "cri-o"),
    ],
)
def test_recorded_profile_equals_the_runtime_s_profile(name: str, profile: str) -> None:
    setup, _ = split_setup(exchange.stored for exchange in exchanges(name))
    known = PROFILES[profile]
    recorded = setup.profile
    assert recorded.name == "recorded"
    for field in ("nri_version", "mask", "dedicated_rpcs", "split_sync", "sends_timeouts",
                  "sends_nri_version", "checks_names", "request_timeout_ms"):  # fmt: skip
        assert getattr(recorded, field) == getattr(known, field), field
    configure = ConfigureRequest.FromString(setup.configures["00-probe-a"])
    assert configure == recorded.configure_request()


# -- the set-up -----------------------------------------------------------------------------------

CONFIGURE = OLD.configure_request().SerializeToString()


def part(pods: int, more: bool) -> bytes:
    request = SynchronizeRequest(more=more)
    for number in range(pods):
        request.pods.add(id=f"pod-{number}")
    return request.SerializeToString()


async def test_parts_of_synchronize_are_sent_as_parts() -> None:
    stored = [
        Stored(1, "Configure", CONFIGURE),
        Stored(2, "Synchronize", part(3, True)),
        Stored(3, "Synchronize", part(1, False)),
        Stored(4, "CreateContainer", b""),
    ]
    setup, events = split_setup(stored)
    plugin = SmallPlugin()
    async with Runtime(setup) as runtime:
        await plugin.join(runtime)
        await play(runtime, events)
    assert [(request.method, request.payload) for request in plugin.requests] == [
        (one.method, one.request) for one in stored
    ]


async def test_later_set_up_requests_are_not_played_as_events() -> None:
    """Check a plugin that registered later in the recording; here all register first."""
    setup, events = split_setup(
        [
            Stored(1, "Configure", CONFIGURE),
            Stored(2, "CreateContainer", b""),
            Stored(3, "Configure", CONFIGURE, plugin="50-late"),
            Stored(4, "Synchronize", b"", plugin="50-late"),
            Stored(5, "StopContainer", b""),
        ]
    )
    plugin = SmallPlugin()
    async with Runtime(setup) as runtime:
        await plugin.join(runtime)
        played = await play(runtime, events)
    assert plugin.methods == ["Configure", "Synchronize", "CreateContainer", "StopContainer"]
    assert plugin.messages("Synchronize") == [SynchronizeRequest()]
    assert played.events == 2


def test_stream_without_configure_needs_a_profile() -> None:
    stored = [Stored(1, "CreateContainer", b"")]
    with pytest.raises(UsageError, match="does not identify its runtime"):
        split_setup(stored)
    setup, events = split_setup(stored, OLD)
    assert setup.configure("10-any", "") == CONFIGURE
    assert list(events) == stored


def test_given_configuration_replaces_the_recorded_one() -> None:
    recorded = OLD.configure_request("old: 1").SerializeToString()
    setup, _ = split_setup([Stored(1, "Configure", recorded)])
    assert ConfigureRequest.FromString(setup.configure("10-a", "")).config == "old: 1"
    assert setup.configure("10-a", "new: 2") == OLD.configure_request("new: 2").SerializeToString()


async def test_errors_are_counted_and_playback_continues() -> None:
    setup, events = split_setup(
        [
            Stored(1, "Configure", CONFIGURE),
            Stored(2, "CreateContainer", b""),
            Stored(3, "StopContainer", b""),
        ]
    )
    plugin = SmallPlugin()
    plugin.on["Configure"] = lambda request: ConfigureResponse()
    plugin.on["CreateContainer"] = lambda request: RpcError(2, "no")
    async with Runtime(setup) as runtime:
        await plugin.join(runtime)
        played = await play(runtime, events)
    assert (played.events, played.answers, played.errors) == (2, 2, 1)


# -- the pace -------------------------------------------------------------------------------------


def test_pause_is_the_gap_divided_by_the_speed() -> None:
    second = 1_000_000_000
    assert pause_s(0, second // 2, 2) == 0.25
    assert pause_s(0, 1_000, 2) == 5e-07
    assert pause_s(0, 3600 * second, 2) == 1800
    assert pause_s(second, 0, 2) == 0


@given(st.integers(-(2**63), 2**63), st.integers(-(2**63), 2**63))
def test_infinite_speed_never_waits(before_ns: int, next_ns: int) -> None:
    assert pause_s(before_ns, next_ns, inf) == 0


def test_profile_of_an_unknown_runtime_is_conservative() -> None:
    profile = Profile.of("x", "podman", "5", None)
    assert profile.nri_version == ""
    assert profile.mask == 0x07FF
    assert not profile.dedicated_rpcs and not profile.split_sync and not profile.sends_timeouts
