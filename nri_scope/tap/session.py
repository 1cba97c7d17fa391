# SPDX-License-Identifier: Apache-2.0
"""Turn the messages between a runtime and a plugin into a session of a recording."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic_ns
from typing import NamedTuple

from nri_scope.events import LATE, CapturedCall, Role, SessionStart
from nri_scope.nri.identity import plugin_id
from nri_scope.nri.methods import PLUGIN_CONN, PLUGIN_SERVICE, RUNTIME_CONN, RUNTIME_SERVICE
from nri_scope.nri.runtime_setup import Introduction, introduced, registration, subscribed
from nri_scope.plugin import Identity
from nri_scope.recorder.sink import PrintSink
from nri_scope.recorder.wall_clock import wall_offset
from nri_scope.wire import (
    Code,
    DecodingEnded,
    MessageSkipped,
    PassiveDecoder,
    RequestObserved,
    ResponseObserved,
)

UNANSWERED_MAX = 1024
"""Maximum number of unanswered requests; runtimes send one at a time."""
UNANSWERED_BYTES_MAX = 32 << 20
"""Maximum size in bytes of all their payloads: eight payloads of the largest possible size."""
EARLY_MAX = 16
"""Maximum number of exchanges kept until Configure is answered: normally the registration."""
EARLY_BYTES_MAX = 16 << 20
"""Maximum size in bytes of all their payloads."""
EARLY_LINES_MAX = 1000
"""Maximum number of lines printed by the plugin that are kept until then."""
NOTES_MAX = 20
"""Maximum number of notes on a connection; a peer may send any number of bad messages."""
TOLERANCE = 0.95
"""The fraction of a deadline that counts as all of it: it began before the request arrived here."""


class _Asked(NamedTuple):
    """A request that awaits its answer."""

    request: RequestObserved
    arrived_ns: int
    passed_ns: int


_Key = tuple[bool, int, int]
"""Whether the runtime sent the request, the mux id, the stream id."""


class TapSession:
    """Pairs requests with replies in both directions, and passes them to a recorder.

    A relay, whose first socket is the runtime's, feeds it with data already passed on. The session
    begins when Configure is answered; earlier exchanges are then added to it.
    """

    def __init__(
        self,
        sink: PrintSink,
        *,
        named: Identity | None = None,
        on_began: Callable[[SessionStart], None] = lambda start: None,
        on_refused: Callable[[], None] = lambda: None,
        on_deaf: Callable[[str], None] = lambda words: None,
        notes: tuple[str, ...] = (),
    ) -> None:
        """Start without a session. ``named`` is the runtime's name for the plugin, which may
        register under another name. ``notes`` are written into each session when it begins.
        """
        self.identity = named
        """The plugin's index and name, once they are known."""
        self.registered = False
        """Whether the runtime accepted the registration."""
        self.refused = ""
        """The runtime's error if it refused the registration, otherwise ""."""
        self._sink = sink
        self._named = named is not None
        self._on_began = on_began
        self._on_refused = on_refused
        self._on_deaf = on_deaf
        self._notes = notes
        conn_ids = (PLUGIN_CONN, RUNTIME_CONN)
        self._forth = PassiveDecoder(conn_ids)
        self._back = PassiveDecoder(conn_ids)
        self._session: int | None = None
        self._asked: dict[_Key, _Asked] = {}
        self._asked_bytes = 0
        self._kept_from: dict[_Key, str] = {}
        self._early: list[CapturedCall] = []
        self._early_bytes = 0
        self._early_lines: list[tuple[int, str, str]] = []
        self._noted = 0
        self._deaf_since_ns = 0
        self._deaf_words = ""
        self._ended_ns = 0
        # Wall-clock time is the monotonic clock plus this, so that adjusting the clock does not
        # change the order of events in a session.
        self._wall_offset = wall_offset()

    # -- decoding ---------------------------------------------------------------------------

    def heard(self, forth: bool, data: bytes, arrived_ns: int, passed_ns: int) -> None:
        """Decode a piece that was passed on, to the plugin if ``forth``, otherwise to the runtime.

        The times are monotonic.
        """
        if self._deaf_since_ns:
            return
        for one in (self._forth if forth else self._back).feed(data):
            match one:
                case ResponseObserved():
                    self._answered(forth, one, arrived_ns, passed_ns)
                case RequestObserved():
                    self._ask(forth, one, arrived_ns, passed_ns)
                case MessageSkipped():
                    self.note(f"{_who(forth)} sent what was not understood: {one.reason}")
                case DecodingEnded(offset, error):
                    words = f"what {_who(forth)} sent after its byte {offset} was not understood"
                    self.deafen(f"{words}: {error}; it was relayed all the same", arrived_ns)
                    return

    def deafen(self, words: str, at_ns: int | None = None) -> None:
        """Stop decoding this connection, from now on or from a monotonic time on."""
        if not self._deaf_since_ns:
            self._deaf_since_ns = at_ns or monotonic_ns()
            self._deaf_words = words
            self.note(words)
            self._on_deaf(words)
            # It is no longer possible to find out whether these were answered.
            self._asked.clear()
            self._kept_from.clear()

    def keep_from(self, conn_id: int, stream_id: int, words: str) -> None:
        """Note that the next request of the runtime given to `heard` does not reach the plugin."""
        if len(self._kept_from) < UNANSWERED_MAX:
            self._kept_from[(True, conn_id, stream_id)] = words

    def printed(self, stream: str, text: str, mono_ns: int) -> None:
        """Record a line that the plugin printed."""
        at_ns = self._wall_offset + mono_ns
        if self._session is not None:
            self._sink.printed(self._session, at_ns, stream, text)
        elif len(self._early_lines) < EARLY_LINES_MAX:
            self._early_lines.append((at_ns, stream, text))

    def ended(self, reason: str, now: int) -> None:
        """Record the close at ``now`` (monotonic): open requests will not be answered."""
        self._ended_ns = self._wall_offset + now
        unanswered, self._asked = self._asked, {}
        for key, asked in unanswered.items():
            timeout_ns = asked.request.timeout_ns
            late = 0 < timeout_ns * TOLERANCE <= now - asked.arrived_ns
            words = self._kept_from.get(key) or f"not answered: {reason}"
            code = Code.DEADLINE_EXCEEDED if late else Code.UNAVAILABLE
            response = ResponseObserved(key[1], key[2], code, words, b"")
            self._exchange(key[0], asked, response, now, now)
        if self._deaf_since_ns:
            since = self._wall_offset + self._deaf_since_ns
            self._sink.note_gap(self._session, since, self._ended_ns, self._deaf_words, None)
        if self._session is None and self.identity is not None:
            whose = plugin_id(self.identity.index, self.identity.name)
            words = f"the runtime refused it: {self.refused}" if self.refused else reason
            self._sink.note(None, self._ended_ns, f"{whose} was not configured: {words}")

    def finish(self, reason: str) -> None:
        """End the session after the last printed line; ``reason`` is why it ended, in words."""
        if self._session is not None:
            self._sink.end_session(self._session, reason, self._ended_ns or self._now())
            self._session = None

    @property
    def in_message(self) -> tuple[bool, bool]:
        """Whether the last message of the runtime, and of the plugin, is incomplete."""
        return self._forth.in_message, self._back.in_message

    # -- exchanges --------------------------------------------------------------------------

    def _ask(self, forth: bool, request: RequestObserved, arrived_ns: int, passed_ns: int) -> None:
        key = (forth, request.conn_id, request.stream_id)
        asked = _Asked(request, arrived_ns, passed_ns)
        again = self._asked.pop(key, None)
        if again is not None:
            self._asked_bytes -= len(again.request.payload)
            self._unanswered(forth, again, "its stream id was used again", arrived_ns)
        size = len(request.payload)
        if len(self._asked) >= UNANSWERED_MAX or self._asked_bytes + size > UNANSWERED_BYTES_MAX:
            self._unanswered(forth, asked, "too many requests wait for an answer", passed_ns)
            return
        self._asked[key] = asked
        self._asked_bytes += size
        if request.method == "RegisterPlugin" and request.service == RUNTIME_SERVICE:
            self._introduce(request.payload)

    def _answered(
        self, forth: bool, response: ResponseObserved, arrived_ns: int, passed_ns: int
    ) -> None:
        key = (not forth, response.conn_id, response.stream_id)
        asked = self._asked.pop(key, None)
        if asked is None:
            self.note(f"{_who(forth)} answered a request that was never seen")
            return
        self._asked_bytes -= len(asked.request.payload)
        self._kept_from.pop(key, None)
        self._exchange(not forth, asked, response, arrived_ns, passed_ns)

    def _unanswered(self, forth: bool, asked: _Asked, words: str, now_ns: int) -> None:
        response = ResponseObserved(
            asked.request.conn_id, asked.request.stream_id, Code.UNAVAILABLE, words, b""
        )
        self._exchange(forth, asked, response, now_ns, now_ns)

    def _exchange(
        self,
        by_runtime: bool,
        asked: _Asked,
        response: ResponseObserved,
        arrived_ns: int,
        passed_ns: int,
    ) -> None:
        request = asked.request
        code, message = response.code, response.message
        # The deadline is the caller's, and includes the time in the tap.
        if not code and 0 < request.timeout_ns < passed_ns - asked.arrived_ns:
            code, message = Code.DEADLINE_EXCEEDED, LATE
        item = CapturedCall(
            self._wall_offset + asked.arrived_ns,
            asked.arrived_ns,
            request.method,
            request.payload,
            response.payload,
            code,
            message,
            arrived_ns - asked.passed_ns,
            request.timeout_ns,
            "" if request.service == PLUGIN_SERVICE else request.service,
            asked.passed_ns - asked.arrived_ns + passed_ns - arrived_ns,
            request.metadata,
        )
        if by_runtime:
            if request.method == "Configure" and request.service == PLUGIN_SERVICE:
                self._begin(request, response, item)
                return
        elif request.method == "RegisterPlugin" and request.service == RUNTIME_SERVICE:
            self.registered = self.registered or not response.code
            if response.code and not self.registered:
                self.refused = response.message or f"status {response.code}"
                self._on_refused()
        self._capture(item)

    def _capture(self, item: CapturedCall) -> None:
        if self._session is not None:
            self._sink.capture(self._session, item)
        elif len(self._early) < EARLY_MAX and self._early_bytes < EARLY_BYTES_MAX:
            self._early.append(item)
            self._early_bytes += len(item.request) + len(item.reply)
        else:
            self.note(f"{item.method} came before Configure")

    # -- sessions ---------------------------------------------------------------------------

    def _introduce(self, payload: bytes) -> None:
        told = registration(payload)
        if told is not None and not self._named and not self.registered:
            self.identity = Identity(index=told[0], name=told[1])

    def _begin(
        self, request: RequestObserved, response: ResponseObserved, item: CapturedCall
    ) -> None:
        introduction = introduced(request.payload) or Introduction("", "", None, False, 0, 0)
        mask = 0 if response.code else subscribed(response.payload, introduction.version)
        # The offset between the clocks may have changed during a suspend of the machine.
        now_ns = self._now()
        if self._session is not None:
            # No runtime is known to do this; the second configuration gets its own session.
            self._sink.end_session(self._session, "configured again", now_ns)
        version = introduction.version
        identity = self.identity
        start = SessionStart(
            role=Role.TAP,
            plugin_name="" if identity is None else identity.name,
            plugin_index="" if identity is None else identity.index,
            runtime_name=introduction.runtime_name,
            runtime_version=introduction.runtime_version,
            nri_version="" if version is None else str(version),
            nri_version_inferred=introduction.inferred,
            mask=mask,
            registration_timeout_ms=introduction.registration_timeout_ms,
            request_timeout_ms=introduction.request_timeout_ms,
            started_ns=now_ns,
        )
        self._session = session = self._sink.begin_session(start)
        for note in self._notes:
            self._sink.note(session, now_ns, note)
        for line in self._early_lines:
            self._sink.printed(session, *line)
        for early in self._early:
            self._sink.capture(session, early)
        self._early, self._early_lines, self._early_bytes = [], [], 0
        self._sink.capture(session, item)
        self._on_began(start)

    def note(self, text: str) -> None:
        """Write a note into the recording; notes beyond `NOTES_MAX` are dropped."""
        if self._noted < NOTES_MAX:
            self._noted += 1
            self._sink.note(self._session, self._now(), text)

    def _now(self) -> int:
        return self._wall_offset + monotonic_ns()


def _who(forth: bool) -> str:
    return "the runtime" if forth else "the plugin"
