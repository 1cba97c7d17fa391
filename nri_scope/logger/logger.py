# SPDX-License-Identifier: Apache-2.0
"""The passive plugin: it answers without changes, then hands the exchange to the recorder."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from time import monotonic_ns, time_ns

from nri_scope.events import LATE, CapturedCall, Role, SessionStart
from nri_scope.nri.events import Event
from nri_scope.nri.methods import PLUGIN_SERVICE
from nri_scope.nri.negotiation import Negotiated, negotiate
from nri_scope.nri.no_change import no_change
from nri_scope.nri.runtime_setup import ConfigureRequest
from nri_scope.nri.versions import CONSERVATIVE_MASK, runtime_title
from nri_scope.plugin import Exchange, Identity, SessionEnd
from nri_scope.recorder.sink import Sink
from nri_scope.recorder.wall_clock import wall_offset
from nri_scope.wire import Code, RequestReceived


@dataclass(frozen=True, slots=True)
class SessionReport:
    """A session as reported to the user when it begins."""

    start: SessionStart
    warnings: tuple[str, ...]

    @property
    def nri_version(self) -> str:
        """NRI's version in words, such as ``0.8.0, inferred``."""
        version = self.start.nri_version or "unknown"
        return f"{version}, inferred" if self.start.nri_version_inferred else version

    @property
    def runtime(self) -> str:
        """The runtime in words, such as ``containerd v2.1.0 (NRI 0.8.0, inferred)``."""
        title = f"{runtime_title(self.start.runtime_name)} {self.start.runtime_version}"
        return f"{title} (NRI {self.nri_version})"


class Logger:
    """A `Plugin` that changes nothing: every reply is a constant, sent before anything else.

    It serves several sessions; the time between two of them, when it observes nothing, is
    recorded as a gap.
    """

    def __init__(
        self,
        sink: Sink,
        identity: Identity,
        *,
        events: AbstractSet[Event] | None = None,
        validate: bool = False,
        role: Role = Role.LOGGER,
        on_session: Callable[[SessionReport], None] = lambda report: None,
    ) -> None:
        """Start without a session. ``role``: PROBE for one of several connections of a recording,
        else LOGGER.
        """
        self._sink = sink
        self._identity = identity
        self._role = role
        self._events = events
        self._validate = validate
        self._on_session = on_session
        self._session: int | None = None
        self._report: SessionReport | None = None
        self._unobserved_since = 0
        self._unobserved_why = ""
        self._unobserved_by: int | None = None
        self._cautious = False
        # Wall-clock time is the monotonic clock plus this, measured again for each session, so that
        # setting the clock back does not change the order of events in a session.
        self._wall_offset = 0

    # -- Plugin -----------------------------------------------------------------------------

    def configure(self, request: ConfigureRequest) -> int:
        """Subscribe to the events of this runtime's NRI version."""
        negotiated = negotiate(request, self._events, validate=self._validate)
        mask = negotiated.mask
        warnings = list(negotiated.warnings)
        if self._cautious and mask & ~CONSERVATIVE_MASK and mask & CONSERVATIVE_MASK:
            mask &= CONSERVATIVE_MASK
            warnings.append(
                "the runtime ended the previous session right after Configure, as one does that "
                "does not know an event of the mask; subscribing to events 1 to 11 only"
            )
        self._report = self._describe(request, negotiated, mask, tuple(warnings))
        return mask

    def answer(self, request: RequestReceived) -> bytes:
        """Answer without adjustment, update or objection; unknown methods, too."""
        return no_change(request.method, request.payload, request.service)

    def answered(self, exchange: Exchange) -> None:
        """Hand the exchange over to the recorder."""
        request = exchange.request
        if self._report is not None:
            self._begin(self._report)
            self._report = None
        session = self._session
        if session is None:
            # The runtime sent an event before Configure; there is no session to put it in.
            self._sink.note(None, time_ns(), f"{request.method} came before Configure")
            return
        code, message = exchange.code, exchange.message
        if not code and 0 < request.timeout_ns < exchange.took_ns:
            code, message = Code.DEADLINE_EXCEEDED, LATE
        self._sink.capture(
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
            ),
        )

    def noticed(self, text: str) -> None:
        """Record a runtime's breach of the protocol as a note."""
        self._sink.note(self._session, time_ns(), text)

    def stood_still(self, seconds: float) -> None:
        """Record a gap for a stall: the process was stopped or starved, or the machine slept.

        Requests waited in the socket meanwhile, so it is unknown when they arrived and whether they
        were answered in time; the runtime may have closed the connection.
        """
        if self._session is not None:
            now = time_ns()
            reason = f"the recorder stood still for {seconds:.1f} s; answers may have been late"
            self._sink.note_gap(self._session, now - int(seconds * 1e9), now, reason, None)

    # -- sessions ---------------------------------------------------------------------------

    def ended(self, end: SessionEnd) -> None:
        """End the session in the recording, as the connection is gone."""
        if self._session is not None:
            # On the clock of the session's events, so that the gap begins after all of them.
            self._unobserved_since = self._wall_offset + monotonic_ns()
            self._unobserved_why = f"not connected to the runtime: {end.reason}"
            # Other connections may see the events that this one misses.
            self._unobserved_by = self._session if self._role is Role.PROBE else None
            self._sink.end_session(self._session, end.reason, self._unobserved_since)
            self._session = None
        # A runtime reacts to an unknown bit of the mask by closing the connection.
        self._cautious = end.configured and not end.synchronized

    def _begin(self, report: SessionReport) -> None:
        now = report.start.started_ns
        if self._session is not None:
            # No known runtime does this; the second configuration gets a session of its own.
            self._sink.end_session(self._session, "configured again", now)
        if self._unobserved_since:
            # The clock may have been set back meanwhile.
            since = min(self._unobserved_since, now)
            self._sink.note_gap(self._unobserved_by, since, now, self._unobserved_why, None)
            self._unobserved_since = 0
        self._wall_offset = wall_offset()
        self._session = self._sink.begin_session(report.start)
        self._on_session(report)

    def _describe(
        self,
        request: ConfigureRequest,
        negotiated: Negotiated,
        mask: int,
        warnings: tuple[str, ...],
    ) -> SessionReport:
        version = negotiated.version
        start = SessionStart(
            role=self._role,
            plugin_name=self._identity.name,
            plugin_index=self._identity.index,
            runtime_name=request.runtime_name,
            runtime_version=request.runtime_version,
            nri_version="" if version is None else str(version),
            nri_version_inferred=negotiated.inferred,
            mask=mask,
            registration_timeout_ms=request.registration_timeout,
            request_timeout_ms=request.request_timeout,
            started_ns=time_ns(),
        )
        return SessionReport(start, warnings)
