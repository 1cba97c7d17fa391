# SPDX-License-Identifier: Apache-2.0
"""Plugins with handlers, against the emulated runtime over real sockets."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import time
from collections.abc import Sequence
from dataclasses import replace

import pytest
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from nri_scope._gen.nri import api_pb2 as api
from nri_scope._gen.nri.api_pb2 import (
    Container,
    ContainerAdjustment,
    ContainerUpdate,
    LinuxResources,
    PodSandbox,
    ValidateContainerAdjustmentRequest,
)
from nri_scope.errors import ConnectionClosed, RpcError, UsageError
from nri_scope.nri.events import METHODS, PLUGIN_SERVICE, EventKind, events_in
from nri_scope.plugin import Identity, RuntimeHandle, inherited, serve
from nri_scope.plugin.serving import EVENT_HANDLERS, HandlerSession
from nri_scope.runtime import Answer, Profile
from nri_scope.runtime import Plugin as RuntimePlugin
from nri_scope.wire import RequestReceived
from tests.plugin_builders import adjust, evict, update
from tests.runtime_emulation.runtime import Runtime

from .attached import NEW, OLD, SPLITTING, attached

POD = PodSandbox(id="p1", name="web", namespace="shop", annotations={"note": "hi"})
APP = Container(id="c1", pod_sandbox_id="p1", name="app")


def request_of(event: EventKind) -> Message:
    message = METHODS[event.name].request()
    message.MergeFrom(
        type(message).FromString(api.CreateContainerRequest(pod=POD).SerializeToString())
    )
    if "container" in message.DESCRIPTOR.fields_by_name:
        getattr(message, "container").CopyFrom(APP)  # noqa: B009 - of many types
    return message


class RecordingPlugin:
    """Plugin that records every call."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[object, ...]]] = []

    def configure(self, config: str, runtime: RuntimeHandle) -> None:
        self.runtime = runtime
        self._note("configure", config)

    def synchronize(self, pods: Sequence[PodSandbox], containers: Sequence[Container]) -> None:
        self._note("synchronize", len(pods), len(containers))

    def run_pod_sandbox(self, pod: PodSandbox) -> None:
        self._note("run_pod_sandbox", pod)

    def update_pod_sandbox(
        self, pod: PodSandbox, overhead: LinuxResources, resources: LinuxResources
    ) -> None:
        self._note("update_pod_sandbox", pod, overhead, resources)

    def post_update_pod_sandbox(self, pod: PodSandbox) -> None:
        self._note("post_update_pod_sandbox", pod)

    def stop_pod_sandbox(self, pod: PodSandbox) -> None:
        self._note("stop_pod_sandbox", pod)

    def remove_pod_sandbox(self, pod: PodSandbox) -> None:
        self._note("remove_pod_sandbox", pod)

    def create_container(self, pod: PodSandbox, container: Container) -> None:
        self._note("create_container", pod, container)

    def post_create_container(self, pod: PodSandbox, container: Container) -> None:
        self._note("post_create_container", pod, container)

    def start_container(self, pod: PodSandbox, container: Container) -> None:
        self._note("start_container", pod, container)

    def post_start_container(self, pod: PodSandbox, container: Container) -> None:
        self._note("post_start_container", pod, container)

    def update_container(
        self, pod: PodSandbox, container: Container, resources: LinuxResources
    ) -> None:
        self._note("update_container", pod, container, resources)

    def post_update_container(self, pod: PodSandbox, container: Container) -> None:
        self._note("post_update_container", pod, container)

    def stop_container(self, pod: PodSandbox, container: Container) -> None:
        self._note("stop_container", pod, container)

    def remove_container(self, pod: PodSandbox, container: Container) -> None:
        self._note("remove_container", pod, container)

    def validate_container_adjustment(self, request: ValidateContainerAdjustmentRequest) -> None:
        self._note("validate_container_adjustment", request)

    def shutdown(self) -> None:
        self._note("shutdown")

    def closed(self, reason: str) -> None:
        self._note("closed", reason)

    def _note(self, name: str, *arguments: object) -> None:
        self.calls.append((name, arguments))


