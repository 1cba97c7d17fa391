# SPDX-License-Identifier: Apache-2.0
"""Run the logger: session after session until it is stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from time import monotonic

from nri_scope.errors import ConnectionClosed, NriScopeError, RpcError
from nri_scope.nri.runtime_setup import NO_POLICY, FailurePolicy
from nri_scope.plugin import Connect, Identity, SessionEnd, ValidatorSession, keep_connected

from .logger import Logger

HEARTBEAT_S = 0.5
"""Interval in seconds at which the clock is checked for stalls."""

MIN_STALL_S = 0.5
"""Minimum delay in seconds that is reported as a stall: a quarter of the default deadline."""


class LoggerService:
    """A `Logger` connected to one runtime, which reconnects after the runtime's restarts."""

    def __init__(
        self,
        logger: Logger,
        identity: Identity,
        connect: Connect,
        *,
        failure_policy: FailurePolicy = NO_POLICY,
        wait: bool = False,
        once: bool = False,
        on_end: Callable[[SessionEnd], None] = lambda end: None,
        on_wait: Callable[[NriScopeError], None] = lambda error: None,
    ) -> None:
        self._logger = logger
        self._identity = identity
        self._connect = connect
        self._failure_policy = failure_policy
        self._wait = wait
        self._once = once
        self._on_end = on_end
        self._on_wait = on_wait
        self._session: ValidatorSession | None = None
        self._requires_policy = True
        self._sessions: asyncio.Task[None] | None = None
        self._stopping = ""

    def stop(self, reason: str) -> None:
        """End the current session and `run`. To be called from signal handlers of the loop."""
        self._stopping = reason
        if self._session is not None and self._session.open:
            # The session then ends normally, with this reason in the recording.
            self._session.close(reason)
        elif self._sessions is not None:
            self._sessions.cancel()

    async def run(self) -> None:
        """Log until `stop`, or with ``once`` until the end of the first session."""
        if self._stopping:
            return
        self._sessions = asyncio.create_task(
            keep_connected(
                self._one_session,
                wait=self._wait,
                once=self._once,
                stopping=lambda: bool(self._stopping),
                on_end=self._on_end,
                on_wait=self._on_wait,
            )
        )
        heartbeat = asyncio.create_task(watch_clock(self._logger.report_stall))
        try:
            await self._sessions
        except asyncio.CancelledError:
            if not self._stopping:
                self._sessions.cancel()
                raise
        finally:
            heartbeat.cancel()

    async def _one_session(self) -> SessionEnd:
        session = self._session = ValidatorSession(
            self._identity,
            self._logger,
            self._failure_policy,
            requires_policy=self._requires_policy,
        )
        try:
            end = await session.run(self._connect, require_configure=True)
            self._logger.ended(end)
            end = replace(end, warning=await session.left())
        except (NriScopeError, asyncio.CancelledError) as error:
            # `stop` also cancels a session whose connection was already closed.
            self._logger.ended(session.ended(str(error) or self._stopping))
            if isinstance(error, RpcError | ConnectionClosed) and not self._stopping:
                self._logger.refused(session.registration, session.registered_ns, error)
            raise
        finally:
            self._session = None
        # A runtime with an older NRI may return; its events are worth more than the policy.
        self._requires_policy = False
        return end


async def watch_clock(
    on_stall: Callable[[float], None],
    *,
    clock: Callable[[], float] = monotonic,
    heartbeat: float = HEARTBEAT_S,
) -> None:
    """Call ``on_stall`` with the duration in seconds of each stall longer than `MIN_STALL_S`."""
    before = clock()
    while True:
        await asyncio.sleep(heartbeat)
        now = clock()
        if now - before > heartbeat + MIN_STALL_S:
            on_stall(now - before)
        before = now
