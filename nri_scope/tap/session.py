# SPDX-License-Identifier: Apache-2.0
"""Record the messages between a runtime and a plugin as a session."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import monotonic_ns
from typing import NamedTuple

from nri_scope.capture.sink import Sink, wall_offset
from nri_scope.end_reasons import PLUGIN, RUNTIME, refused
from nri_scope.events import LATE, CapturedCall, Role, SessionStart
from nri_scope.nri.events import (
    CONFIGURE,
    PLUGIN_CONN,
    PLUGIN_SERVICE,
    REGISTER,
    RUNTIME_CONN,
    RUNTIME_SERVICE,
)
from nri_scope.nri.runtime_setup import (
    NO_POLICY,
    NOT_INTRODUCED,
    FailurePolicy,
    parse_configure,
    parse_failure_policy,
    parse_registration,
    parse_subscription,
)
from nri_scope.plugin import Identity
from nri_scope.wire import (
    Code,
    DecodingEnded,
    MessageSkipped,
    PassiveDecoder,
    RequestReceived,
    ResponseReceived,
)

UNANSWERED_MAX = 1024
"""Maximum number of unanswered requests; runtimes send one at a time."""
UNANSWERED_BYTES_MAX = 32 << 20
"""Maximum total size in bytes of their payloads: eight payloads of the maximum size."""
EARLY_MAX = 16
"""Maximum number of exchanges kept until Configure is answered; normally there is only the
registration."""
EARLY_BYTES_MAX = 16 << 20
"""Maximum total size in bytes of their payloads."""
EARLY_LINES_MAX = 1000
"""Maximum number of printed lines kept until Configure is answered."""
NOTES_MAX = 20
"""Maximum number of notes on a connection; a peer may send any number of bad messages."""
TOLERANCE = 0.95
"""Fraction of a deadline after which a request counts as late. The deadline began at the runtime,
before the request arrived here."""


class _PendingRequest(NamedTuple):
    """A request without a reply so far."""

    request: RequestReceived
    arrived_ns: int
    passed_ns: int


_NOT_IDENTIFIED = Identity(index="", name="")
_Key = tuple[bool, int, int]
"""Whether the runtime sent the request; the mux id; the stream id."""


class TapSession:
    """Decoder of a tapped connection, which pairs requests with replies and records them.

    Data arrives from a relay after it was forwarded. The session begins when Configure is answered,
    or else at the end of the connection; earlier exchanges are then added to it.
    """

    def __init__(
        self,
        sink: Sink,
        *,
        named: Identity | None = None,
        on_began: Callable[[SessionStart, FailurePolicy], None] = lambda start, policy: None,
        on_refused: Callable[[], None] = lambda: None,
        on_stopped: Callable[[str], None] = lambda problem: None,
    ) -> None:
        """Start without a session. ``named`` is the runtime's name for the plugin, which may
        register under another name.
        """
        self.identity = named
        """The plugin's index and name; None until they are known."""
        self.registered = False
        """Whether the runtime accepted the registration."""
        self.refused = ""
        """The runtime's error if it refused the registration, otherwise ""."""
        self._sink = sink
        self._is_named = named is not None
        self._on_began = on_began
        self._on_refused = on_refused
        self._on_stopped = on_stopped
        conn_ids = (PLUGIN_CONN, RUNTIME_CONN)
        self._forth = PassiveDecoder(conn_ids)
        self._back = PassiveDecoder(conn_ids)
        self._session: int | None = None
        self._pending: dict[_Key, _PendingRequest] = {}
        self._pending_bytes = 0
        self._given_up: deque[tuple[_Key, str]] = deque(maxlen=UNANSWERED_MAX)
        """Requests that are no longer pending, each with words for its late reply."""
        self._early: list[CapturedCall] = []
        self._early_bytes = 0
        self._early_lines: list[tuple[int, str, str]] = []
        self._note_count = 0
        self._stopped_ns = 0
        self._stop_reason = ""
        self._ended_ns = 0
        # Wall clock time minus monotonic time, measured once: setting the clock does not change the
        # order of events in a session.
        self._wall_offset = wall_offset()

    # -- decoding ---------------------------------------------------------------------------

    def receive(self, forth: bool, data: bytes, arrived_ns: int, passed_ns: int) -> None:
        """Decode a piece that was forwarded, to the plugin if ``forth``, otherwise to the runtime.

        The times are monotonic, in ns.
        """
        if self._stopped_ns:
            return
        for message in (self._forth if forth else self._back).feed(data):
            match message:
                case ResponseReceived():
                    self._reply(forth, message, arrived_ns, passed_ns)
                case RequestReceived():
                    self._request(forth, message, arrived_ns, passed_ns)
                case MessageSkipped(conn_id, stream_id, reason, True):
                    self._given_up.append(((forth, conn_id, stream_id), "a request over the limit"))
                    text = f"{_sender(forth)} sent {reason}; it was relayed, but not recorded"
                    at_ns = self._wall_offset + arrived_ns
                    self._sink.note_gap(self._session, at_ns, at_ns, text, 1)
                    self._on_stopped(text)
                case MessageSkipped():
                    self.note(f"{_sender(forth)} sent what was not understood: {message.reason}")
                case DecodingEnded(offset, error):
                    text = f"what {_sender(forth)} sent after its byte {offset} was not understood"
                    self.stop_recording(f"{text}: {error}; it was relayed all the same", arrived_ns)
                    return

    def stop_recording(self, reason: str, at_ns: int | None = None) -> None:
        """Stop recording exchanges of this connection, now or as of a monotonic time in ns."""
        if not self._stopped_ns:
            self._stopped_ns = at_ns or monotonic_ns()
            self._stop_reason = reason
            self.note(reason)
            self._on_stopped(reason)
            # Whether these requests are answered can no longer be observed.
            self._pending.clear()

    def printed(self, stream: str, text: str, mono_ns: int) -> int:
        """Record a line that the plugin printed; return its wall clock time in ns."""
        at_ns = self._wall_offset + mono_ns
        if self._session is not None:
            self._sink.printed(self._session, at_ns, stream, text)
        elif len(self._early_lines) < EARLY_LINES_MAX:
            self._early_lines.append((at_ns, stream, text))
        return at_ns

    def ended(self, reason: str, now: int) -> None:
        """Record the end of the connection at ``now`` (monotonic, ns), and unanswered requests."""
        self._ended_ns = self._wall_offset + now
        unanswered, self._pending = self._pending, {}
        for key, pending in unanswered.items():
            timeout_ns = pending.request.timeout_ns
            late = 0 < timeout_ns * TOLERANCE <= now - pending.arrived_ns
            code = Code.DEADLINE_EXCEEDED if late else Code.UNAVAILABLE
            response = ResponseReceived(key[2], code, f"not answered: {reason}", b"")
            self._exchange(key[0], pending, response, now, now)
        if self._stopped_ns:
            since = self._wall_offset + self._stopped_ns
            self._sink.note_gap(self._session, since, self._ended_ns, self._stop_reason, None)
        if self._session is None and (self.identity is not None or self._early):
            self._record_unconfigured(self._ended_ns)

    def finish(self, reason: str) -> None:
        """End the session after the last printed line, with the reason for its end."""
        if self._session is not None:
            if self.refused and not self.registered:
                reason = f"{refused(self.refused)}; {reason}"
            self._sink.end_session(self._session, reason, self._ended_ns or self._now())
            self._session = None

    @property
    def in_message(self) -> tuple[bool, bool]:
        """Whether the last message of the runtime, and of the plugin, is incomplete."""
        return self._forth.in_message, self._back.in_message

    # -- exchanges --------------------------------------------------------------------------

    def _request(
        self, forth: bool, request: RequestReceived, arrived_ns: int, passed_ns: int
    ) -> None:
        if forth:
            self._give_up(arrived_ns)
        key = (forth, request.conn_id, request.stream_id)
        pending = _PendingRequest(request, arrived_ns, passed_ns)
        previous = self._pending.pop(key, None)
        if previous is not None:
            self._pending_bytes -= len(previous.request.payload)
            self._unanswered(key, previous, "its stream id was used again", arrived_ns)
        size = len(request.payload)
        if (
            len(self._pending) >= UNANSWERED_MAX
            or self._pending_bytes + size > UNANSWERED_BYTES_MAX
        ):
            self._unanswered(key, pending, "too many requests wait for an answer", passed_ns)
            return
        self._pending[key] = pending
        self._pending_bytes += size
        if request.method == REGISTER and request.service == RUNTIME_SERVICE:
            self._introduce(request.payload)

    def _reply(
        self, forth: bool, response: ResponseReceived, arrived_ns: int, passed_ns: int
    ) -> None:
        key = (not forth, response.conn_id, response.stream_id)
        pending = self._pending.pop(key, None)
        if pending is None:
            what = dict(self._given_up).get(key, "a request that was never seen")
            error = f" with an error: {response.message}" if response.code else ""
            self.note(f"{_sender(forth)} answered {what}{error}")
            return
        self._pending_bytes -= len(pending.request.payload)
        request = pending.request
        if forth and request.method == REGISTER and request.service == RUNTIME_SERVICE:
            self._registration_answered(response)
        self._exchange(not forth, pending, response, arrived_ns, passed_ns)

    def _give_up(self, now_ns: int) -> None:
        """Record the runtime's requests whose deadline passed, before its next request.

        The plugin stayed connected by its failure policy.
        """
        for key, (request, arrived_ns, _) in list(self._pending.items()):
            # The deadline began at the runtime, before the request arrived here.
            if key[0] and 0 < request.timeout_ns * TOLERANCE <= now_ns - arrived_ns:
                pending = self._pending.pop(key)
                self._pending_bytes -= len(request.payload)
                self._given_up.append((key, "a request after its deadline"))
                response = ResponseReceived(key[2], Code.DEADLINE_EXCEEDED, "not answered", b"")
                at_ns = min(now_ns, arrived_ns + request.timeout_ns)
                self._exchange(True, pending, response, at_ns, at_ns)

    def _unanswered(self, key: _Key, pending: _PendingRequest, problem: str, now_ns: int) -> None:
        self._given_up.append((key, f"a request that was given up, as {problem}"))
        response = ResponseReceived(key[2], Code.UNAVAILABLE, problem, b"")
        self._exchange(key[0], pending, response, now_ns, now_ns)

    def _exchange(
        self,
        by_runtime: bool,
        pending: _PendingRequest,
        response: ResponseReceived,
        arrived_ns: int,
        passed_ns: int,
    ) -> None:
        request = pending.request
        code, message = response.code, response.message
        # The caller's deadline includes the time in the tap.
        if not code and 0 < request.timeout_ns < passed_ns - pending.arrived_ns:
            code, message = Code.DEADLINE_EXCEEDED, LATE
        item = CapturedCall(
            self._wall_offset + pending.arrived_ns,
            pending.arrived_ns,
            request.method,
            request.payload,
            response.payload,
            # Not a `Code`: `marshal`, with which events are sent to the writer, rejects it.
            int(code),
            message,
            arrived_ns - pending.passed_ns,
            request.timeout_ns,
            "" if request.service == PLUGIN_SERVICE else request.service,
            pending.passed_ns - pending.arrived_ns + passed_ns - arrived_ns,
            request.metadata,
        )
        if by_runtime and request.method == CONFIGURE and request.service == PLUGIN_SERVICE:
            self._begin(request, response, item)
            return
        self._capture(item)

    def _capture(self, item: CapturedCall) -> None:
        if self._session is not None:
            self._sink.capture(self._session, item)
        elif len(self._early) < EARLY_MAX and self._early_bytes < EARLY_BYTES_MAX:
            self._early.append(item)
            self._early_bytes += len(item.request) + len(item.reply)
        else:
            # A newer protocol may have another Configure.
            self._sink.capture(self._record_unconfigured(item.wall_ns), item)

    def _registration_answered(self, response: ResponseReceived) -> None:
        # Before the session, the last answer counts: a registration may have several steps.
        is_kept = self.registered and self._session is not None
        self.registered = is_kept or not response.code
        if not self.registered:
            self.refused = response.message or f"status {response.code}"
            self._on_refused()

    # -- sessions ---------------------------------------------------------------------------

    def _introduce(self, payload: bytes) -> None:
        registered = parse_registration(payload)
        if registered is not None and not self._is_named and not self.registered:
            self.identity = Identity(index=registered[0], name=registered[1])

    def _begin(
        self, request: RequestReceived, response: ResponseReceived, item: CapturedCall
    ) -> None:
        introduction = parse_configure(request.payload) or NOT_INTRODUCED
        mask = 0 if response.code else parse_subscription(response.payload, introduction.version)
        # The offset between the clocks may have changed while the machine was suspended.
        now_ns = self._now()
        if self._session is not None:
            # No known runtime does this. The second configuration begins a new session.
            self._sink.end_session(self._session, "configured again", now_ns)
        identity = self.identity or _NOT_IDENTIFIED
        start = SessionStart.configured(
            Role.TAP, identity.index, identity.name, introduction, mask, now_ns
        )
        self._sink.capture(self._record(start), item)
        policy = NO_POLICY if response.code else parse_failure_policy(response.payload)
        self._on_began(start, policy)

    def _record_unconfigured(self, now_ns: int) -> int:
        """Begin a session without a known Configure, and add to it what happened earlier."""
        began_ns = self._early[0].wall_ns if self._early else now_ns
        who = self.identity or _NOT_IDENTIFIED
        return self._record(SessionStart.unconfigured(Role.TAP, who.index, who.name, began_ns))

    def _record(self, start: SessionStart) -> int:
        """Begin a session, and add to it what happened earlier."""
        self._session = session = self._sink.begin_session(start)
        for line in self._early_lines:
            self._sink.printed(session, *line)
        for early in self._early:
            self._sink.capture(session, early)
        self._early, self._early_lines, self._early_bytes = [], [], 0
        return session

    def note(self, text: str) -> None:
        """Record a note. Notes beyond `NOTES_MAX` are dropped."""
        if self._note_count < NOTES_MAX:
            self._note_count += 1
            self._sink.note(self._session, self._now(), text)

    def _now(self) -> int:
        return self._wall_offset + monotonic_ns()


def _sender(forth: bool) -> str:
    return RUNTIME if forth else PLUGIN
