# SPDX-License-Identifier: Apache-2.0
"""Serial dispatch of events to plugins, and handling of bad answers."""

from __future__ import annotations

import asyncio
import socket
import struct
from dataclasses import replace

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import (
    ConnectionClosed,
    DeadlineExceeded,
    LocalProtocolError,
    RemoteProtocolError,
    RpcError,
)
from nri_scope.nri.events import PLUGIN_SERVICE, POD_EVENTS, STATE_CHANGE_EVENTS, EventKind
from nri_scope.runtime import Plugin, Profile
from nri_scope.wire import Code, RequestReceived
from tests.runtime_emulation.container_requests import (
    CONTAINER,
    CREATE,
    POD,
    START,
    joined,
    request_of,
)
from tests.runtime_emulation.runtime import Runtime

from .profiles import NEW, OLD
from .small_plugin import Reply, SmallPlugin

HURRIED = replace(NEW, request_timeout_ms=200)


# -- order and requests -------------------------------------------------------------------------


async def test_plugins_are_called_in_index_order_regardless_of_their_arrival() -> None:
    order: list[str] = []

    def remember(plugin: SmallPlugin) -> SmallPlugin:
        def start(request: RequestReceived) -> Reply:
            order.append(f"{plugin.index}-{plugin.name}")
            return b""

        plugin.on["StartContainer"] = start
        return plugin

    async with Runtime(NEW) as runtime:
        for name in ("50-b", "99-last", "00-first", "50-a"):
            await remember(SmallPlugin(name)).join(runtime)
        answers = await runtime.dispatch(EventKind.StartContainer, START)
    assert order == ["00-first", "50-b", "50-a", "99-last"]
    assert [answer.plugin for answer in answers] == order
    assert all(answer.error is None and answer.took_ns > 0 for answer in answers)


async def test_only_subscribers_are_called() -> None:
    async with Runtime(NEW) as runtime:
        starts, creates = (
            SmallPlugin("10-starts", EventKind.StartContainer.bit),
            SmallPlugin("20-creates", EventKind.CreateContainer.bit),
        )
        await joined(runtime, starts, creates)
        answers = await runtime.dispatch(EventKind.StartContainer, START)
        assert [answer.plugin for answer in answers] == ["10-starts"]
        assert not creates.events
        assert (
            await runtime.dispatch(EventKind.RunPodSandbox, request_of(EventKind.RunPodSandbox))
            == []
        )


async def test_reply_is_decoded() -> None:
    async with Runtime(NEW) as runtime:
        plugin = SmallPlugin()
        adjustment = api.CreateContainerResponse(
            adjust=api.ContainerAdjustment(annotations={"a": "b"})
        )
        plugin.on["CreateContainer"] = lambda request: adjustment
        await plugin.join(runtime)
        (answer,) = await runtime.dispatch(EventKind.CreateContainer, CREATE)
    assert answer.reply == adjustment
    assert answer.payload == adjustment.SerializeToString()
    assert plugin.messages("CreateContainer") == [CREATE]


@pytest.mark.parametrize("event", EventKind, ids=lambda event: event.name)
@pytest.mark.parametrize("profile", [OLD, NEW], ids=lambda profile: profile.name)
async def test_event_is_sent_by_the_profile_s_rpc(profile: Profile, event: EventKind) -> None:
    plugin = SmallPlugin()
    # An emulated runtime can send events that its profile lacks.
    async with Runtime(replace(profile, mask=NEW.mask)) as runtime:
        await plugin.join(runtime)
        await runtime.dispatch(event, request_of(event))
    (sent,) = plugin.events
    assert sent.service == PLUGIN_SERVICE
    if profile is OLD and event in STATE_CHANGE_EVENTS:
        change = api.StateChangeEvent.FromString(sent.payload)
        assert sent.method == "StateChange"
        assert change.event == event.value
        assert change.pod == POD
        assert change.HasField("container") != (event in POD_EVENTS)
        assert event in POD_EVENTS or change.container == CONTAINER
    else:
        assert sent.method == event.name
        assert sent.payload == request_of(event).SerializeToString()