@pytest.mark.parametrize("profile", [OLD, SPLITTING, NEW], ids=lambda profile: str(profile.name))
async def test_each_event_reaches_its_handler_by_any_rpc(profile: Profile) -> None:
    plugin = RecordingPlugin()
    async with Runtime(profile) as runtime:
        async with attached(runtime, plugin) as (taken, _):
            assert taken.mask == profile.mask
            assert [name for name, _ in plugin.calls] == ["configure", "synchronize"]
            assert plugin.runtime.name == profile.runtime_name
            del plugin.calls[:]
            for event in events_in(profile.mask):
                (answer,) = await runtime.dispatch(event, request_of(event))
                assert answer.error is None
                name, arguments = plugin.calls.pop()
                assert name == EVENT_HANDLERS[event]
                if event is EventKind.ValidateContainerAdjustment:
                    assert arguments == (request_of(event),)
                    continue
                assert arguments[0] == POD
                assert event.is_pod_event or arguments[1] == APP
            await runtime.send("Shutdown", b"")
    assert [name for name, _ in plugin.calls] == ["shutdown", "closed"]
    assert plugin.calls[-1][1] == ("closed by the runtime",)


async def test_update_handlers_receive_the_requested_resources() -> None:
    plugin = RecordingPlugin()
    shares = LinuxResources(cpu=api.LinuxCPU(shares=api.OptionalUInt64(value=512)))
    one = LinuxResources(pids=api.LinuxPids(limit=1))
    async with Runtime(NEW) as runtime, attached(runtime, plugin):
        await runtime.dispatch(
            EventKind.UpdateContainer,
            api.UpdateContainerRequest(pod=POD, container=APP, linux_resources=shares),
        )
        await runtime.dispatch(
            EventKind.UpdatePodSandbox,
            api.UpdatePodSandboxRequest(
                pod=POD, overhead_linux_resources=one, linux_resources=shares
            ),
        )
        assert plugin.calls[-2:] == [
            ("update_container", (POD, APP, shares)),
            ("update_pod_sandbox", (POD, one, shares)),
        ]


class Returning:
    """Plugin whose handlers return a value set by the test."""

    def __init__(self, answer: object = None) -> None:
        self.answer = answer

    def create_container(self, pod: PodSandbox, container: Container) -> object:
        return self._return()

    def update_container(
        self, pod: PodSandbox, container: Container, resources: LinuxResources
    ) -> object:
        return self._return()

    def stop_container(self, pod: PodSandbox, container: Container) -> object:
        return self._return()

    def start_container(self, pod: PodSandbox, container: Container) -> object:
        return self._return()

    def validate_container_adjustment(self, request: ValidateContainerAdjustmentRequest) -> object:
        return self._return()

    def _return(self) -> object:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class ReturningAsync:
    """The same plugin with async handlers."""

    def __init__(self, answer: object = None) -> None:
        self.answer = answer

    async def create_container(self, pod: PodSandbox, container: Container) -> object:
        await asyncio.sleep(0)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


async def answer_of(plugin: object, event: EventKind) -> Answer:
    async with Runtime(NEW) as runtime, attached(runtime, plugin):
        (answer,) = await runtime.dispatch(event, request_of(event))
        # The session continues in any case.
        assert len(runtime.plugins) == 1
    return answer


ENV = adjust(env={"TZ": "UTC"})
UPDATE = update("other", cpu={"shares": 2})
NO_ADJUSTMENT = ContainerAdjustment()
EVICTION = evict("other", "noisy")


