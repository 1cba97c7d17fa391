# SPDX-License-Identifier: Apache-2.0
"""Operations: merging, conflicts, validation and errors."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import ConnectionClosed, RpcError
from nri_scope.nri.events import PASSIVE_EVENTS, EventKind
from nri_scope.nri.merging import CreationMerging, IsuladCreation, UpdateMerging
from nri_scope.nri.request_subject import decode_request
from nri_scope.runtime import PROFILES, Answer, Profile
from nri_scope.wire import RequestReceived
from tests.runtime_emulation.container_requests import (
    CONTAINER,
    CREATE,
    POD,
    START,
    joined,
    request_of,
)
from tests.runtime_emulation.runtime import Runtime

from .profiles import patient
from .scripts import plugin as plugin_program
from .small_plugin import Handler, Reply, SmallPlugin

NEW = patient("containerd-2.3")
OLD = patient("containerd-1.7")
CRI_O = patient("cri-o")
ISULAD = patient("isulad")
EVERYTHING = [patient(name) for name in PROFILES]
BOOM = RpcError(2, "boom")
BOOM_IN_GO = "rpc error: code = Unknown desc = boom"
CREATION_FAILED = (
    "failed to create containerd container: failed to get NRI adjustment for container: "
)
STOP = api.StopContainerRequest(pod=POD, container=CONTAINER)
UPDATE = api.UpdateContainerRequest(pod=POD, container=CONTAINER)
UPDATE.linux_resources.cpu.shares.value = 100


def answering(plugin: str, mask: int = 0, /, **replies: Reply | Handler) -> SmallPlugin:
    """Return a plugin with these replies by method."""
    small = SmallPlugin(plugin, mask)
    for method, reply in replies.items():
        small.on[method] = reply if callable(reply) else _always(reply)
    return small


def _always(reply: Reply) -> Handler:
    return lambda request: reply


def annotating(key: str, value: str = "x") -> api.CreateContainerResponse:
    return api.CreateContainerResponse(adjust=api.ContainerAdjustment(annotations={key: value}))


def with_shares(shares: int, container: str = "other") -> list[api.ContainerUpdate]:
    update = api.ContainerUpdate(container_id=container)
    update.linux.resources.cpu.shares.value = shares
    return [update]


# -- the chain ------------------------------------------------------------------------------------


async def test_each_plugin_receives_earlier_plugins_adjustments() -> None:
    async with Runtime(NEW) as runtime:
        plugins = [
            answering(f"{number}0-p", NEW.mask, CreateContainer=annotating(f"key-{number}"))
            for number in (1, 2, 3)
        ]
        await joined(runtime, *plugins)
        outcome = await runtime.operate(EventKind.CreateContainer, CREATE)
        seen = [plugin.messages("CreateContainer")[0] for plugin in plugins]
        assert [sent_request(answer) for answer in outcome.answers] == seen
        assert [set(one.container.annotations) for one in seen] == [  # type: ignore[attr-defined]
            set(), {"key-1"}, {"key-1", "key-2"},
        ]  # fmt: skip
        assert isinstance(outcome.merged, CreationMerging)
        assert set(outcome.merged.adjustment.annotations) == {"key-1", "key-2", "key-3"}
        assert (outcome.failure, outcome.error, outcome.culprit) == ("", "", "")
    assert api.CreateContainerRequest(pod=POD, container=CONTAINER) == CREATE


async def test_each_plugin_receives_earlier_plugins_updates() -> None:
    async with Runtime(NEW) as runtime:
        mine = with_shares(300, CONTAINER.id)
        first = answering("10-a", UpdateContainer=api.UpdateContainerResponse(update=mine))
        second = SmallPlugin("20-b")
        await joined(runtime, first, second)
        outcome = await runtime.operate(EventKind.UpdateContainer, UPDATE)
        assert [
            one.linux_resources.cpu.shares.value  # type: ignore[attr-defined]
            for plugin in (first, second)
            for one in plugin.messages("UpdateContainer")
        ] == [100, 300]
        assert isinstance(outcome.merged, UpdateMerging)
        assert outcome.merged.resources.cpu.shares.value == 300
        assert outcome.updates == []


@pytest.mark.parametrize(
    ("event", "reply"),
    [
        (EventKind.CreateContainer, api.CreateContainerResponse(update=with_shares(7))),
        (EventKind.UpdateContainer, api.UpdateContainerResponse(update=with_shares(7))),
        (EventKind.StopContainer, api.StopContainerResponse(update=with_shares(7))),
    ],
    ids=lambda one: one.name if isinstance(one, EventKind) else "",
)
async def test_updates_of_other_containers_are_in_the_outcome(
    event: EventKind, reply: Reply
) -> None:
    async with Runtime(NEW) as runtime:
        await joined(runtime, answering("10-a", **{event.name: reply}))
        outcome = await runtime.operate(event, request_of(event))
        (update,) = outcome.updates
        assert (update.container_id, update.linux.resources.cpu.shares.value) == ("other", 7)


@pytest.mark.parametrize("profile", EVERYTHING, ids=lambda profile: profile.name)
async def test_every_event_is_sent_by_the_profile_s_rpc(profile: Profile) -> None:
    async with Runtime(profile) as runtime:
        plugin = SmallPlugin()
        await plugin.join(runtime)
        for event in sorted(PASSIVE_EVENTS):
            outcome = await runtime.operate(event, request_of(event))
            assert (
                bool(outcome.skipped) == bool(profile.skip_reason(event)) == (not outcome.answers)
            )
            # iSulad dies of any update.
            dies = profile.name == "isulad" and event is EventKind.UpdateContainer
            assert bool(outcome.failure) == outcome.killed == dies
        methods = {request.method for request in plugin.events}
        assert ("StateChange" in methods) != profile.dedicated_rpcs


async def test_container_has_the_state_that_the_runtime_sends() -> None:
    async with Runtime(CRI_O) as runtime:
        plugin = SmallPlugin()
        await plugin.join(runtime)
        await runtime.operate(EventKind.StopContainer, STOP)
        (seen,) = plugin.messages("StopContainer")
        assert seen.container.state == api.ContainerState.CONTAINER_STOPPED  # type: ignore[attr-defined]


async def test_deadline_is_the_profile_s_unless_overridden() -> None:
    async with Runtime(NEW) as runtime:
        plugin = SmallPlugin()
        await plugin.join(runtime)
        await runtime.operate(EventKind.StartContainer, START)
        outcome = await runtime.operate(EventKind.StartContainer, START, timeout_ns=50_000_000_000)
        assert [request.timeout_ns for request in plugin.events] == [
            60_000_000_000, 50_000_000_000,
        ]  # fmt: skip
        assert outcome.answers[0].timeout_ns == 50_000_000_000


# -- errors ---------------------------------------------------------------------------------------

CONTAINERD_FAILS = {
    EventKind.RunPodSandbox: "NRI RunPodSandbox failed: ",
    EventKind.UpdatePodSandbox: "NRI sandbox update failed: ",
    EventKind.CreateContainer: CREATION_FAILED,
    EventKind.StartContainer: "NRI container start failed: ",
    EventKind.UpdateContainer: "NRI container update failed: ",
}
CRI_O_FAILS = dict.fromkeys(
    (
        EventKind.RunPodSandbox,
        EventKind.StopPodSandbox,
        EventKind.UpdatePodSandbox,
        EventKind.CreateContainer,
        EventKind.UpdateContainer,
    ),
    "",
)


@pytest.mark.parametrize(
    ("profile", "failing", "event"),
    [
        pytest.param(profile, failing, event, id=f"{event.name}-{profile.name}")
        for profile, failing in ((NEW, CONTAINERD_FAILS), (CRI_O, CRI_O_FAILS))
        for event in sorted(PASSIVE_EVENTS)
        if not profile.skip_reason(event)
    ],
)
async def test_error_stops_the_chain_and_fails_the_request_or_is_logged(
    profile: Profile, failing: dict[EventKind, str], event: EventKind
) -> None:
    async with Runtime(profile) as runtime:
        second = SmallPlugin("20-b")
        await joined(runtime, answering("10-a", **{event.name: BOOM}), second)
        outcome = await runtime.operate(event, request_of(event))
        assert [answer.plugin for answer in outcome.answers] == ["10-a"]
        assert not second.events and len(runtime.plugins) == 2
        assert outcome.culprit == "10-a" and not outcome.refused
        if event in failing:
            assert (outcome.failure, outcome.error) == (failing[event] + BOOM_IN_GO, "")
        else:
            assert (outcome.failure, outcome.error) == ("", BOOM_IN_GO)


async def test_failed_operation_has_no_updates() -> None:
    async with Runtime(NEW) as runtime:
        first = api.CreateContainerResponse(update=with_shares(7))
        await joined(
            runtime,
            answering("10-a", CreateContainer=first),
            answering("20-b", CreateContainer=BOOM),
        )
        outcome = await runtime.operate(EventKind.CreateContainer, CREATE)
        assert outcome.failure and outcome.updates == []


async def test_plugin_lost_during_an_operation_does_not_fail_it() -> None:
    async with Runtime(NEW) as runtime:
        lost, last = (
            SmallPlugin("10-lost", NEW.mask & 0x1FFF),
            answering("20-last", NEW.mask & 0x1FFF, CreateContainer=annotating("key")),
        )
        lost.on["CreateContainer"] = lambda request: lost.connected.abort()
        await joined(runtime, lost, last)
        outcome = await runtime.operate(EventKind.CreateContainer, CREATE)
        assert [answer.dropped for answer in outcome.answers] == [True, False]
        assert (outcome.failure, outcome.error) == ("", "")
        assert isinstance(outcome.merged, CreationMerging)
        assert set(outcome.merged.adjustment.annotations) == {"key"}


async def test_conflict_fails_the_creation_with_the_runtime_s_message() -> None:
    async with Runtime(NEW) as runtime:
        plugins = [
            answering(f"{number}0-p", CreateContainer=annotating("key")) for number in (1, 2, 3)
        ]
        await joined(runtime, *plugins)
        outcome = await runtime.operate(EventKind.CreateContainer, CREATE)
        assert outcome.failure.startswith(CREATION_FAILED)
        assert '"20-p" and "10-p" both tried to set' in outcome.failure
        assert (outcome.culprit, outcome.refused) == ("20-p", True)
        assert not plugins[2].events and not outcome.validations


async def test_evictions_and_unknown_fields_are_dropped() -> None:
    async with Runtime(OLD) as runtime:
        reply = api.CreateContainerResponse(evict=[api.ContainerEviction(container_id="other")])
        reply.adjust.linux.oom_score_adj.value = 5
        await joined(runtime, answering("10-a", CreateContainer=reply))
        outcome = await runtime.operate(EventKind.CreateContainer, CREATE)
        assert {(one.plugin, one.path) for one in outcome.dropped} == {
            ("10-a", "/evict"), ("10-a", "/process/oomScoreAdj"),
        }  # fmt: skip


# -- validation -----------------------------------------------------------------------------------

VALIDATE = EventKind.ValidateContainerAdjustment
CREATE_BIT = EventKind.CreateContainer.bit


async def test_validators_receive_the_merged_adjustment_its_owners_and_all_plugins() -> None:
    async with Runtime(NEW) as runtime:
        adjusting = answering("20-b", CREATE_BIT, CreateContainer=annotating("key"))
        uninterested = SmallPlugin("30-c", EventKind.StartContainer.bit)
        validator = SmallPlugin("10-a", VALIDATE.bit)
        await joined(runtime, adjusting, uninterested, validator)
        outcome = await runtime.operate(EventKind.CreateContainer, CREATE)
        assert [answer.plugin for answer in outcome.validations] == ["10-a"]
        (seen,) = validator.messages("ValidateContainerAdjustment")
        assert isinstance(seen, api.ValidateContainerAdjustmentRequest)
        assert sent_request(outcome.validations[0]) == seen
        assert [(one.index, one.name) for one in seen.plugins] == [
            ("10", "a"), ("20", "b"), ("30", "c"),
        ]  # fmt: skip
        assert seen.adjust.annotations == {"key": "x"}
        assert not seen.container.annotations
        owners = seen.owners.owners[CONTAINER.id].compound[api.Annotations].owners
        assert owners == {"key": "20-b"}
        assert not outcome.failure


async def test_validators_are_called_concurrently() -> None:
    async with Runtime(NEW) as runtime:
        first, second = SmallPlugin("10-a"), SmallPlugin("20-b")
        waiting: list[RequestReceived] = []

        def second_answers_both(request: RequestReceived) -> Reply:
            # The first validator answers only after the second one was asked.
            first.answer(waiting[0], b"")
            return b""

        first.on["ValidateContainerAdjustment"] = lambda request: waiting.append(request)
        second.on["ValidateContainerAdjustment"] = second_answers_both
        await joined(runtime, first, second)
        outcome = await runtime.operate(EventKind.CreateContainer, CREATE)
        assert [answer.error for answer in outcome.validations] == [None, None]


async def test_rejection_fails_the_creation() -> None:
    rejection = api.ValidateContainerAdjustmentResponse(reject=True)
    reasoned = api.ValidateContainerAdjustmentResponse(reject=True, reason="too much")
    for profile, reply, words in (
        (NEW, reasoned, f'{CREATION_FAILED}validator "10-a" rejected container adjustment, '
         "reason: too much"),
        (CRI_O, rejection, 'validator "10-a" rejected container adjustment, '
         "reason: unknown rejection reason"),
    ):  # fmt: skip
        async with Runtime(profile) as runtime:
            await joined(runtime, answering("10-a", ValidateContainerAdjustment=reply))
            outcome = await runtime.operate(EventKind.CreateContainer, CREATE)
            assert outcome.failure == words
            assert (outcome.culprit, outcome.refused) == ("10-a", True)


async def test_validator_fails_closed() -> None:
    """Check that no container is created if a validator errs, is late or disconnects."""
    hurried = replace(NEW, request_timeout_ms=200)

    def vanish(plugin: SmallPlugin) -> Handler:
        return lambda request: plugin.connected.abort()

    for kind, words in (
        ("errs", BOOM_IN_GO),
        ("is late", "context deadline exceeded"),
        ("vanishes", "ttrpc: closed"),
        ("vanishes before", "ttrpc: closed"),
    ):
        async with Runtime(hurried) as runtime:
            validator = SmallPlugin("10-a")
            match kind:
                case "errs":
                    validator.on[VALIDATE.name] = _always(BOOM)
                case "is late":
                    validator.on[VALIDATE.name] = _always(None)
                case "vanishes":
                    validator.on[VALIDATE.name] = vanish(validator)
                case _:
                    validator.on["CreateContainer"] = vanish(validator)
            await joined(runtime, validator, SmallPlugin("20-b"))
            outcome = await runtime.operate(EventKind.CreateContainer, CREATE)
            assert outcome.failure == f"{CREATION_FAILED}validator plugin 10-a failed: {words}"
            assert len(runtime.plugins) == (2 if kind == "errs" else 1)


async def test_validator_lost_in_the_chain_is_left_out_from_nri_0_12_5_on() -> None:
    async with Runtime(replace(NEW, nri_version="0.12.5")) as runtime:
        lost, other = SmallPlugin("10-lost"), SmallPlugin("20-other")
        lost.on["CreateContainer"] = lambda request: lost.connected.abort()
        await joined(runtime, lost, other)
        outcome = await runtime.operate(EventKind.CreateContainer, CREATE)
        assert [answer.plugin for answer in outcome.validations] == ["20-other"]
        assert not outcome.failure


async def test_validation_is_sent_only_with_create_container_since_nri_0_10() -> None:
    async with Runtime(NEW) as runtime:
        validator = SmallPlugin()
        await validator.join(runtime)
        outcome = await runtime.operate(VALIDATE, request_of(VALIDATE))
        assert "part of CreateContainer" in outcome.skipped and not validator.events
    async with Runtime(OLD) as runtime:
        await validator.join(runtime)
        outcome = await runtime.operate(EventKind.CreateContainer, CREATE)
        assert not outcome.validations


# -- iSulad ---------------------------------------------------------------------------------------


async def test_isulad_disconnects_a_failing_plugin_and_continues() -> None:
    async with Runtime(ISULAD) as runtime:
        failing, next_one = answering("10-a", CreateContainer=BOOM), SmallPlugin("20-b")
        await joined(runtime, failing, next_one)
        outcome = await runtime.operate(EventKind.CreateContainer, CREATE)
        assert [(one.plugin, one.dropped) for one in outcome.answers] == [
            ("10-a", True), ("20-b", False),
        ]  # fmt: skip
        assert (outcome.failure, outcome.error) == ("", "")
        await failing.connected.wait_closed()
        assert [plugin.id for plugin in runtime.plugins] == ["20-b"]
        await runtime.wait_for(lambda: bool(runtime.former))
        assert "closes the connection on any error" in runtime.former[0].end_reason


async def test_isulad_hides_earlier_adjustments() -> None:
    async with Runtime(ISULAD) as runtime:
        plugins = [
            answering("10-a", CreateContainer=annotating("first")),
            answering("30-c", CreateContainer=annotating("key")),
        ]
        await joined(runtime, *plugins)
        outcome = await runtime.operate(EventKind.CreateContainer, CREATE)
    (first, second) = (plugin.messages("CreateContainer")[0] for plugin in plugins)
    assert first == second
    assert not first.container.id  # type: ignore[attr-defined]
    assert isinstance(outcome.merged, IsuladCreation) and not outcome.failure
    assert outcome.merged.adjustment.annotations == {"first": "x", "key": "x"}


def updating() -> api.CreateContainerResponse:
    reply = annotating("key")
    reply.update.add(container_id="other")
    return reply


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (updating(), "this would kill iSulad 2.1: it crashes on an update"),
        (api.CreateContainerResponse(), "this reply would kill iSulad 2.1: it aborts"),
    ],
)
async def test_a_reply_that_would_kill_isulad_fails_the_creation(
    reply: api.CreateContainerResponse, words: str
) -> None:
    async with Runtime(ISULAD) as runtime:
        last = SmallPlugin("20-b")
        await joined(runtime, answering("10-a", CreateContainer=reply), last)
        outcome = await runtime.operate(EventKind.CreateContainer, CREATE)
    assert outcome.failure.startswith(words)
    assert (outcome.culprit, outcome.refused) == ("10-a", True)
    assert not last.messages("CreateContainer")


async def test_isulad_fails_a_creation_with_an_environment_variable_after_the_chain() -> None:
    reply = api.CreateContainerResponse()
    reply.adjust.env.add(key="A", value="1")
    async with Runtime(ISULAD) as runtime:
        last = answering("20-b", CreateContainer=annotating("key"))
        await joined(runtime, answering("10-a", CreateContainer=reply), last)
        outcome = await runtime.operate(EventKind.CreateContainer, CREATE)
    assert "sets an environment variable" in outcome.failure
    assert outcome.culprit == "10-a"
    assert last.messages("CreateContainer")


async def test_isulad_calls_plugins_in_order_of_names() -> None:
    order: list[str] = []

    def remember(plugin: SmallPlugin) -> SmallPlugin:
        def handle(request: RequestReceived) -> Reply:
            order.append(plugin.name)
            return b""

        plugin.on["StateChange"] = handle
        return plugin

    async with Runtime(ISULAD) as runtime:
        await joined(runtime, remember(SmallPlugin("10-zebra")), remember(SmallPlugin("20-ant")))
        await runtime.operate(EventKind.StartContainer, START)
    assert order == ["ant", "zebra"]


async def test_operations_are_serial() -> None:
    order: list[str] = []

    def handle(request: RequestReceived) -> Reply:
        order.append(request.method)
        asyncio.get_running_loop().call_soon(plugin.answer, request, b"")
        return None

    async with Runtime(NEW) as runtime:
        plugin = SmallPlugin()
        for method in ("CreateContainer", "ValidateContainerAdjustment", "StartContainer"):
            plugin.on[method] = handle
        await plugin.join(runtime)
        await asyncio.gather(
            runtime.operate(EventKind.CreateContainer, CREATE),
            runtime.operate(EventKind.StartContainer, START),
        )
    assert order == ["CreateContainer", "ValidateContainerAdjustment", "StartContainer"]


# -- requests sent --------------------------------------------------------------------------------


def sent_request(answer: Answer) -> Message | None:
    """Return the request that was sent; None if its method is unknown or it is malformed."""
    return decode_request(answer.method, answer.sent).message


async def test_answer_contains_the_request_actually_sent() -> None:
    """Check that the answer of an older plugin contains the StateChange sent to it."""
    async with Runtime(NEW) as runtime:
        older = answering("10-older", StartContainer=RpcError(12, "unknown method"))
        await joined(runtime, older, SmallPlugin("20-newer"))
        outcome = await runtime.operate(EventKind.StartContainer, START)
        first, second = outcome.answers
        assert isinstance(sent_request(first), api.StateChangeEvent)
        request = sent_request(second)
        assert isinstance(request, api.StartContainerRequest)
        assert [first.sent, second.sent] == [
            older.events[-1].payload,
            request.SerializeToString(),
        ]
        (unknown,) = await runtime.send_to("10-older", "Other", b"\xff")
        (rubbish,) = await runtime.send_to("20-newer", "StartContainer", b"\xff")
        assert (sent_request(unknown), sent_request(rubbish)) == (None, None)
        assert (unknown.sent, rubbish.sent) == (b"\xff", b"\xff")


async def test_plugin_that_exits_before_its_turn_never_becomes_ready() -> None:
    """Check a launched plugin on NRI 0.6, which gets no Synchronize."""
    ready: list[str] = []
    command = plugin_program(registered="await plugin.arrived.wait(); os._exit(3)")
    async with Runtime(OLD, on_ready=lambda plugin: ready.append(plugin.id)) as runtime:
        first = SmallPlugin("10-first")
        first.on["StateChange"] = lambda request: None
        await first.join(runtime)
        operation = asyncio.create_task(runtime.operate(EventKind.StartContainer, START))
        while not first.events:
            first.arrived.clear()
            await first.arrived.wait()
        launching = asyncio.create_task(runtime.launch_command(command, "20", "second"))
        await runtime.wait_for(lambda: bool(runtime.former))
        first.answer(first.events[0], b"")
        await operation
        with pytest.raises(ConnectionClosed, match="exit status 3"):
            await launching
        assert ready == ["10-first"]
        assert [plugin.id for plugin in runtime.plugins] == ["10-first"]