async def test_wrong_message_type_for_the_event_is_a_type_error() -> None:
    async with Runtime(NEW) as runtime:
        with pytest.raises(TypeError, match="takes StartContainerRequest"):
            await runtime.dispatch(EventKind.StartContainer, CREATE)


async def test_deadline_is_sent_with_the_request() -> None:
    async with Runtime(replace(NEW, request_timeout_ms=2_000)) as runtime:
        plugin = SmallPlugin()
        await plugin.join(runtime)
        await runtime.dispatch(EventKind.StartContainer, START)
        await runtime.send("StartContainer", b"", timeout_ns=1_999_934_312)
    assert [event.timeout_ns for event in plugin.events] == [2_000_000_000, 1_999_934_312]


async def test_concurrent_dispatches_are_serialized() -> None:
    order: list[str] = []
    async with Runtime(NEW) as runtime:
        plugins = [SmallPlugin("10-a"), SmallPlugin("20-b")]

        def later(plugin: SmallPlugin) -> None:
            def handle(request: RequestReceived) -> Reply:
                order.append(f"{request.method} {plugin.name}")
                asyncio.get_running_loop().call_later(0.001, plugin.answer, request, b"")
                return None

            plugin.on["StartContainer"] = plugin.on["CreateContainer"] = handle

        for plugin in plugins:
            later(plugin)
        await joined(runtime, *plugins)
        await asyncio.gather(
            runtime.dispatch(EventKind.CreateContainer, CREATE),
            runtime.dispatch(EventKind.StartContainer, START),
        )
    assert order == ["CreateContainer a", "CreateContainer b", "StartContainer a",
                     "StartContainer b"]  # fmt: skip


@pytest.mark.parametrize("size", [100, 4_095, 4_096, 4_097, 100_000, 3_000_000])
async def test_messages_of_every_size_are_sent_and_received(size: int) -> None:
    async with Runtime(NEW) as runtime:
        plugin = SmallPlugin()
        reply = api.CreateContainerResponse(
            adjust=api.ContainerAdjustment(annotations={"large": "y" * size})
        )
        plugin.on["CreateContainer"] = lambda request: reply
        await plugin.join(runtime)
        request = api.CreateContainerRequest(container=api.Container(env=["X=" + "x" * size]))
        (answer,) = await runtime.dispatch(EventKind.CreateContainer, request)
    assert answer.reply == reply
    assert plugin.messages("CreateContainer") == [request]


# -- bad answers --------------------------------------------------------------------------------


async def test_error_status_stops_the_chain_and_keeps_the_plugin() -> None:
    async with Runtime(NEW) as runtime:
        first, second, third = SmallPlugin("10-a"), SmallPlugin("20-b"), SmallPlugin("30-c")
        second.on["StartContainer"] = lambda request: RpcError(Code.UNKNOWN, "not today")
        await joined(runtime, first, second, third)
        ok, refused = await runtime.dispatch(EventKind.StartContainer, START)
        assert ok.error is None
        assert isinstance(refused.error, RpcError) and refused.error.message == "not today"
        assert refused.stops_chain and not refused.dropped
        assert (refused.reply, refused.payload) == (None, b"")
        assert not third.events
        assert len(runtime.plugins) == 3


async def test_late_answer_drops_the_plugin_and_the_chain_continues() -> None:
    async with Runtime(HURRIED) as runtime:
        slow, quick = SmallPlugin("10-slow"), SmallPlugin("20-quick")
        slow.on["StartContainer"] = lambda request: None
        await joined(runtime, slow, quick)
        late, fine = await runtime.dispatch(EventKind.StartContainer, START)
        assert isinstance(late.error, DeadlineExceeded) and late.dropped
        assert fine.error is None
        assert [plugin.id for plugin in runtime.plugins] == ["20-quick"]
        slow.answer(slow.events[0], b"")
        await slow.connected.wait_closed()
        await runtime.wait_for(lambda: bool(runtime.former))
        assert runtime.former[0].end_reason == "StartContainer: no answer within 0.2 s"
        (answer,) = await runtime.dispatch(EventKind.StartContainer, START)
        assert answer.plugin == "20-quick"


