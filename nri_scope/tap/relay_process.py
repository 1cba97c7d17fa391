# SPDX-License-Identifier: Apache-2.0
"""Relays in a process of their own, as the tap sees them.

Python lets one thread run at a time, and a system of few processors has few. In one process with
what decodes and records, a relay would wait for these now and then, and with it a runtime.
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
from .relay_messages import CLOSE, RELAY, Told, fault_words, piece, values

CLOSE_S = 3.0
"""For it to close a connection that it is told to, or to tell what it has relayed before that; then
it is killed, which closes all connections."""
READY_S = 10.0
"""For the process to begin to work."""
EXIT_S = 3.0
"""For it to end."""


class Listener(Protocol):
    """Who hears what is relayed. What it raises ends the hearing, never the relaying."""

    def heard(self, forth: bool, data: bytes, arrived_ns: int, passed_ns: int) -> None:
        """A piece was passed on, ``forth`` to the plugin, else to the runtime; monotonic times."""
        ...

    def keep_from(self, conn_id: int, stream_id: int, words: str) -> None:
        """A request that is heard next does not reach the plugin."""
        ...

    def deafen(self, words: str, at_ns: int | None = None) -> None:
        """Nothing more is heard of this connection."""
        ...


class Relayed(NamedTuple):
    """How a relay ended."""

    end: RelayEnd
    at_ns: int
    """When, monotonic."""
    faults: str
    """What went wrong on purpose, in words; "" where nothing was to."""


class Relaying:
    """One connection that is relayed."""

    def __init__(self, process: _Process, number: int, listener: Listener) -> None:
        """Use `Relays.begin`."""
        self.listener: Listener | None = listener
        self._process = process
        self._number = number
        self._ended: asyncio.Future[Relayed] = asyncio.get_running_loop().create_future()

    @property
    def closed(self) -> bool:
        """Nothing is relayed any more."""
        return self._ended.done()

    async def wait_closed(self) -> Relayed:
        """How it ended, once it has, and all that was said has been heard."""
        return await asyncio.shield(self._ended)

    def close(self, words: str) -> None:
        """Close both sockets."""
        if not self.closed:
            self._process.end_relay(self._number, words)
            self._insist_later()

    def _insist_later(self) -> None:
        told = self._process.messages
        asyncio.get_running_loop().call_later(CLOSE_S, self._insist, told)

    def _insist(self, told: int) -> None:
        if self.closed:
            return
        if self._process.messages > told:
            # It is only behind, as much was relayed and this process has little of a processor.
            self._insist_later()
        else:
            self._process.kill()

    def heard(self, forth: bool, data: bytes, arrived_ns: int, passed_ns: int) -> None:
        """A piece was passed on."""
        if self.listener is not None:
            try:
                self.listener.heard(forth, data, arrived_ns, passed_ns)
            except Exception as error:  # noqa: BLE001 - what a peer said must not end a tap
                self._failed(self.listener, error)

    def told(self, kind: int, at_ns: int, values: list[Any]) -> None:
        """Something else was told of it."""
        if kind == Told.ENDED:
            first, words, faults = values
            self.end(Relayed(RelayEnd(first, words), at_ns, faults))
        elif self.listener is not None:
            try:
                if kind == Told.KEPT:
                    self.listener.keep_from(*values)
                else:
                    self.listener.deafen(values[0], at_ns)
            except Exception as error:  # noqa: BLE001 - likewise
                self._failed(self.listener, error)

    def _failed(self, listener: Listener, error: Exception) -> None:
        self.listener = None
        listener.deafen(fault_words(error))

    def end(self, relayed: Relayed) -> None:
        """It is over."""
        if not self.closed:
            self._ended.set_result(relayed)


class Relays:
    """Has a process that relays. For one event loop."""

    def __init__(self) -> None:
        self._process: _Process | None = None

    async def start(self, within_s: float = READY_S) -> None:
        """When this returns the process is there. Raises `UsageError` where it cannot be."""
        process = self._running()
        try:
            async with asyncio.timeout(within_s):
                await process.ready
        except TimeoutError:
            process.kill()
            process.close()
            words = f"the process that relays was not there after {within_s:.0f} s"
            raise UsageError(words) from None
        if process.over:
            raise UsageError(f"nothing can be relayed: {process.words}")

    def begin(
        self,
        runtime: socket.socket,
        plugin: socket.socket,
        listener: Listener,
        faults: Faults | None = None,
    ) -> Relaying:
        """Relay between two connected sockets, which are closed here. Where the process was killed
        another one takes its place. Raises `UsageError` where that cannot be.
        """
        with runtime, plugin:
            return self._running().begin(runtime, plugin, listener, faults)

    def close(self) -> None:
        """End the process; connections that are still relayed are closed."""
        if self._process is not None:
            self._process.close()

    def _running(self) -> _Process:
        if self._process is None or self._process.over:
            self._process = _Process()
        return self._process


class _Process:
    def __init__(self) -> None:
        self.words = ""
        """Why it is over."""
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.messages = 0
        """How many it has sent."""
        self._relayings: dict[int, Relaying] = {}
        self._begun = 0
        self._child = spawn(
            "nri_scope.tap.relayer",
            failure="the process that relays cannot be started",
            # It belongs to this process, and has nothing to bring to an end.
            on_parents_death=signal.SIGKILL,
        )
        self._channel = LoopChannel(self._child.socket, self._told, lambda: self._end(""))

    @property
    def over(self) -> bool:
        """It relays nothing any more."""
        return bool(self.words)

    def begin(
        self,
        runtime: socket.socket,
        plugin: socket.socket,
        listener: Listener,
        faults: Faults | None,
    ) -> Relaying:
        self._begun += 1
        number = self._begun
        relaying = self._relayings[number] = Relaying(self, number, listener)
        texts = None if faults is None or not faults.any else faults.texts()
        try:
            sockets = (runtime.fileno(), plugin.fileno())
            self._channel.send_with(sockets, RELAY, values(number, texts))
        except BlockingIOError:
            # It takes no orders: it stands still.
            self.kill()
        except OSError as error:
            del self._relayings[number]
            words = (
                f"the sockets could not be handed over: {(error.strerror or str(error)).lower()}"
            )
            relaying.end(Relayed(RelayEnd(None, words), monotonic_ns(), ""))
        return relaying

    def end_relay(self, number: int, words: str) -> None:
        # Where it cannot be told, it is gone, or about to be.
        self._channel.send(CLOSE, values(number, words))

    def close(self) -> None:
        if not self.over:
            self._end("the tap has ended")

    def kill(self) -> None:
        """End it whatever it does; `_end` learns of it."""
        self._child.signal(signal.SIGKILL)

    def _told(self, kind: int, payload: bytes, _descriptors: Sequence[int]) -> None:
        # In turns of some microseconds: who waits for this processor may be the runtime.
        os.sched_yield()
        self.messages += 1
        if kind in (Told.FORTH, Told.BACK):
            number, arrived_ns, passed_ns, data = piece(payload)
            self._relayings[number].heard(kind == Told.FORTH, data, arrived_ns, passed_ns)
            return
        number, at_ns, *told = json.loads(payload)
        if kind == Told.READY:
            if not self.ready.done():
                self.ready.set_result(None)
        else:
            self._relayings[number].told(kind, at_ns, told)
            if kind == Told.ENDED:
                del self._relayings[number]

    def _end(self, words: str) -> None:
        if self.over:
            return
        self.words = words or "the process that relays is gone"
        self._channel.close()
        end = self._child.stop(EXIT_S, terminate_s=0)
        self.words = words or f"the process that relays has ended, {end.words}"
        if not self.ready.done():
            self.ready.set_result(None)
        for relaying in self._relayings.values():
            relaying.end(Relayed(RelayEnd(None, self.words), monotonic_ns(), ""))
        self._relayings.clear()