@pytest.mark.parametrize("kind", [Returning, ReturningAsync])
@pytest.mark.parametrize(
    ("returned", "reply"),
    [
        (None, api.CreateContainerResponse(adjust=NO_ADJUSTMENT)),
        ([], api.CreateContainerResponse(adjust=NO_ADJUSTMENT)),
        (ENV, api.CreateContainerResponse(adjust=ENV)),
        (UPDATE, api.CreateContainerResponse(adjust=NO_ADJUSTMENT, update=[UPDATE])),
        ([UPDATE], api.CreateContainerResponse(adjust=NO_ADJUSTMENT, update=[UPDATE])),
        (
            api.CreateContainerResponse(update=[UPDATE], evict=[EVICTION]),
            api.CreateContainerResponse(adjust=NO_ADJUSTMENT, update=[UPDATE], evict=[EVICTION]),
        ),
    ],
)
async def test_return_value_of_create_container_is_the_reply(
    kind: type[Returning | ReturningAsync], returned: object, reply: Message
) -> None:
    assert (await answer_of(kind(returned), EventKind.CreateContainer)).reply == reply


@pytest.mark.parametrize(
    ("event", "returned", "reply"),
    [
        (
            EventKind.UpdateContainer,
            api.UpdateContainerResponse(update=[UPDATE], evict=[EVICTION]),
            api.UpdateContainerResponse(update=[UPDATE], evict=[EVICTION]),
        ),
        (EventKind.StopContainer, UPDATE, api.StopContainerResponse(update=[UPDATE])),
        (EventKind.StopContainer, (UPDATE, UPDATE), api.StopContainerResponse(update=[UPDATE] * 2)),
        (EventKind.StartContainer, None, api.StartContainerResponse()),
        (
            EventKind.ValidateContainerAdjustment,
            None,
            api.ValidateContainerAdjustmentResponse(reject=False),
        ),
        (
            EventKind.ValidateContainerAdjustment,
            "no such",
            api.ValidateContainerAdjustmentResponse(reject=True, reason="no such"),
        ),
    ],
)
async def test_return_values_of_other_handlers_are_the_replies(
    event: EventKind, returned: object, reply: Message
) -> None:
    assert (await answer_of(Returning(returned), event)).reply == reply