async def test_deadline_exceeded_status_is_the_plugin_s_own_error() -> None:
    async with Runtime(NEW) as runtime:
        plugin = SmallPlugin()
        await plugin.join(runtime)
        plugin.on["StartContainer"] = lambda request: RpcError(Code.DEADLINE_EXCEEDED, "mine")
        (answer,) = await runtime.dispatch(EventKind.StartContainer, START)
        assert isinstance(answer.error, RpcError) and not answer.dropped
        assert len(runtime.plugins) == 1


async def test_connection_lost_during_a_request_does_not_stop_the_chain() -> None:
    async with Runtime(NEW) as runtime:
        dying, living = SmallPlugin("10-dying"), SmallPlugin("20-living")

        def die(request: RequestReceived) -> Reply:
            dying.connected.abort()
            return None

        dying.on["StartContainer"] = die
        await joined(runtime, dying, living)
        lost, fine = await runtime.dispatch(EventKind.StartContainer, START)
        assert isinstance(lost.error, ConnectionClosed) and lost.dropped
        assert fine.error is None
        assert [plugin.id for plugin in runtime.plugins] == ["20-living"]


@pytest.mark.parametrize(
    ("garbage", "reason"),
    [
        (struct.pack(">II", 1, 0xFFFFFFFF), "protocol error of the peer: mux frame of 4294967295"),
        (struct.pack(">II", 1, 100) + b"half", "closed by the peer in the middle of a message"),
    ],
    ids=["protocol error", "half a message"],
)
async def test_broken_stream_does_not_stop_the_chain(garbage: bytes, reason: str) -> None:
    ours, theirs = socket.socketpair()
    backdoor = theirs.dup()
    async with Runtime(NEW) as runtime:
        broken, living = SmallPlugin("10-broken"), SmallPlugin("20-living")

        def break_off(request: RequestReceived) -> Reply:
            backdoor.send(garbage)
            backdoor.shutdown(socket.SHUT_WR)
            return None

        broken.on["StartContainer"] = break_off
        await broken.adopt(theirs.detach())
        await asyncio.gather(broken.register(), runtime.adopt(ours))
        await living.join(runtime)
        lost, fine = await runtime.dispatch(EventKind.StartContainer, START)
        assert isinstance(lost.error, ConnectionClosed) and reason in lost.error.reason
        assert fine.error is None
    backdoor.close()


async def test_undecodable_reply_stops_the_chain_and_keeps_the_plugin() -> None:
    async with Runtime(NEW) as runtime:
        plugin, next_one = SmallPlugin("10-a"), SmallPlugin("20-b")
        plugin.on["CreateContainer"] = lambda request: b"\xff\xff"
        await joined(runtime, plugin, next_one)
        (answer,) = await runtime.dispatch(EventKind.CreateContainer, CREATE)
        assert isinstance(answer.error, RemoteProtocolError)
        assert answer.payload == b"\xff\xff"
        assert len(runtime.plugins) == 2


async def test_request_over_the_size_limit_stops_the_chain_and_keeps_the_plugin() -> None:
    async with Runtime(NEW) as runtime:
        plugin = SmallPlugin()
        await plugin.join(runtime)
        huge = api.CreateContainerRequest(container=api.Container(args=["x" * (5 << 20)]))
        (answer,) = await runtime.dispatch(EventKind.CreateContainer, huge)
        assert isinstance(answer.error, LocalProtocolError)
        (answer,) = await runtime.dispatch(EventKind.CreateContainer, CREATE)
        assert answer.error is None


# -- the fallback to StateChange ----------------------------------------------------------------


def only_state_change(plugin: SmallPlugin) -> SmallPlugin:
    for event in STATE_CHANGE_EVENTS:
        plugin.on[event.name] = lambda request: RpcError(Code.UNIMPLEMENTED, "method unknown")
    return plugin


