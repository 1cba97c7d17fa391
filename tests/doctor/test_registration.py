# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
import re
import socket
from dataclasses import replace

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.doctor.check import Health
from nri_scope.doctor.sockets import Registration, check_registration, register
from nri_scope.errors import RpcError
from nri_scope.nri.events import PLUGIN_CONN, PLUGIN_SERVICE, RUNTIME_CONN, EventKind
from nri_scope.nri.runtime_setup import Introduction
from nri_scope.nri.versions import SPLIT_ADVICE, NriVersion
from nri_scope.runtime import EmulatedRuntime, Profile
from nri_scope.transport import Link, adopt_descriptor
from nri_scope.wire import Connection, RequestReceived
from tests.wire.go_connection import GoConnection

OLD = Profile.of("old", "containerd", "1.7.24~ds1", "0.6.1")
NEW = Profile.of("new", "cri-o", "1.37.0", "0.12.0")


@pytest.mark.parametrize(
    ("profile", "version", "inferred", "timeouts"),
    [(OLD, "0.6.1", True, (0, 0)), (NEW, "0.12.0", False, (5000, 2000))],
)
async def test_a_runtime_is_identified_and_disconnected_cleanly(
    profile: Profile, version: str, inferred: bool, timeouts: tuple[int, int]
) -> None:
    ours, theirs = socket.socketpair()
    async with EmulatedRuntime(profile) as runtime:
        adopting = asyncio.create_task(runtime.adopt(theirs))
        registration = await register(ours.detach())
        plugin = await adopting
    assert (plugin.index, plugin.name) == ("00", "nri-scope-doctor")
    assert plugin.mask == EventKind.RemovePodSandbox.bit
    assert (registration.configured, registration.synchronized, registration.problem) == (
        True,
        True,
        "",
    )
    told = registration.runtime
    assert (told.runtime_name, told.runtime_version) == (
        profile.runtime_name,
        profile.runtime_version,
    )
    assert (str(told.version), told.inferred) == (version, inferred)
    assert (told.registration_timeout_ms, told.request_timeout_ms) == timeouts
    served, synchronize, version_check, limits = check_registration(registration)
    assert {served.status, synchronize.status, version_check.status} == {Health.OK}
    assert ("of at most 4,194,304" in synchronize.detail) == (profile is OLD)
    assert registration.took_s > 0
    if timeouts == (0, 0):
        assert limits.status is Health.UNKNOWN
        assert limits.detail.endswith(
            "the defaults are 5 s for registration and 2 s for each request"
        )
    else:
        assert (limits.status, limits.detail) == (
            Health.OK,
            "5 s to register, 2 s to reply to a request",
        )


async def test_every_part_of_synchronize_is_answered_before_disconnecting() -> None:
    ours, theirs = socket.socketpair()
    replies: list[api.SynchronizeResponse] = []
    calls: list[asyncio.Task[None]] = []

    async def set_up(link: Link) -> None:
        await link.call(PLUGIN_SERVICE, "Configure", b"")
        for more in (True, True, False):
            part = api.SynchronizeRequest(pods=[api.PodSandbox()] * 3, more=more)
            part.containers.add()
            reply = await link.call(PLUGIN_SERVICE, "Synchronize", part.SerializeToString())
            replies.append(api.SynchronizeResponse.FromString(reply))

    def on_request(link: Link, request: RequestReceived, arrived_ns: int) -> None:
        link.respond(request.stream_id)
        calls.append(asyncio.create_task(set_up(link)))

    await adopt_descriptor(
        theirs.detach(),
        lambda: Link(Connection(serves=RUNTIME_CONN, calls=PLUGIN_CONN), on_request),
    )
    registration = await register(ours.detach())
    await asyncio.gather(*calls)
    assert [reply.more for reply in replies] == [True, True, False]
    assert (registration.pods, registration.containers) == (9, 3)
    assert registration.runtime.version is None
    statuses = {check.name: check.status for check in check_registration(registration)}
    assert statuses["nri-version"] is Health.UNKNOWN


async def synchronized(configure: api.ConfigureRequest, size: int) -> Registration:
    """Return the registration at a runtime that sends a Synchronize with a pod of ``size`` bytes,
    without splitting it.
    """
    ours, theirs = socket.socketpair()
    calls: list[asyncio.Task[bytes]] = []
    state = api.SynchronizeRequest(pods=[api.PodSandbox(annotations={"big": "x" * size})])

    async def set_up(link: Link) -> bytes:
        await link.call(PLUGIN_SERVICE, "Configure", configure.SerializeToString())
        return await link.call(PLUGIN_SERVICE, "Synchronize", state.SerializeToString())

    def on_request(link: Link, request: RequestReceived, arrived_ns: int) -> None:
        link.respond(request.stream_id)
        calls.append(asyncio.create_task(set_up(link)))

    await adopt_descriptor(
        theirs.detach(),
        lambda: Link(GoConnection(serves=RUNTIME_CONN, calls=PLUGIN_CONN), on_request),
    )
    registration = await register(ours.detach())
    await asyncio.gather(*calls, return_exceptions=True)
    return registration


