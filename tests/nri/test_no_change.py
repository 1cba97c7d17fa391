# SPDX-License-Identifier: Apache-2.0
"""Passive replies request no change, even when read by the strictest runtime.

The parties are all components of nri-scope that reply to a runtime. `strict` combines iSulad, which
unwraps ``adjust`` and exits on any update, with Go, which requires ``more`` to be echoed.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.doctor.sockets import register
from nri_scope.events import Role
from nri_scope.logger.launched import LaunchedPlugin
from nri_scope.logger.logger import Logger
from nri_scope.nri import merging
from nri_scope.nri.events import METHODS, PLUGIN_CONN, PLUGIN_SERVICE, RUNTIME_CONN, EventKind
from nri_scope.nri.identity import check_index, check_name
from nri_scope.nri.no_change import EMPTY_ADJUSTMENT, NO_CHANGE, is_empty_reply, no_change
from nri_scope.nri.versions import CONSERVATIVE_MASK, NriVersion
from nri_scope.plugin import Identity, PluginCallbacks, PluginSession, inherited, serve
from nri_scope.plugin.serving import EVENT_HANDLERS
from nri_scope.transport import Link, adopt_descriptor
from nri_scope.wire import Connection, RequestReceived
from tests.logger.default_recording import replace_default
from tests.logger.list_sink import ListSink
from tests.nri.merging.merged_replies import response_of
from tests.runtime_emulation.small_plugin import SmallPlugin

ME = Identity("42", "passive")
PLUGIN_METHODS = [one for one in METHODS.values() if one.service == PLUGIN_SERVICE]
VERSIONS = ["0.2.0", "0.6.1", "0.8.0", "0.9.0", "0.10.0", "0.11.0", "0.12.0", "0.12.5"]


@pytest.fixture(autouse=True)
def default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the default path of launched loggers, which is one of this host."""
    replace_default(tmp_path, monkeypatch)


def strict(method: str, request: Message, payload: bytes) -> None:
    """Assert that a reply is valid for every runtime and requests nothing."""
    reply = METHODS[method].reply.FromString(payload)
    assert not getattr(reply, "update", ()) and not getattr(reply, "evict", ())
    if isinstance(reply, api.ConfigureResponse):
        assert reply.events, "0 subscribes to everything"
        assert not reply.events & ~CONSERVATIVE_MASK, "iSulad sends no events at all"
    elif isinstance(reply, api.SynchronizeResponse):
        assert isinstance(request, api.SynchronizeRequest)
        assert reply.more == request.more
    elif isinstance(reply, api.CreateContainerResponse):
        assert reply.HasField("adjust"), "iSulad exits without it"
        assert reply.adjust == api.ContainerAdjustment()
    else:
        assert reply == METHODS[method].reply()
    if method not in ("Configure", "Synchronize"):
        assert is_empty_reply(reply)


def nothing(*arguments: object) -> None:
    """A handler that returns nothing."""


SILENT = dict.fromkeys(("configure", "synchronize", *EVENT_HANDLERS.values()), nothing)
"""Handlers for everything."""


class AsyncSilent:
    """Asynchronous handlers that return nothing."""

    async def create_container(self, pod: object, container: object) -> None:
        await asyncio.sleep(0)

    async def update_container(self, pod: object, container: object, resources: object) -> None:
        await asyncio.sleep(0)

    async def stop_container(self, pod: object, container: object) -> None:
        await asyncio.sleep(0)

    async def synchronize(self, pods: object, containers: object) -> None:
        await asyncio.sleep(0)


class OneHandler:
    """Plugin with a single handler."""

    def remove_pod_sandbox(self, pod: object) -> None:
        pass


class WithLists:
    """Handlers that return empty lists."""

    def create_container(self, pod: object, container: object) -> list[object]:
        return []

    def update_container(self, pod: object, container: object, resources: object) -> list[object]:
        return []

    def stop_container(self, pod: object, container: object) -> list[object]:
        return []


Start = Callable[[int], Awaitable[object]]


def session(plugin: PluginCallbacks) -> Start:
    return lambda descriptor: PluginSession(ME, plugin).run(inherited(descriptor))


def library(plugin: object) -> Start:
    return lambda descriptor: serve(plugin, ME, inherited(descriptor))


async def small(descriptor: int) -> None:
    plugin = SmallPlugin("42-passive", EventKind.CreateContainer.bit)
    await plugin.adopt(descriptor)
    await plugin.register()
    await plugin.connected.wait_closed()


PARTIES: dict[str, Callable[[], Start]] = {
    "logger": lambda: session(Logger(ListSink(), ME)),
    "validating logger": lambda: session(Logger(ListSink(), ME, validate=True)),
    "probe": lambda: session(Logger(ListSink(), ME, role=Role.PROBE)),
    "launched logger": lambda: session(LaunchedPlugin(ME)),
    "doctor": lambda: register,
    "library, no handlers called": lambda: library(OneHandler()),
    "library, all handlers": lambda: library(type("Silent", (), SILENT)()),
    "library, asynchronous": lambda: library(AsyncSilent()),
    "library, empty lists": lambda: library(WithLists()),
    "emulated plugin of the tests": lambda: small,
}


