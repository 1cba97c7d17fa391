# SPDX-License-Identifier: Apache-2.0
"""A short passive registration, to get the facts that the runtime reports to a plugin.

It is designed to be harmless. It subscribes only to RemovePodSandbox: an event that every version
has, that comes once in a pod's life, after its last container, and to which the runtime only logs
the answer. (It cannot subscribe to no event: an empty mask means every event, validation included.)
It answers Configure, every part of Synchronize and any other request immediately, requests no
change, and closes as soon as it is synchronized.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from nri_scope.errors import NriScopeError
from nri_scope.nri.events import Event
from nri_scope.nri.methods import DEFAULT_REGISTRATION_TIMEOUT_MS, DEFAULT_REQUEST_TIMEOUT_MS
from nri_scope.nri.no_change import no_change
from nri_scope.nri.runtime_setup import ConfigureRequest, introduction_of, parse_state_part
from nri_scope.nri.versions import runtime_title
from nri_scope.plugin import Exchange, Identity, PluginSession, inherited
from nri_scope.wire import RequestReceived

from .check import Check, fail, ok, unknown, warn

IDENTITY = Identity(index="00", name="nri-scope-doctor")
TIMEOUT = 10.0
"""Seconds for the whole registration. A runtime waits 5 s for each silent plugin before ours."""


@dataclass(frozen=True, slots=True)
class Registration:
    """The progress of a registration and the facts gathered from it."""

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
        return f"{runtime_title(self.runtime_name)} {self.runtime_version}".strip() or "the runtime"


class _Visitor:
    """The plugin behind the registration."""

    def __init__(self) -> None:
        self.seen = Registration()
        self.done = asyncio.Event()

    def configure(self, request: ConfigureRequest) -> int:
        said = introduction_of(request)
        self.seen = replace(
            self.seen,
            configured=True,
            runtime_name=said.runtime_name,
            runtime_version=said.runtime_version,
            nri_version=str(said.version or ""),
            nri_version_inferred=said.inferred,
            registration_timeout_ms=said.registration_timeout_ms,
            request_timeout_ms=said.request_timeout_ms,
        )
        return Event.RemovePodSandbox.bit

    def answer(self, request: RequestReceived) -> bytes:
        part = parse_state_part(request.payload) if request.method == "Synchronize" else None
        if part is not None:
            self.seen = replace(
                self.seen,
                synchronized=not part.more,
                pods=self.seen.pods + part.pods,
                containers=self.seen.containers + part.containers,
            )
        return no_change(request.method, request.payload, request.service)

    def answered(self, exchange: Exchange) -> None:
        if self.seen.synchronized:
            self.done.set()

    def noticed(self, text: str) -> None:
        """Ignore protocol violations: this command does not judge them."""


async def register(descriptor: int, timeout: float = TIMEOUT) -> Registration:
    """Register over a connected socket, which is closed afterwards. Never raises."""
    visitor = _Visitor()
    session = PluginSession(IDENTITY, visitor)

    async def leave_when_done() -> None:
        await visitor.done.wait()
        session.close("seen enough")

    leaving = asyncio.create_task(leave_when_done())
    problem = ""
    try:
        async with asyncio.timeout(timeout):
            end = await session.run(inherited(descriptor))
            problem = end.reason
    except TimeoutError:
        problem = f"no answer within {timeout:g} s"
    except NriScopeError as error:
        problem = str(error)
    finally:
        leaving.cancel()
    return replace(visitor.seen, problem="" if visitor.seen.synchronized else problem)


def check_registration(registration: Registration) -> list[Check]:
    """Check whether plugins are served, and by which runtime."""
    if not registration.configured:
        return [
            fail(
                "registration",
                f"a plugin cannot register: {registration.problem}",
                "see the runtime's log; a plugin that connects and says nothing holds up all "
                "others for as long as the registration timeout",
            )
        ]
    checks = [_served(registration), _version(registration)]
    if registration.request_timeout_ms:
        request = registration.request_timeout_ms / 1000
        register_s = registration.registration_timeout_ms / 1000
        checks.append(
            ok("timeouts", f"{register_s:g} s to register, {request:g} s to answer a request")
        )
    else:
        register_s = DEFAULT_REGISTRATION_TIMEOUT_MS / 1000
        request = DEFAULT_REQUEST_TIMEOUT_MS / 1000
        text = (
            "the runtime does not say its timeouts (before NRI 0.7); the defaults are "
            f"{register_s:g} s for registration and {request:g} s for each request"
        )
        checks.append(unknown("timeouts", text))
    return checks


def _served(registration: Registration) -> Check:
    if registration.synchronized:
        known = f"{registration.pods} pods and {registration.containers} containers"
        return ok("registration", f"{registration.title} serves plugins; it knows {known}")
    return warn(
        "registration",
        f"{registration.title} configured us but did not synchronize: {registration.problem}",
        "see the runtime's log",
    )


def _version(registration: Registration) -> Check:
    if not registration.nri_version:
        return unknown(
            "nri-version",
            f"{registration.title} does not say its NRI version and is not known to us",
        )
    how = "inferred from its version" if registration.nri_version_inferred else "as it says"
    return ok("nri-version", f"NRI {registration.nri_version}, {how}")
