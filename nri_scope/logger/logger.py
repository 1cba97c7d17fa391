# SPDX-License-Identifier: Apache-2.0
"""The passive plugin: it replies without changes, then passes the exchange to the recorder.

It runs session after session until it is stopped.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from time import monotonic, monotonic_ns, time_ns

from nri_scope.capture.sink import Sink, wall_offset
from nri_scope.end_reasons import refused
from nri_scope.errors import ConnectionClosed, NriScopeError, RpcError
from nri_scope.events import LATE, NOT_CONNECTED, STALLED, CapturedCall, Role, SessionStart
from nri_scope.nri.events import PLUGIN_SERVICE, REGISTER, RUNTIME_SERVICE, EventKind
from nri_scope.nri.no_change import no_change
from nri_scope.nri.runtime_setup import NO_POLICY, ConfigureRequest, FailurePolicy, negotiate
from nri_scope.nri.versions import CONSERVATIVE_MASK
from nri_scope.plugin import (
    Connect,
    HandledCall,
    Identity,
    SessionEnd,
    ValidatorSession,
    keep_connected,
)
from nri_scope.wire import Code, RequestReceived
from nri_scope.wire.ttrpc import trace_metadata

HEARTBEAT_S = 0.5
"""Interval in seconds at which the clock is checked for stalls."""

MIN_STALL_S = 0.5
"""Minimum delay in seconds that is reported as a stall: a quarter of the default deadline."""
_ARRIVALS = 256
"""Number of the newest events whose arrivals are known when a stall is noticed: more than a runtime
sends before a process that goes on checks its clock."""
VALIDATE_RISK = "--validate: if this process is killed or stalls, containers may not be created"
"""Warning about a validator that stops without a reply."""


@dataclass(frozen=True, slots=True)
class SessionReport:
    """A new session, to be reported to the user."""

    start: SessionStart
    warnings: tuple[str, ...]


@dataclass(eq=False)
class Logger:
    """A `Plugin` that changes nothing: every reply is a constant, sent before any other work.

    It serves successive sessions. The time between two sessions is recorded as a gap.
    """

    sink: Sink
    identity: Identity
    events: AbstractSet[EventKind] | None = None
    """Events to subscribe to; None for all."""
    validate: bool = False
    role: Role = Role.LOGGER
    """PROBE for one of several connections to be recorded together, else LOGGER."""
    on_session: Callable[[SessionReport], None] = lambda report: None
    refusals: int = 0
    """Number of recorded sessions whose registration failed."""
    _session: int | None = None
    _report: SessionReport | None = None
    _unobserved_since: int = 0
    _unobserved_reason: str = ""
    _unobserved_session: int | None = None
    _uses_conservative_mask: bool = False
    _refusal: str = ""
    """How the last registration failed; "" if it did not."""
    _wall_offset: int = 0
    """Wall clock time minus monotonic time, measured once per session: setting the clock does not
    change the order of events in a session."""
    _answered_ns: int = 0
    """Monotonic time of the last reply."""
    _arrived: deque[int] = field(default_factory=lambda: deque(maxlen=_ARRIVALS))

    # -- Plugin -----------------------------------------------------------------------------

    def configure(self, request: ConfigureRequest) -> int:
        """Subscribe to the events of this runtime's NRI version."""
        negotiated = negotiate(request, self.events, validate=self.validate)
        mask = negotiated.mask
        warnings = list(negotiated.warnings)
        if self._uses_conservative_mask and mask & ~CONSERVATIVE_MASK and mask & CONSERVATIVE_MASK:
            mask &= CONSERVATIVE_MASK
            warnings.append(
                "the runtime closed the previous connection right after Configure, maybe because "
                "it does not know an event of the mask; subscribing to events 1 to 11 only"
            )
        index, name = self.identity.index, self.identity.name
        start = SessionStart.configured(self.role, index, name, negotiated.runtime, mask, time_ns())
        self._report = SessionReport(start, tuple(warnings))
        return mask

    def answer(self, request: RequestReceived) -> bytes:
        """Return a reply without adjustments or updates, also to unknown methods."""
        return no_change(request.method, request.payload, request.service)

    def answered(self, exchange: HandledCall) -> None:
        """Pass the exchange to the recorder."""
        request = exchange.request
        if self._report is not None:
            self._begin(self._report)
            self._report = None
        session = self._session
        if session is None:
            # The runtime sent an event before Configure, when there is no session.
            self.sink.note(None, time_ns(), f"{request.method} arrived before Configure")
            return
        code, message = exchange.code, exchange.message
        if not code and 0 < request.timeout_ns < exchange.took_ns:
            code, message = Code.DEADLINE_EXCEEDED, LATE
        self._arrived.append(exchange.arrived_ns)
        self._answered_ns = exchange.arrived_ns + exchange.took_ns
        self.sink.capture(
            session,
            CapturedCall(
                self._wall_offset + exchange.arrived_ns,
                exchange.arrived_ns,
                request.method,
                request.payload,
                exchange.reply,
                code,
                message,
                exchange.took_ns,
                request.timeout_ns,
                "" if request.service == PLUGIN_SERVICE else request.service,
                metadata=trace_metadata(request.metadata) if request.metadata else (),
            ),
        )

    def noticed(self, text: str) -> None:
        """Record a protocol violation by the runtime as a note."""
        self.sink.note(self._session, time_ns(), text)

    def report_stall(self, seconds: float) -> None:
        """Record a gap for a stall: the process was stopped or starved, or the machine suspended.

        Requests waited in the socket during the stall, so it is unknown when they arrived and
        whether they were answered in time. The runtime may have closed the connection.
        """
        if self._session is not None:
            now = time_ns()
            checked_ns = now - int(seconds * 1e9)
            # It began after the last event before the next check of the clock was due.
            due_ns = checked_ns + int(HEARTBEAT_S * 1e9)
            arrived = (self._wall_offset + at_ns for at_ns in self._arrived)
            times = (at_ns for at_ns in arrived if checked_ns < at_ns <= due_ns)
            from_ns = max(times, default=checked_ns)
            reason = f"{STALLED} for {seconds:.1f} s; replies may have been late"
            self.sink.note_gap(self._session, from_ns, now, reason, None)

    # -- sessions ---------------------------------------------------------------------------

    def ended(self, end: SessionEnd) -> None:
        """Record the end of the session, whose connection has ended."""
        if self._session is not None:
            # Measured on the clock of the session's events, so that the gap begins after them.
            until_ns = max(end.observed_ns or monotonic_ns(), self._answered_ns)
            self._unobserved_since = self._wall_offset + until_ns
            self._unobserved_reason = f"{NOT_CONNECTED}: {end.reason}"
            # Other connections may see the events that this one misses.
            self._unobserved_session = self._session if self.role is Role.PROBE else None
            self.sink.end_session(self._session, end.reason, self._unobserved_since)
            self._session = None
        # Runtimes close the connection if they do not know a bit of the mask.
        self._uses_conservative_mask = end.configured and not end.synchronized

    def refused(self, request: bytes, sent_ns: int, error: RpcError | ConnectionClosed) -> None:
        """Record a registration that failed, unless the previous one failed in the same way."""
        problem = str(error)
        if problem == self._refusal:
            return
        self._refusal = problem
        self.refusals += 1
        code, message = int(Code.UNAVAILABLE), f"not answered: {problem}"
        reason = f"the connection ended during the registration: {problem}"
        if isinstance(error, RpcError):
            code, message = error.code, error.message
            reason = refused(message)
        now_ns, offset = monotonic_ns(), wall_offset()
        at_ns, took = offset + sent_ns, now_ns - sent_ns
        start = SessionStart.unconfigured(self.role, self.identity.index, self.identity.name, at_ns)
        session = self.sink.begin_session(start)
        call = CapturedCall(
            at_ns, sent_ns, REGISTER, request, b"", code, message, took, 0, RUNTIME_SERVICE
        )
        self.sink.capture(session, call)
        self.sink.end_session(session, reason, offset + now_ns)

    def _begin(self, report: SessionReport) -> None:
        now = report.start.started_ns
        if self._session is not None:
            # No known runtime does this. The second configuration begins a new session.
            self.sink.end_session(self._session, "configured again", now)
        if self._unobserved_since:
            # The clock may have been set back since.
            since = min(self._unobserved_since, now)
            self.sink.note_gap(self._unobserved_session, since, now, self._unobserved_reason, None)
            self._unobserved_since = 0
        self._refusal = ""
        self._wall_offset = wall_offset()
        self._session = self.sink.begin_session(report.start)
        self.on_session(report)


