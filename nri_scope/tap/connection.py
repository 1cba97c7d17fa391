# SPDX-License-Identifier: Apache-2.0
"""One tapped connection, relayed by another process and recorded by this one."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass

from nri_scope.events import RUNTIME_CLOSED, SessionStart
from nri_scope.nri.failure_policy import FailurePolicy
from nri_scope.nri.identity import plugin_id
from nri_scope.plugin import Identity
from nri_scope.recorder.sink import PrintSink
from nri_scope.transport.relay import RelayEnd

from .faults import Faults
from .relay_process import Relaying, Relays
from .session import TapSession

REFUSED_S = 0.5
"""Seconds until a refused plugin is reported as still connected; most have exited by then."""


@dataclass(frozen=True, slots=True)
class TapEnd:
    """How a connection ended."""

    reason: str
    """The reason why it ended, for display."""
    by_us: bool
    """Whether the tap closed the connection; otherwise the runtime or the plugin did."""
    registered: bool
    """Whether the runtime had accepted the plugin's registration."""
    refused: str
    """The runtime's error if it refused the registration, otherwise ""."""
    plugin: str
    """``NN-name``, or "" if the plugin never sent its name."""


class Connection:
    """A tapped connection. It is created before its sockets, as a plugin may print early."""

    def __init__(
        self,
        relays: Relays,
        sink: PrintSink,
        named: Identity | None,
        on_began: Callable[[SessionStart, FailurePolicy], None],
        faults: Faults | None = None,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        """Prepare a session. ``named`` is the runtime's name for the plugin, which may register
        under another name. ``say`` is called with problems for the user.
        """
        self.faults_made = ""
        """Summary of the injected faults, set once the connection has ended."""
        self._relays = relays
        self._say = say
        self._faults = faults if faults is not None and faults.any else None
        notes = () if self._faults is None else (self._faults.announcement,)
        self._session = TapSession(
            sink,
            named=named,
            on_began=on_began,
            on_refused=self._refused,
            on_stopped=self._recording_stopped,
            notes=notes,
        )
        self._relaying: Relaying | None = None

    async def relay(self, runtime: socket.socket, plugin: socket.socket) -> TapEnd:
        """Relay until either end closes the connection. Closes both sockets in this process.

        Raises `UsageError` if relaying is impossible.
        """
        session = self._session
        relaying = self._relaying = self._relays.begin(runtime, plugin, session, self._faults)
        try:
            relayed = await relaying.wait_closed()
        except asyncio.CancelledError:
            relaying.close("the tap was cancelled")
            raise
        reason = _end_reason(relayed.end, session.in_message)
        self.faults_made = relayed.faults
        if relayed.faults:
            session.note(relayed.faults)
        session.ended(reason, relayed.at_ns)
        return TapEnd(
            reason,
            relayed.end.by_first is None,
            session.registered,
            session.refused,
            self._plugin,
        )

    def close(self, reason: str) -> None:
        """Close the connection at both ends."""
        if self._relaying is not None:
            self._relaying.close(reason)

    def printed(self, stream: str, line: str, mono_ns: int) -> None:
        """Record a line that the plugin printed."""
        self._session.printed(stream, line, mono_ns)

    def finish(self, reason: str) -> None:
        """End the session after the last printed line, with the reason for its end."""
        self._session.finish(reason)

    @property
    def _plugin(self) -> str:
        identity = self._session.identity
        return plugin_id(identity.index, identity.name) if identity is not None else ""

    def _recording_stopped(self, words: str) -> None:
        self._say(f"{self._plugin or 'a plugin'}: {words}")

    def _refused(self) -> None:
        def tell() -> None:
            if self._relaying is not None and not self._relaying.closed:
                self._say(
                    f"the runtime refused the registration of {self._plugin or 'a plugin'}:"
                    f" {self._session.refused}; both are still connected"
                )

        asyncio.get_running_loop().call_later(REFUSED_S, tell)


_PLUGIN_CLOSED = "the plugin closed the connection"


def _end_reason(end: RelayEnd, in_message: tuple[bool, bool]) -> str:
    if end.by_first is None:
        return end.reason
    who, unfinished = (
        (RUNTIME_CLOSED, in_message[0]) if end.by_first else (_PLUGIN_CLOSED, in_message[1])
    )
    where = " in the middle of a message" if unfinished else ""
    return f"{who}{where}{f': {end.reason}' if end.reason else ''}"
