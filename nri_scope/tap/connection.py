# SPDX-License-Identifier: Apache-2.0
"""One tapped connection: relayed immediately, decoded some milliseconds later."""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic_ns

from nri_scope.capture.sink import Sink
from nri_scope.end_reasons import NEW_SOCKET, PLUGIN, RUNTIME, tapped_close
from nri_scope.errors import UsageError, reason_of
from nri_scope.events import SessionStart
from nri_scope.nri.identity import plugin_id
from nri_scope.nri.runtime_setup import FailurePolicy
from nri_scope.plugin import Identity
from nri_scope.transport.relay import Relay, RelayEnd
from nri_scope.transport.sockets import SocketFile, made_anew, peer_path, socket_file

from .session import TapSession

REFUSED_S = 0.5
"""Seconds until a refused plugin is reported as still connected; most have exited by then."""
WAIT_S = 0.005
"""Seconds for which relayed data waits to be decoded. Decoding it immediately would take processor
time for which the receiver may be waiting."""
WAITING_BYTES_MAX = 4 << 20
"""Maximum bytes that wait to be decoded. A connection with more is decoded while it is relayed,
which slows its sender down."""


_Piece = tuple[bool, bytes, int, int]
"""The arguments of `TapSession.receive`."""


@dataclass(frozen=True, slots=True)
class TapEnd:
    """How a connection ended."""

    reason: str
    """The reason why it ended, for display."""
    registered: bool
    """Whether the runtime had accepted the plugin's registration."""
    refused: str
    """The runtime's error if it refused the registration, otherwise ""."""
    plugin: str
    """``NN-name``, or "" if the plugin never sent its name."""


class PieceQueue:
    """Relayed data of all connections of a tap, which waits to be decoded.

    It is decoded in the order of its arrival: runtimes call one plugin after the other, so this is
    the order of the events in the recording.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._pieces: deque[tuple[TappedConnection, _Piece]] = deque()
        self._is_scheduled = False

    def put(self, connection: TappedConnection, piece: _Piece) -> None:
        """Add a piece, and decode it in `WAIT_S`."""
        self._pieces.append((connection, piece))
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_later(WAIT_S, self._take_turn)

    def decode_oldest(self) -> None:
        """Decode the oldest piece."""
        connection, piece = self._pieces.popleft()
        connection.decode(piece)

    def _take_turn(self) -> None:
        if self._pieces:
            # Only one, before the event loop checks its sockets again.
            self.decode_oldest()
        self._is_scheduled = bool(self._pieces)
        if self._is_scheduled:
            self._loop.call_soon(self._take_turn)


class TappedConnection:
    """A tapped connection. It is created before its sockets, as a plugin may print early."""

    def __init__(
        self,
        sink: Sink,
        named: Identity | None,
        on_began: Callable[[SessionStart, FailurePolicy], None],
        say: Callable[[str], None] = lambda text: None,
        pieces: PieceQueue | None = None,
    ) -> None:
        """Prepare a session. ``named`` is the runtime's name for the plugin, which may register
        under another name. ``say`` is called with problems for the user. ``pieces`` is shared by
        the connections of one recording. Requires an event loop.
        """
        self._loop = asyncio.get_running_loop()
        self._say = say
        self._session = TapSession(
            sink,
            named=named,
            on_began=on_began,
            on_refused=self._refused,
            on_stopped=self._recording_stopped,
        )
        self._relay: Relay | None = None
        self._pieces = PieceQueue() if pieces is None else pieces
        self._waiting_pieces = 0
        self._waiting_bytes = 0

    async def relay(self, runtime: socket.socket, plugin: socket.socket) -> TapEnd:
        """Relay until either end closes the connection. Closes both sockets.

        Raises UsageError if relaying is impossible.
        """
        session = self._session
        try:
            relay = self._relay = Relay(
                runtime, plugin, self._on_piece, on_failure=self._stop_recording
            )
        except OSError as error:
            runtime.close()
            plugin.close()
            raise UsageError(f"the connection cannot be relayed: {reason_of(error)}") from error
        path = peer_path(runtime)
        watch = asyncio.create_task(self._watch(path, socket_file(path))) if path else None
        try:
            end = await relay.wait_closed()
        except asyncio.CancelledError:
            relay.close("the tap was cancelled")
            raise
        finally:
            if watch is not None:
                watch.cancel()
        ended_ns = monotonic_ns()
        self._decode_all()
        reason = _end_reason(end, session.in_message)
        session.ended(reason, ended_ns)
        return TapEnd(reason, session.registered, session.refused, self._plugin)

    def close(self, reason: str) -> None:
        """Close the connection at both ends."""
        if self._relay is not None:
            self._relay.close(reason)

    def printed(self, stream: str, line: str, mono_ns: int) -> int:
        """Record a line that the plugin printed; return its wall clock time in ns."""
        return self._session.printed(stream, line, mono_ns)

    def finish(self, reason: str) -> None:
        """End the session after the last printed line, with the reason for its end."""
        self._session.finish(reason)

    @property
    def _plugin(self) -> str:
        identity = self._session.identity
        return plugin_id(identity.index, identity.name) if identity is not None else ""

    async def _watch(self, path: str, file: SocketFile | None) -> None:
        """Report when the runtime's socket is made anew. Only the plugin can connect again."""
        await made_anew(path, file)
        text = f"{NEW_SOCKET}: {self._plugin or 'a plugin'} may get no more events"
        self._say(f"warning: {text} until it connects again")
        self._session.note(text)

    def decode(self, piece: _Piece) -> None:
        """Decode a piece that was put into the queue."""
        self._waiting_pieces -= 1
        self._waiting_bytes -= len(piece[1])
        try:
            self._session.receive(*piece)
        except Exception as error:  # noqa: BLE001 - a peer's data must not end the relay
            self._stop_recording(error)

    def _on_piece(self, forth: bool, data: bytes, arrived_ns: int, passed_ns: int) -> None:
        self._waiting_pieces += 1
        self._waiting_bytes += len(data)
        self._pieces.put(self, (forth, data, arrived_ns, passed_ns))
        if self._waiting_bytes > WAITING_BYTES_MAX:
            self._decode_all()

    def _decode_all(self) -> None:
        """Decode all pieces of this connection, and those of others that arrived before them."""
        while self._waiting_pieces:
            self._pieces.decode_oldest()

    def _stop_recording(self, error: Exception) -> None:
        problem = f"{type(error).__name__}: {error}"
        self._session.stop_recording(f"recording stopped after an internal error: {problem}")

    def _recording_stopped(self, problem: str) -> None:
        self._say(f"{self._plugin or 'a plugin'}: {problem}")

    def _refused(self) -> None:
        def tell() -> None:
            if self._relay is not None and not self._relay.closed:
                self._say(
                    f"the runtime refused the registration of {self._plugin or 'a plugin'}:"
                    f" {self._session.refused}; both are still connected"
                )

        self._loop.call_later(REFUSED_S, tell)


def _end_reason(end: RelayEnd, in_message: tuple[bool, bool]) -> str:
    if end.by_first is None:
        return end.reason
    peer, is_unfinished = (RUNTIME, in_message[0]) if end.by_first else (PLUGIN, in_message[1])
    return tapped_close(peer, end.reason, in_message=is_unfinished)
