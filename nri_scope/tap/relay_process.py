# SPDX-License-Identifier: Apache-2.0
"""Run relays in a separate process: the side of the recording process.

Python runs one thread at a time, and some hosts have few processors. In the process that decodes
and records, a relay would sometimes wait for this work, and the runtime for the relay.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from collections.abc import Sequence
from time import monotonic_ns
from typing import Any, NamedTuple, Protocol

from nri_scope.errors import UsageError
from nri_scope.process.channel import LoopChannel
from nri_scope.process.child import spawn
from nri_scope.transport.relay import RelayEnd

from .faults import Faults
from .relay_messages import CLOSE, RELAY, ReportKind, decode_piece, describe_error, encode_values

CLOSE_S = 3.0
"""Seconds without any report after an order to close a connection until the relay process is
killed, which closes all connections."""
READY_S = 10.0
"""Maximum time in seconds for the process to start."""
EXIT_S = 3.0
"""Maximum time in seconds for the process to exit."""


class Listener(Protocol):
    """Receiver of relayed data. After an exception it is not called again; relaying continues."""

    def receive(self, forth: bool, data: bytes, arrived_ns: int, passed_ns: int) -> None:
        """Receive a piece that was forwarded, to the plugin if ``forth``, otherwise to the runtime.

        The times are monotonic, in ns.
        """
        ...

    def expect_dropped(self, conn_id: int, stream_id: int, reason: str) -> None:
        """Expect that the next request with these ids was not forwarded, for a reason."""
        ...

    def stop_recording(self, reason: str, at_ns: int | None = None) -> None:
        """Stop recording this connection, of which no more data will be reported."""
        ...


class Relayed(NamedTuple):
    """How a relay ended."""

    end: RelayEnd
    at_ns: int
    """Monotonic time of the end, in ns."""
    faults: str
    """Summary of the injected faults, or "" if none were requested."""


class Relaying:
    """One relayed connection."""

    def __init__(self, process: _Process, number: int, listener: Listener) -> None:
        """Create the state; call `Relays.begin` instead."""
        self.listener: Listener | None = listener
        self._process = process
        self._number = number
        self._ended: asyncio.Future[Relayed] = asyncio.get_running_loop().create_future()

    @property
    def closed(self) -> bool:
        """Whether the relay has ended."""
        return self._ended.done()

    async def wait_closed(self) -> Relayed:
        """Wait for the end, and until the listener has received all pieces; return how it ended."""
        return await asyncio.shield(self._ended)

    def close(self, words: str) -> None:
        """Close both sockets."""
        if not self.closed:
            self._process.end_relay(self._number, words)
            self._kill_later()

    def _kill_later(self) -> None:
        messages_before = self._process.messages
        asyncio.get_running_loop().call_later(CLOSE_S, self._kill_if_stuck, messages_before)

    def _kill_if_stuck(self, messages_before: int) -> None:
        if self.closed:
            return
        if self._process.messages > messages_before:
            # The process is busy, but still working.
            self._kill_later()
        else:
            self._process.kill()

    def receive(self, forth: bool, data: bytes, arrived_ns: int, passed_ns: int) -> None:
        """Pass a relayed piece to the listener."""
        if self.listener is not None:
            try:
                self.listener.receive(forth, data, arrived_ns, passed_ns)
            except Exception as error:  # noqa: BLE001 - no data of a peer may end a tap
                self._failed(self.listener, error)

    def handle_report(self, kind: int, at_ns: int, values: list[Any]) -> None:
        """Handle any other report on this relay."""
        if kind == ReportKind.ENDED:
            first, words, faults = values
            self.end(Relayed(RelayEnd(first, words), at_ns, faults))
        elif self.listener is not None:
            try:
                if kind == ReportKind.DROPPED:
                    self.listener.expect_dropped(*values)
                else:
                    self.listener.stop_recording(values[0], at_ns)
            except Exception as error:  # noqa: BLE001 - as above
                self._failed(self.listener, error)

    def _failed(self, listener: Listener, error: Exception) -> None:
        self.listener = None
        listener.stop_recording(describe_error(error))

    def end(self, relayed: Relayed) -> None:
        """Store how the relay ended. Only the first call has an effect."""
        if not self.closed:
            self._ended.set_result(relayed)


class Relays:
    """Manager of the relay process, for one event loop."""

    def __init__(self) -> None:
        self._process: _Process | None = None

    async def start(self, within_s: float = READY_S) -> None:
        """Start the process and wait until it is ready. Raise `UsageError` on failure."""
        process = self._running()
        try:
            async with asyncio.timeout(within_s):
                await process.ready
        except TimeoutError:
            process.kill()
            process.close()
            words = f"the relay process did not start within {within_s:.0f} s"
            raise UsageError(words) from None
        if process.over:
            raise UsageError(f"cannot relay: {process.words}")

    def begin(
        self,
        runtime: socket.socket,
        plugin: socket.socket,
        listener: Listener,
        faults: Faults | None = None,
    ) -> Relaying:
        """Relay between two connected sockets, and close them in this process.

        Starts a new relay process if the last one has ended. Raises `UsageError` if that fails.
        """
        with runtime, plugin:
            return self._running().begin(runtime, plugin, listener, faults)

    def close(self) -> None:
        """End the process, which closes all relayed connections."""
        if self._process is not None:
            self._process.close()

    def _running(self) -> _Process:
        if self._process is None or self._process.over:
            self._process = _Process()
        return self._process


class _Process:
    def __init__(self) -> None:
        self.words = ""
        """Description of how the process ended; "" while it runs."""
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.messages = 0
        """Number of messages that the process has sent."""
        self._relayings: dict[int, Relaying] = {}
        self._last_number = 0
        self._child = spawn(
            "nri_scope.tap.relay_main",
            failure="the relay process cannot be started",
            # The relay process belongs to this process, and has no work to finish.
            on_parents_death=signal.SIGKILL,
        )
        self._channel = LoopChannel(self._child.socket, self._on_message, lambda: self._end(""))

    @property
    def over(self) -> bool:
        """Whether the process has ended."""
        return bool(self.words)

    def begin(
        self,
        runtime: socket.socket,
        plugin: socket.socket,
        listener: Listener,
        faults: Faults | None,
    ) -> Relaying:
        self._last_number += 1
        number = self._last_number
        relaying = self._relayings[number] = Relaying(self, number, listener)
        texts = None if faults is None or not faults.any else faults.texts()
        try:
            sockets = (runtime.fileno(), plugin.fileno())
            self._channel.send_descriptors(sockets, RELAY, encode_values(number, texts))
        except BlockingIOError:
            # The process does not read its orders, so it hangs.
            self.kill()
        except OSError as error:
            del self._relayings[number]
            words = (
                f"the sockets could not be handed over: {(error.strerror or str(error)).lower()}"
            )
            relaying.end(Relayed(RelayEnd(None, words), monotonic_ns(), ""))
        return relaying

    def end_relay(self, number: int, words: str) -> None:
        # If the order cannot be sent, the process has ended or is about to end.
        self._channel.send(CLOSE, encode_values(number, words))

    def close(self) -> None:
        if not self.over:
            self._end("the tap has ended")

    def kill(self) -> None:
        """Kill the process. The end of its channel then calls `_end`."""
        self._child.signal(signal.SIGKILL)

    def _on_message(self, kind: int, payload: bytes, _descriptors: Sequence[int]) -> None:
        # Yield the processor after each message: the relay or the runtime may need it.
        os.sched_yield()
        self.messages += 1
        if kind in (ReportKind.FORTH, ReportKind.BACK):
            number, arrived_ns, passed_ns, data = decode_piece(payload)
            self._relayings[number].receive(kind == ReportKind.FORTH, data, arrived_ns, passed_ns)
            return
        number, at_ns, *values = json.loads(payload)
        if kind == ReportKind.READY:
            if not self.ready.done():
                self.ready.set_result(None)
        else:
            self._relayings[number].handle_report(kind, at_ns, values)
            if kind == ReportKind.ENDED:
                del self._relayings[number]

    def _end(self, words: str) -> None:
        if self.over:
            return
        self.words = words or "the relay process ended"
        self._channel.close()
        end = self._child.stop(EXIT_S, terminate_s=0)
        self.words = words or f"the relay process ended, {end.description}"
        if not self.ready.done():
            self.ready.set_result(None)
        for relaying in self._relayings.values():
            relaying.end(Relayed(RelayEnd(None, self.words), monotonic_ns(), ""))
        self._relayings.clear()