async def replies_of(party: Start, calls: list[tuple[str, Message]]) -> list[bytes]:
    """Return a party's replies to these calls, over a real connection."""
    ours, theirs = socket.socketpair()
    registered = asyncio.Event()

    def on_request(link: Link, request: RequestReceived, arrived_ns: int) -> None:
        # A passive party must not call UpdateContainers: iSulad exits on it.
        assert request.method == "RegisterPlugin"
        registration = api.RegisterPluginRequest.FromString(request.payload)
        assert check_index(registration.plugin_idx) and check_name(registration.plugin_name)
        link.respond(request.stream_id)
        registered.set()

    link = await adopt_descriptor(
        ours.detach(), lambda: Link(Connection(serves=RUNTIME_CONN, calls=PLUGIN_CONN), on_request)
    )
    serving = asyncio.ensure_future(party(theirs.detach()))
    try:
        async with asyncio.timeout(30):
            await registered.wait()
            replies = []
            for method, request in calls:
                payload = request.SerializeToString()
                replies.append(await link.call(PLUGIN_SERVICE, method, payload, timeout=10))
            return replies
    finally:
        link.close()
        await asyncio.wait({serving})


def every_call() -> list[tuple[str, Message]]:
    """Return calls of every plugin method, with StateChange for every event."""
    pod, container = api.PodSandbox(id="p"), api.Container(id="c", pod_sandbox_id="p")
    calls: list[tuple[str, Message]] = []
    for method in PLUGIN_METHODS:
        if method.name in ("Configure", "Synchronize", "Shutdown", "StateChange"):
            continue
        parts = {"pod": pod, "container": container}
        fields = {
            name: parts[name] for name in parts if name in method.request.DESCRIPTOR.fields_by_name
        }
        calls += [(method.name, method.request(**fields)), (method.name, method.request())]
    for number in range(16):
        calls.append(("StateChange", api.StateChangeEvent(event=number, pod=pod)))  # type: ignore[arg-type]
    return calls


SETUP: list[tuple[str, Message]] = [
    ("Configure", api.ConfigureRequest(runtime_name="v2", runtime_version="2.0.0-beta.2+unknown")),
    ("Synchronize", api.SynchronizeRequest(pods=[api.PodSandbox()], more=True)),
]


@pytest.mark.parametrize("party", PARTIES)
async def test_no_reply_of_any_party_requests_a_change(party: str) -> None:
    calls = [*SETUP, *every_call(), ("Synchronize", api.SynchronizeRequest())]
    for (method, request), payload in zip(
        calls, await replies_of(PARTIES[party](), calls), strict=True
    ):
        strict(method, request, payload)


def test_the_table_has_every_plugin_method_except_configure_and_synchronize() -> None:
    names = {method.name for method in PLUGIN_METHODS}
    assert names - NO_CHANGE.keys() == {"Configure", "Synchronize"}
    for method in NO_CHANGE:
        strict(method, METHODS[method].request(), no_change(method, b"\xff not read"))


@given(st.text(), st.binary(max_size=64), st.sampled_from([PLUGIN_SERVICE, "other.Service"]))
def test_unknown_methods_get_an_empty_reply(method: str, payload: bytes, service: str) -> None:
    if method not in METHODS or service != PLUGIN_SERVICE:
        assert no_change(method, payload, service) == b""


def test_methods_of_another_service_get_an_empty_reply() -> None:
    assert no_change("CreateContainer", b"", "other.Service") == b""


@pytest.mark.parametrize("version", VERSIONS)
def test_merging_an_empty_adjustment_changes_nothing(version: str) -> None:
    container = api.Container(id="c", name="x", annotations={"a": "1"}, args=["sh"])
    request = api.CreateContainerRequest(pod=api.PodSandbox(id="p"), container=container)
    without = merging.CreationMerging(request, version=NriVersion.parse(version))
    turn = merging.CreationMerging(request, version=NriVersion.parse(version))
    turn.apply(api.CreateContainerResponse.FromString(EMPTY_ADJUSTMENT), "42-passive")
    assert response_of(turn) == response_of(without)
    assert turn.request == without.request
    assert turn.owners == without.owners
    assert turn.dropped == []


@pytest.mark.parametrize(
    ("reply", "empty"),
    [
        (api.CreateContainerResponse(), True),
        (api.CreateContainerResponse(adjust=api.ContainerAdjustment()), True),
        (api.CreateContainerResponse(adjust=api.ContainerAdjustment(args=["x"])), False),
        (api.CreateContainerResponse(update=[api.ContainerUpdate()]), False),
        (api.CreateContainerResponse(evict=[api.ContainerEviction()]), False),
        (api.UpdateContainerResponse(), True),
        (api.UpdateContainerResponse(update=[api.ContainerUpdate()]), False),
        (api.ValidateContainerAdjustmentResponse(reject=True), False),
        (api.Empty(), True),
        (api.CreateContainerResponse.FromString(b"\x0a\x03\xf8\x07\x01"), False),
    ],
)
def test_empty_replies_are_recognized(reply: Message, empty: bool) -> None:
    assert is_empty_reply(reply) is empty