BEFORE_0_7 = api.ConfigureRequest(runtime_name="containerd", runtime_version="1.7.24")
SPLITS = api.ConfigureRequest(runtime_name="containerd", runtime_version="2.1.9")


@pytest.mark.parametrize(
    ("configure", "size", "name", "status"),
    [
        (BEFORE_0_7, 2_000_000, "synchronize", Health.OK),
        (BEFORE_0_7, 2_200_000, "synchronize", Health.WARN),
        (BEFORE_0_7, 5_000_000, "registration", Health.FAIL),
        (SPLITS, 2_200_000, "synchronize", Health.OK),
    ],
)
async def test_whether_synchronize_fits_into_a_message_is_forecast(
    configure: api.ConfigureRequest, size: int, name: str, status: Health
) -> None:
    registration = await synchronized(configure, size)
    checks = {check.name: check for check in check_registration(registration)}
    assert checks[name].status is status
    assert (checks[name].fix == SPLIT_ADVICE) == (status is not Health.OK)
    detail = checks[name].detail
    if name == "registration":
        assert re.search(r": Synchronize of 5000\d{3} bytes; the limit is 4194304$", detail)
    else:
        assert re.search(rf"has {size // 10**6},\d00,\d\d\d bytes", detail)


@pytest.mark.parametrize(("took_s", "status"), [(0.9, Health.OK), (1.1, Health.WARN)])
@pytest.mark.parametrize("timeout_ms", [0, 2000])
def test_a_synchronize_that_takes_most_of_its_deadline_is_a_warning(
    took_s: float, status: Health, timeout_ms: int
) -> None:
    version = NriVersion.parse("0.8.0")
    runtime = Introduction("containerd", version=version, request_timeout_ms=timeout_ms)
    registration = Registration(configured=True, synchronized=True, took_s=took_s, runtime=runtime)
    (check,) = [one for one in check_registration(registration) if one.name == "synchronize"]
    assert check.status is status
    assert "its deadline is 2 s" in check.detail


def test_isulad_that_sends_no_synchronize_may_have_too_large_a_state() -> None:
    registration = Registration(
        configured=True, problem="no reply within 10 s", runtime=Introduction("v2")
    )
    assert check_registration(registration)[0].fix == SPLIT_ADVICE
    other = replace(registration, runtime=Introduction("containerd"))
    assert check_registration(other)[0].fix == "see the runtime's log"


async def test_a_runtime_that_does_not_reply_times_out() -> None:
    ours, theirs = socket.socketpair()
    registration = await register(ours.detach(), timeout=0.05)
    assert (registration.configured, registration.problem) == (False, "no reply within 0.05 s")
    theirs.setblocking(False)
    with theirs:
        loop = asyncio.get_running_loop()
        assert await loop.sock_recv(theirs, 1 << 16)  # the registration …
        assert await loop.sock_recv(theirs, 1) == b""  # … and the end
    (check,) = check_registration(registration)
    assert check.status is Health.FAIL


async def test_a_runtime_that_closes_the_connection_is_reported() -> None:
    ours, theirs = socket.socketpair()
    theirs.close()
    registration = await register(ours.detach())
    assert not registration.configured
    assert registration.problem


async def test_a_rejected_registration_has_the_runtime_s_message() -> None:
    ours, theirs = socket.socketpair()

    def on_request(link: Link, request: RequestReceived, arrived_ns: int) -> None:
        error = RpcError(2, "not today")
        link.respond_error(request.stream_id, error.code, error.message)

    link = await adopt_descriptor(
        theirs.detach(),
        lambda: Link(Connection(serves=RUNTIME_CONN, calls=PLUGIN_CONN), on_request),
    )
    registration = await register(ours.detach())
    assert "not today" in registration.problem
    await link.wait_closed()


def test_an_unknown_runtime_is_said_to_be_treated_like_containerd() -> None:
    known = Registration(configured=True, synchronized=True, runtime=Introduction("v2", "1"))
    assert "runtime" not in [check.name for check in check_registration(known)]
    (check,) = [
        check
        for check in check_registration(replace(known, runtime=Introduction("newd", "1")))
        if check.name == "runtime"
    ]
    assert check.status is Health.UNKNOWN
    assert check.detail == "newd 1 (unknown, treated like containerd)"


def test_a_runtime_that_does_not_synchronize_is_a_warning() -> None:
    registration = Registration(
        configured=True, problem="closed by the peer", runtime=Introduction("cri-o")
    )
    assert check_registration(registration)[0].status is Health.WARN
    assert check_registration(replace(registration, synchronized=True))[0].status is Health.OK
