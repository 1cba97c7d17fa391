# SPDX-License-Identifier: Apache-2.0
"""The emulated runtime reports the same errors for faulty plugins as the Go runtime."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import RpcError
from nri_scope.nri.events import METHODS, EventKind
from nri_scope.nri.runtime_setup import FailurePolicy, configure_reply
from nri_scope.runtime import EmulatedRuntime, Profile
from nri_scope.wire import Code
from tests.interop.build import Merger, Variant, build_programs
from tests.interop.reference import ReferenceRuntime
from tests.interop.traffic import container, pod, request
from tests.runtime_emulation.small_plugin import Handler, SmallPlugin

pytestmark = pytest.mark.interop

SHORT_TIMEOUT_S = 0.5
"""Request deadline of both runtimes in seconds."""

VERSION = "0.12.5"
"""NRI version of the newest reference variant."""

POLICIES = ("", "fail_request", "keep_connected", "fail_request,keep_connected")


# CRI-O adds no prefix to the library's error messages.
PROFILE = replace(
    Profile.of("test", "cri-o", "1.37.0", VERSION), request_timeout_ms=round(SHORT_TIMEOUT_S * 1000)
)


BAD: dict[str, tuple[str, Callable[[SmallPlugin], Handler]]] = {
    "error": ("CreateContainer", lambda plugin: lambda request: RpcError(Code.UNKNOWN, "boom")),
    "other code": ("StopContainer", lambda plugin: lambda request: RpcError(Code.CANCELLED, "x")),
    "logged": ("RemovePodSandbox", lambda plugin: lambda request: RpcError(8, "much")),
    "conflict": ("CreateContainer", lambda plugin: lambda request: _twice()),
    "late": ("CreateContainer", lambda plugin: lambda request: None),
    "gone": ("StartContainer", lambda plugin: lambda request: plugin.connected.abort()),
    "rejected": (
        "ValidateContainerAdjustment",
        lambda plugin: lambda request: api.ValidateContainerAdjustmentResponse(reject=True),
    ),
    "rejected for a reason": (
        "ValidateContainerAdjustment",
        lambda plugin: (
            lambda request: api.ValidateContainerAdjustmentResponse(reject=True, reason='"why"')
        ),
    ),
    "validator errs": (
        "ValidateContainerAdjustment",
        lambda plugin: lambda request: RpcError(Code.INTERNAL, "boom"),
    ),
    "validator late": ("ValidateContainerAdjustment", lambda plugin: lambda request: None),
    "validator gone": (
        "ValidateContainerAdjustment",
        lambda plugin: lambda request: plugin.connected.abort(),
    ),
}


def _twice() -> api.CreateContainerResponse:
    reply = api.CreateContainerResponse()
    for _ in range(2):
        reply.adjust.rlimits.add(type="RLIMIT_NOFILE", soft=1, hard=2)
    return reply


def bad_plugin(name: str) -> SmallPlugin:
    method, handler = BAD[name]
    plugin = SmallPlugin("10-bad")
    plugin.on[method] = handler(plugin)
    return plugin


async def reference_error(name: str, socket: Path) -> str:
    plugin = bad_plugin(name)
    async with await ReferenceRuntime.listen(
        socket, Variant.NRI_0_12, request_timeout=SHORT_TIMEOUT_S
    ) as runtime:
        await plugin.connect(socket)
        await plugin.register()
        await runtime.admit()
        played = await runtime.play(1, env=0, mounts=0, workloads=1)
        await runtime.stop()
    return "; ".join(played.errors)


async def emulated_error(name: str) -> str:
    event = EventKind[BAD[name][0]]
    if event is EventKind.ValidateContainerAdjustment:
        event = EventKind.CreateContainer
    async with EmulatedRuntime(PROFILE) as runtime:
        await bad_plugin(name).join(runtime)
        outcome = await runtime.operate(event, METHODS[event.name].request())
    return outcome.failure or outcome.error


@pytest.mark.parametrize("name", BAD)
async def test_errors_match_the_reference(name: str, tmp_path: Path) -> None:
    reference = await reference_error(name, tmp_path / "s")
    ours = await emulated_error(name)
    assert bool(ours) == bool(reference)
    assert ours in reference


async def reference_fate(name: str, policy: str, socket: Path) -> tuple[str, bool, int]:
    """Return the error of one request, whether the plugin is still connected after the next, and
    the number of requests to the plugin behind it.
    """
    plugin, behind = policy_plugin(name, policy), SmallPlugin("20-behind")
    event = EventKind[BAD[name][0]]
    async with await ReferenceRuntime.listen(
        socket, Variant.NRI_0_12, request_timeout=SHORT_TIMEOUT_S
    ) as runtime:
        for one in (plugin, behind):
            await one.connect(socket)
            await one.register()
        await runtime.admit(2)
        sent = asked_of(event)
        answer = await runtime.send(
            sent.name, request(sent, pod(1), container(1)).SerializeToString()
        )
        seen = behind.methods.count(sent.name)
        await runtime.send(
            "RunPodSandbox",
            request(EventKind.RunPodSandbox, pod(2), container(2)).SerializeToString(),
        )
        return answer.error, "RunPodSandbox" in plugin.methods, seen


async def emulated_fate(name: str, policy: str) -> tuple[str, bool, int]:
    plugin, behind = policy_plugin(name, policy), SmallPlugin("20-behind")
    sent = asked_of(EventKind[BAD[name][0]])
    async with EmulatedRuntime(PROFILE) as runtime:
        await plugin.join(runtime)
        await behind.join(runtime)
        outcome = await runtime.operate(sent, request(sent, pod(1), container(1)))
        seen = behind.methods.count(sent.name)
        await runtime.operate(
            EventKind.RunPodSandbox, request(EventKind.RunPodSandbox, pod(2), container(2))
        )
        return outcome.failure or outcome.error, "RunPodSandbox" in plugin.methods, seen


def asked_of(event: EventKind) -> EventKind:
    return EventKind.CreateContainer if event is EventKind.ValidateContainerAdjustment else event


def policy_plugin(name: str, policy: str) -> SmallPlugin:
    plugin = bad_plugin(name)
    reply = api.ConfigureResponse.FromString(configure_reply(0, FailurePolicy.parse(policy)))
    plugin.on["Configure"] = lambda request: reply
    return plugin


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", ["late", "gone", "error", "logged", "validator late"])
async def test_failure_policies_have_the_effects_of_the_reference(
    name: str, policy: str, tmp_path: Path
) -> None:
    theirs = await reference_fate(name, policy, tmp_path / "s")
    assert await emulated_fate(name, policy) == theirs


@pytest.mark.parametrize(
    "plugin", ["7-short", "a1-letters", "10-", "10-with blank", "10-'", '10-"', "10-\\", "10-\t"]
)
async def test_rejected_registrations_match_the_reference(plugin: str, tmp_path: Path) -> None:
    async with await ReferenceRuntime.listen(tmp_path / "go", Variant.NRI_0_12):
        reference = SmallPlugin(plugin)
        await reference.connect(tmp_path / "go")
        with pytest.raises(RpcError) as theirs:
            await reference.register()
    async with EmulatedRuntime(PROFILE) as runtime:
        await runtime.listen(tmp_path / "s")
        small = SmallPlugin(plugin)
        await small.connect(tmp_path / "s")
        with pytest.raises(RpcError) as ours:
            await small.register()
    assert (ours.value.code, ours.value.message) == (theirs.value.code, theirs.value.message)


BETWEEN = ("nothing", "an event", "a registration")
"""What happens between the end of a validator and the next creation."""


async def reference_creation(between: str, release: Merger, socket: Path) -> str:
    """Return the error of the creation, "" for none."""
    async with await ReferenceRuntime.listen(
        socket, program=build_programs(release).runtime
    ) as runtime:
        plugins = 0

        async def connect(plugin: SmallPlugin) -> None:
            nonlocal plugins
            plugins += 1
            await plugin.connect(socket)
            await plugin.register()
            await runtime.admit(plugins)

        validator = SmallPlugin("00-validator")
        await connect(validator)
        validator.connected.finish("it leaves")
        await validator.connected.wait_closed()
        if between == "an event":
            message = request(EventKind.StopContainer, pod(2), container(2))
            await runtime.send("StopContainer", message.SerializeToString())
        elif between == "a registration":
            await connect(SmallPlugin("00-passive", EventKind.RemovePodSandbox.bit))
        message = request(EventKind.CreateContainer, pod(1), container(1))
        return (await runtime.send("CreateContainer", message.SerializeToString())).error


async def emulated_creation(between: str, release: Merger) -> str:
    async with EmulatedRuntime(replace(PROFILE, nri_version=release.nri_version)) as runtime:
        validator = SmallPlugin("00-validator")
        await validator.join(runtime)
        validator.connected.finish("it leaves")
        await runtime.wait_for(lambda: bool(runtime.former))
        if between == "an event":
            message = request(EventKind.StopContainer, pod(2), container(2))
            await runtime.operate(EventKind.StopContainer, message)
        elif between == "a registration":
            await SmallPlugin("00-passive", EventKind.RemovePodSandbox.bit).join(runtime)
        message = request(EventKind.CreateContainer, pod(1), container(1))
        return (await runtime.operate(EventKind.CreateContainer, message)).failure


@pytest.mark.parametrize("between", BETWEEN)
@pytest.mark.parametrize("release", [one for one in Merger if "NRI_0_1" in one.name])
async def test_a_closed_validator_fails_the_creations_of_the_reference(
    release: Merger, between: str, tmp_path: Path
) -> None:
    theirs = await reference_creation(between, release, tmp_path / "s")
    assert await emulated_creation(between, release) == theirs
    fails = between == "nothing" and release is not Merger.NRI_0_12
    assert theirs == ("validator plugin 00-validator failed: ttrpc: closed" if fails else "")