async def test_unimplemented_switches_all_nine_events_of_a_connection_to_state_change() -> None:
    async with Runtime(NEW) as runtime:
        older, newer = only_state_change(SmallPlugin("10-older")), SmallPlugin("20-newer")
        await joined(runtime, older, newer)
        nine = sorted(STATE_CHANGE_EVENTS)
        for event in nine:
            answers = await runtime.dispatch(event, request_of(event))
            assert [(answer.method, answer.error) for answer in answers] == [
                ("StateChange", None),
                (event.name, None),
            ]
        assert [event.method for event in older.events] == [nine[0].name] + ["StateChange"] * 9
        assert [event.method for event in newer.events] == [event.name for event in nine]
        changes = older.messages("StateChange")
        assert changes == [
            api.StateChangeEvent(
                event=api.Event.ValueType(event.value),
                pod=POD,
                container=None if event in POD_EVENTS else CONTAINER,
            )
            for event in nine
        ]


async def test_other_errors_and_other_events_do_not_fall_back() -> None:
    async with Runtime(NEW) as runtime:
        plugin = SmallPlugin()
        plugin.on["StartContainer"] = lambda request: RpcError(Code.UNKNOWN, "broken")
        plugin.on["CreateContainer"] = lambda request: RpcError(Code.UNIMPLEMENTED, "what?")
        await plugin.join(runtime)
        for event, request in (
            (EventKind.StartContainer, START),
            (EventKind.CreateContainer, CREATE),
        ):
            (answer,) = await runtime.dispatch(event, request)
            assert isinstance(answer.error, RpcError)
        assert "StateChange" not in plugin.methods


async def test_unimplemented_state_change_is_an_error() -> None:
    async with Runtime(NEW) as runtime:
        plugin = only_state_change(SmallPlugin())
        plugin.on["StateChange"] = lambda request: RpcError(Code.UNIMPLEMENTED, "that neither")
        await plugin.join(runtime)
        (answer,) = await runtime.dispatch(EventKind.StartContainer, START)
        assert isinstance(answer.error, RpcError) and answer.error.message == "that neither"
        assert answer.stops_chain


async def test_one_deadline_covers_both_attempts() -> None:
    async with Runtime(NEW) as runtime:
        plugin = only_state_change(SmallPlugin())
        await plugin.join(runtime)
        await runtime.dispatch(EventKind.StartContainer, START)
        first, second = plugin.events
        assert second.timeout_ns < first.timeout_ns == NEW.request_timeout_ms * 1_000_000


async def test_reconnected_plugin_is_called_by_dedicated_rpc_again() -> None:
    async with Runtime(NEW) as runtime:
        plugin = only_state_change(SmallPlugin())
        await plugin.join(runtime)
        await runtime.dispatch(EventKind.StartContainer, START)
        plugin.connected.close()
        await runtime.wait_for(lambda: bool(runtime.former))
        again = SmallPlugin()
        await again.join(runtime)
        await runtime.dispatch(EventKind.StartContainer, START)
        assert [event.method for event in again.events] == ["StartContainer"]


# -- stored requests ----------------------------------------------------------------------------


async def test_stored_request_is_sent_unchanged_to_the_selected_plugin() -> None:
    async with Runtime(OLD) as runtime:
        first, second = SmallPlugin("10-a"), SmallPlugin("20-b")
        await joined(runtime, first, second)
        # The fields are not in the order in which serializers write them.
        container = api.StartContainerRequest(container=CONTAINER).SerializeToString()
        odd = container + api.StartContainerRequest(pod=POD).SerializeToString()
        (answer,) = await runtime.send_to("20-b", "StartContainer", odd, timeout_ns=123_456_789)
        assert (answer.plugin, answer.method, answer.error) == ("20-b", "StartContainer", None)
        (sent,) = second.events
        assert (sent.method, sent.payload, sent.timeout_ns) == ("StartContainer", odd, 123_456_789)
        assert not first.events