@pytest.mark.parametrize(
    ("event", "returned", "words"),
    [
        (EventKind.CreateContainer, 5, "TypeError: "),
        (EventKind.CreateContainer, "yes", 'CreateContainerResponse has no "reject" field'),
        (EventKind.CreateContainer, [ENV], "TypeError: "),
        (EventKind.CreateContainer, [UPDATE, "A=b"], "TypeError: "),
        (EventKind.UpdateContainer, ENV, 'UpdateContainerResponse has no "adjust" field'),
        (EventKind.StopContainer, EVICTION, "TypeError: "),
        (EventKind.StartContainer, True, 'StartContainerResponse has no "update" field'),
        (EventKind.ValidateContainerAdjustment, False, 'Response has no "update" field'),
        (EventKind.CreateContainer, KeyError("FOO"), "KeyError: 'FOO'"),
        (EventKind.CreateContainer, UsageError("bad annotation", "mend it"), "annotation; mend it"),
        (EventKind.CreateContainer, RpcError(9, "not yet"), "code 9: not yet"),
    ],
)
async def test_failed_handler_is_an_error_status_and_one_log_line(
    event: EventKind, returned: object, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    error = (await answer_of(Returning(returned), event)).error
    assert isinstance(error, RpcError) and words in str(error)
    (line,) = [record.message for record in caplog.records if record.levelno == logging.ERROR]
    assert line.startswith(f"{EVENT_HANDLERS[event]} shop/web") and error.message in line


async def test_failed_async_handler_logs_its_traceback_at_debug_level(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "nri_scope.plugin")
    answer = await answer_of(ReturningAsync(ZeroDivisionError("oh")), EventKind.CreateContainer)
    assert str(answer.error) == "rpc error: code 2: ZeroDivisionError: oh"
    with_traceback = [record for record in caplog.records if record.exc_info]
    assert [one.levelno for one in with_traceback] == [logging.DEBUG]


async def test_synchronize_in_parts_is_one_call_with_its_updates_in_the_last_reply() -> None:
    calls: list[tuple[int, int]] = []

    class Plugin:
        async def synchronize(
            self, pods: Sequence[PodSandbox], containers: Sequence[Container]
        ) -> list[ContainerUpdate]:
            await asyncio.sleep(0)
            calls.append((len(pods), len(containers)))
            return [update(container.id, cpu={"shares": 2}) for container in containers[:1]]

    parts = [
        api.SynchronizeRequest(pods=[POD], containers=[APP], more=True),
        api.SynchronizeRequest(containers=[APP, APP], more=True),
        api.SynchronizeRequest(pods=[POD]),
    ]
    async with Runtime(SPLITTING) as runtime, attached(runtime, Plugin()) as (taken, _):
        calls.clear()
        replies = [
            api.SynchronizeResponse.FromString(
                await taken.call("Synchronize", part.SerializeToString(), 10**10)
            )
            for part in parts
        ]
    assert calls == [(2, 3)]
    assert [reply.more for reply in replies] == [True, True, False]
    assert [len(reply.update) for reply in replies] == [0, 0, 1]


async def test_mask_has_the_handled_events_and_is_never_empty() -> None:
    class Synchronizing:
        def synchronize(
            self, pods: Sequence[PodSandbox], containers: Sequence[Container]
        ) -> list[ContainerUpdate]:
            return []

    class Creating:
        async def create_container(
            self, pod: PodSandbox, container: Container
        ) -> ContainerAdjustment:
            return ContainerAdjustment()

    for plugin, events in [
        (Synchronizing(), (EventKind.RemovePodSandbox,)),
        (Creating(), (EventKind.CreateContainer,)),
    ]:
        async with Runtime(NEW) as runtime, attached(runtime, plugin) as (taken, _):
            assert events_in(taken.mask) == events


async def test_events_that_the_runtime_lacks_are_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with Runtime(OLD) as runtime, attached(runtime, RecordingPlugin()) as (taken, _):
        assert taken.mask == OLD.mask
    assert "has no UpdatePodSandbox, PostUpdatePodSandbox, Validate" in caplog.text


async def test_configuration_can_be_rejected() -> None:
    class Rejecting:
        def configure(self, config: str, runtime: RuntimeHandle) -> None:
            raise UsageError(f"{runtime.name} will not do")

    await _rejects_configuration(Rejecting())


async def test_configuration_can_be_rejected_asynchronously() -> None:
    class Rejecting:
        async def configure(self, config: str, runtime: RuntimeHandle) -> None:
            await asyncio.sleep(0)
            raise UsageError(f"{runtime.name} will not do")

    await _rejects_configuration(Rejecting())


async def _rejects_configuration(plugin: object) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    async with Runtime(OLD) as runtime:
        serving = asyncio.create_task(
            serve(plugin, Identity("10", "choosy"), inherited(ours.detach()))
        )
        with pytest.raises(ConnectionClosed, match="containerd will not do"):
            await runtime.adopt(theirs)
        with pytest.raises(UsageError, match="containerd will not do"):
            await serving


class Updating:
    """Plugin that requests updates, even inside a handler."""

    runtime: RuntimeHandle

    async def configure(self, config: str, runtime: RuntimeHandle) -> None:
        await asyncio.sleep(0)
        self.runtime = runtime

    async def start_container(self, pod: PodSandbox, container: Container) -> None:
        self.runtime.update_containers([UPDATE])

    def remove_container(self, pod: PodSandbox, container: Container) -> None:
        self.runtime.update_containers([UPDATE])


class Updates:
    """Updates requested from the runtime."""

    def __init__(self) -> None:
        self.requests: asyncio.Queue[api.UpdateContainersRequest] = asyncio.Queue()
        self.refuse = False

    def __call__(
        self, plugin: RuntimePlugin, request: api.UpdateContainersRequest
    ) -> api.UpdateContainersResponse:
        self.requests.put_nowait(request)
        if self.refuse:
            raise RpcError(9, "not today")
        return api.UpdateContainersResponse(failed=request.update)


UPDATE_REQUEST = api.UpdateContainersRequest(update=[UPDATE], evict=[EVICTION])


async def test_unsolicited_updates_are_sent() -> None:
    updates, plugin = Updates(), Updating()
    async with Runtime(NEW, on_update=updates) as runtime, attached(runtime, plugin):
        reply = await plugin.runtime.update_containers([UPDATE], [EVICTION])
        assert [one.container_id for one in reply.failed] == ["other"]
        assert await updates.requests.get() == UPDATE_REQUEST
        updates.refuse = True
        with pytest.raises(RpcError, match="not today"):
            await plugin.runtime.update_containers([UPDATE])


async def test_updates_of_handlers_are_sent_after_their_replies_and_failures_are_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    updates, plugin = Updates(), Updating()
    async with Runtime(NEW, on_update=updates) as runtime, attached(runtime, plugin):
        for event in (EventKind.StartContainer, EventKind.RemoveContainer):
            (answer,) = await runtime.dispatch(event, request_of(event))
            assert answer.error is None
            assert (await updates.requests.get()).update == [UPDATE]
    assert "update_containers: failed for container other" in caplog.text


async def test_running_handler_is_cancelled_when_the_connection_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Slow:
        ended = ""

        async def create_container(self, pod: PodSandbox, container: Container) -> None:
            await asyncio.Event().wait()

        async def closed(self, reason: str) -> None:
            self.ended = reason

    plugin = Slow()
    async with Runtime(replace(NEW, request_timeout_ms=500)) as runtime:
        async with attached(runtime, plugin) as (_, serving):
            (answer,) = await runtime.dispatch(
                EventKind.CreateContainer, request_of(EventKind.CreateContainer)
            )
            assert answer.dropped
            assert (await serving).synchronized
    assert plugin.ended == "closed by the runtime"
    assert (
        "create_container shop/web/app: the connection ended before the handler returned"
        in caplog.text
    )


async def test_late_answer_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    class Late:
        def create_container(self, pod: PodSandbox, container: Container) -> None:
            time.sleep(0.501)

    async with Runtime(replace(NEW, request_timeout_ms=500)) as runtime:
        async with attached(runtime, Late()):
            await runtime.dispatch(EventKind.CreateContainer, request_of(EventKind.CreateContainer))
    assert re.search(r"CreateContainer: answered after .* s, the deadline was 0.5 s", caplog.text)


async def test_unknown_method_is_unimplemented_and_undecodable_request_is_rejected() -> None:
    async with Runtime(NEW) as runtime, attached(runtime, RecordingPlugin()):
        (answer,) = await runtime.send("Unheard", b"")
        assert isinstance(answer.error, RpcError) and answer.error.code == 12
        (answer,) = await runtime.send("CreateContainer", b"\xff")
        assert isinstance(answer.error, RpcError) and answer.error.code == 3
        unknown = api.StateChangeEvent(event=99).SerializeToString()  # type: ignore[arg-type]
        (answer,) = await runtime.send("StateChange", unknown)
        assert answer.error is None


@given(st.sampled_from([*METHODS, "Unheard", ""]), st.binary(max_size=64))
def test_any_request_is_answered_or_rejected(method: str, payload: bytes) -> None:
    if method == "Configure":
        # The session itself decodes these bytes.
        return
    session = HandlerSession(RecordingPlugin(), Identity("10", "written"))
    try:
        reply = session.answer(RequestReceived(1, PLUGIN_SERVICE, method, payload, 0, ()))
    except RpcError:
        return
    METHODS[method].reply.FromString(reply)


async def test_update_after_the_session_is_logged_as_failed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    plugin = Updating()
    async with Runtime(NEW) as runtime, attached(runtime, plugin):
        pass
    with pytest.raises(ConnectionClosed):
        await plugin.runtime.update_containers([UPDATE])
    assert "update_containers: not connected to a runtime" in caplog.text
