# SPDX-License-Identifier: Apache-2.0
"""Short passive registration, for the data that a runtime sends to its plugins.

It is harmless. It subscribes only to RemovePodSandbox: every version has this event, it is sent
once per pod, after the last container, and runtimes only log its errors. (Subscribing to no event
is impossible: an empty mask means every event, validation included.) It replies to every request
immediately, requests no change, and disconnects as soon as it is synchronized.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from nri_scope.errors import NriScopeError
from nri_scope.nri.events import Event
from nri_scope.nri.methods import DEFAULT_REGISTRATION_TIMEOUT_MS, DEFAULT_REQUEST_TIMEOUT_MS
from nri_scope.nri.no_change import no_change
from nri_scope.nri.runtime_setup import ConfigureRequest, introduction_of, parse_state_part
from nri_scope.nri.versions import runtime_remark, runtime_words
from nri_scope.plugin import Exchange, Identity, PluginSession, inherited
from nri_scope.wire import RequestReceived

from .check import Check, fail, ok, unknown, warn

IDENTITY = Identity(index="00", name="nri-scope-doctor")
TIMEOUT = 10.0
"""Seconds for the whole registration. A runtime waits up to 5 s for each plugin before ours."""


@dataclass(frozen=True, slots=True)
class Registration:
    """Result of a registration."""

    configured: bool = False
    synchronized: bool = False
    problem: str = ""
    runtime_name: str = ""
    runtime_version: str = ""
    nri_version: str = ""
    nri_version_inferred: bool = False
    registration_timeout_ms: int = 0
    """Registration timeout in ms; 0 if the runtime does not send it (before NRI 0.7)."""
    request_timeout_ms: int = 0
    pods: int = 0
    containers: int = 0

    @property
    def title(self) -> str:
        """The runtime with its version."""
        return runtime_words(self.runtime_name, self.runtime_version) or "the runtime"


class _RecordingPlugin:
    """Plugin that only records what the runtime sends."""

    def __init__(self) -> None:
        self.found = Registration()
        self.done = asyncio.Event()

    def configure(self, request: ConfigureRequest) -> int:
        runtime = introduction_of(request)
        self.found = replace(
            self.found,
            configured=True,
            runtime_name=runtime.runtime_name,
            runtime_version=runtime.runtime_version,
            nri_version=str(runtime.version or ""),
            nri_version_inferred=runtime.inferred,
            registration_timeout_ms=runtime.registration_timeout_ms,
            request_timeout_ms=runtime.request_timeout_ms,
        )
        return Event.RemovePodSandbox.bit

    def answer(self, request: RequestReceived) -> bytes:
        part = parse_state_part(request.payload) if request.method == "Synchronize" else None
        if part is not None:
            self.found = replace(
                self.found,
                synchronized=not part.more,
                pods=self.found.pods + part.pods,
                containers=self.found.containers + part.containers,
            )
        return no_change(request.method, request.payload, request.service)

    def answered(self, exchange: Exchange) -> None:
        if self.found.synchronized:
            self.done.set()

    def noticed(self, text: str) -> None:
        """Ignore protocol violations, which this command does not check."""


async def register(descriptor: int, timeout: float = TIMEOUT) -> Registration:
    """Register over a connected socket, which is closed afterwards. Never raises."""
    recorder = _RecordingPlugin()
    session = PluginSession(IDENTITY, recorder)

    async def close_when_done() -> None:
        await recorder.done.wait()
        session.close("synchronized")

    closing = asyncio.create_task(close_when_done())
    problem = ""
    try:
        async with asyncio.timeout(timeout):
            end = await session.run(inherited(descriptor))
            problem = end.reason
    except TimeoutError:
        problem = f"no reply within {timeout:g} s"
    except NriScopeError as error:
        problem = str(error)
    finally:
        closing.cancel()
    return replace(recorder.found, problem="" if recorder.found.synchronized else problem)


def check_registration(registration: Registration) -> list[Check]:
    """Check whether plugins are served, and by which runtime."""
    if not registration.configured:
        return [
            fail(
                "registration",
                f"a plugin cannot register: {registration.problem}",
                "see the runtime's log; a plugin that connects without registering delays the "
                "others by the registration timeout",
            )
        ]
    checks = [_served(registration), _version(registration)]
    if remark := runtime_remark(registration.runtime_name):
        checks.append(unknown("runtime", f"{registration.title}{remark}"))
    if registration.request_timeout_ms:
        request = registration.request_timeout_ms / 1000
        register_s = registration.registration_timeout_ms / 1000
        checks.append(
            ok("timeouts", f"{register_s:g} s to register, {request:g} s to reply to a request")
        )
    else:
        register_s = DEFAULT_REGISTRATION_TIMEOUT_MS / 1000
        request = DEFAULT_REQUEST_TIMEOUT_MS / 1000
        text = (
            "the runtime does not report its timeouts (before NRI 0.7); the defaults are "
            f"{register_s:g} s for registration and {request:g} s for each request"
        )
        checks.append(unknown("timeouts", text))
    return checks


def _served(registration: Registration) -> Check:
    if registration.synchronized:
        objects = f"{registration.pods} pods and {registration.containers} containers"
        return ok("registration", f"{registration.title} serves plugins; it sent {objects}")
    return warn(
        "registration",
        f"{registration.title} sent Configure but not all of Synchronize: {registration.problem}",
        "see the runtime's log",
    )


def _version(registration: Registration) -> Check:
    if not registration.nri_version:
        return unknown(
            "nri-version",
            f"{registration.title} does not report its NRI version, which cannot be inferred",
        )
    how = "inferred from its version" if registration.nri_version_inferred else "as it reports"
    return ok("nri-version", f"NRI {registration.nri_version}, {how}")