async def test_stored_request_is_sent_to_subscribers_only() -> None:
    async with Runtime(OLD) as runtime:
        plugin = SmallPlugin(mask=EventKind.StartContainer.bit)
        await plugin.join(runtime)
        start = api.StateChangeEvent(event=api.START_CONTAINER).SerializeToString()
        stop_pod = api.StateChangeEvent(event=api.STOP_POD_SANDBOX).SerializeToString()
        assert len(await runtime.send("StateChange", start)) == 1
        assert len(await runtime.send("StateChange", stop_pod)) == 0
        assert len(await runtime.send("CreateContainer", b"")) == 0


@pytest.mark.parametrize(
    ("method", "payload"),
    [("CheckpointContainer", b"\x08\x01"), ("StateChange", b"\x08\x63"), ("StateChange", b"\xff")],
    ids=["unknown method", "unknown event", "undecodable"],
)
async def test_unknown_request_is_sent_to_every_plugin(method: str, payload: bytes) -> None:
    async with Runtime(OLD) as runtime:
        plugin = SmallPlugin(mask=EventKind.CreateContainer.bit)
        await plugin.join(runtime)
        (answer,) = await runtime.send(method, payload)
        assert answer.error is None
        (sent,) = plugin.events
        assert (sent.method, sent.payload) == (method, payload)


async def test_undecodable_request_cannot_fall_back() -> None:
    async with Runtime(NEW) as runtime:
        plugin = only_state_change(SmallPlugin())
        await plugin.join(runtime)
        (answer,) = await runtime.send("StartContainer", b"\xff")
        assert isinstance(answer.error, LocalProtocolError)
        assert len(runtime.plugins) == 1


# -- unsolicited updates ------------------------------------------------------------------------

UPDATE = api.UpdateContainersRequest(update=[api.ContainerUpdate(container_id="container")])


async def test_update_containers_without_a_hook_has_no_failures() -> None:
    async with Runtime(NEW) as runtime:
        plugin = SmallPlugin()
        await plugin.join(runtime)
        assert await plugin.update_containers(UPDATE) == api.UpdateContainersResponse()


async def test_update_containers_is_answered_by_the_hook() -> None:
    requests_received: list[tuple[str, api.UpdateContainersRequest]] = []

    def hook(plugin: Plugin, request: api.UpdateContainersRequest) -> api.UpdateContainersResponse:
        requests_received.append((plugin.id, request))
        if len(requests_received) == 2:
            raise RpcError(Code.UNAVAILABLE, "enough")
        if len(requests_received) == 3:
            failed = [api.ContainerUpdate(container_id="x" * (5 << 20))]
            return api.UpdateContainersResponse(failed=failed)
        return api.UpdateContainersResponse(failed=request.update)

    async with Runtime(NEW, on_update=hook) as runtime:
        plugin = SmallPlugin()
        await plugin.join(runtime)
        reply = await plugin.update_containers(UPDATE)
        assert list(reply.failed) == list(UPDATE.update)
        with pytest.raises(RpcError, match="enough"):
            await plugin.update_containers(UPDATE)
        with pytest.raises(RpcError, match="exceeds the limit"):
            await plugin.update_containers(UPDATE)
    assert requests_received == [("10-small", UPDATE)] * 3


async def test_update_containers_inside_a_handler_deadlocks() -> None:
    """Check the deadlock of real runtimes, which use one lock for both."""
    async with Runtime(HURRIED) as runtime:
        plugin = SmallPlugin()
        updates: list[asyncio.Task[api.UpdateContainersResponse]] = []

        def handle(request: RequestReceived) -> Reply:
            updates.append(asyncio.create_task(plugin.update_containers(UPDATE)))
            updates[0].add_done_callback(lambda _: plugin.answer(request, b""))
            return None

        plugin.on["StartContainer"] = handle
        await plugin.join(runtime)
        (answer,) = await runtime.dispatch(EventKind.StartContainer, START)
        assert isinstance(answer.error, DeadlineExceeded)
        with pytest.raises(ConnectionClosed):
            await updates[0]