@dataclass(eq=False)
class LoggerService:
    """A `Logger` connected to one runtime, which reconnects after the runtime's restarts."""

    logger: Logger
    connect: Connect
    failure_policy: FailurePolicy = NO_POLICY
    wait: bool = False
    once: bool = False
    on_end: Callable[[SessionEnd], None] = lambda end: None
    on_wait: Callable[[NriScopeError], None] = lambda error: None
    _session: ValidatorSession | None = None
    _requires_policy: bool = True
    _sessions: asyncio.Task[None] | None = None
    _stopping: str = ""

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
                wait=self.wait,
                once=self.once,
                stopping=lambda: bool(self._stopping),
                on_end=self.on_end,
                on_wait=self.on_wait,
            )
        )
        heartbeat = asyncio.create_task(watch_clock(self.logger.report_stall))
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
            self.logger.identity,
            self.logger,
            self.failure_policy,
            requires_policy=self._requires_policy,
        )
        try:
            end = await session.run(self.connect, require_configure=True)
            self.logger.ended(end)
            end = replace(end, warning=await session.left())
        except (NriScopeError, asyncio.CancelledError) as error:
            # `stop` also cancels a session whose connection was already closed.
            self.logger.ended(session.ended(str(error) or self._stopping))
            if isinstance(error, RpcError | ConnectionClosed) and not self._stopping:
                self.logger.refused(session.registration, session.registered_ns, error)
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
