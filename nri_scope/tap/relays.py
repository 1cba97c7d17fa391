# SPDX-License-Identifier: Apache-2.0
"""Relays in a process of their own, as the tap sees them.

Python lets one thread run at a time, and a system of few processors has few. In one process with
what decodes and records, a relay would wait for these now and then, and with it a runtime.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import socket
import subprocess
import sys
from time import monotonic_ns
from typing import NamedTuple, Protocol

from nri_scope.errors import UsageError
from nri_scope.runtime.process import exit_words
from nri_scope.transport.relay import RelayEnd

from .faults import Faults
from .telling import ORDER_MAX, Ear, Kind, Told, fault_words

CLOSE_S = 3.0
"""For it to close a connection that it is told to; then it is killed, which closes all of them."""
READY_S = 10.0
"""For the process to begin to work."""
EXIT_S = 3.0
"""For it to end."""
_READ = 32 << 10
_PROGRAM = (
    "import sys; _, orders, telling, *sys.path = sys.argv; "
    "from nri_scope.tap.relayer import main; main(int(orders), int(telling))"
)
"""A module found where this process found it, whatever led there."""


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
            asyncio.get_running_loop().call_later(CLOSE_S, self._insist)

    def _insist(self) -> None:
        if not self.closed:
            self._process.kill()

    def told(self, told: Told) -> None:
        """Something was told of it."""
        match told.kind:
            case Kind.ENDED:
                first, words, faults = told.values()
                end = RelayEnd(None if first is None else bool(first), str(words))
                self.end(Relayed(end, told.at_ns, str(faults)))
            case _ if self.listener is not None:
                try:
                    _tell(self.listener, told)
                except Exception as error:  # noqa: BLE001 - what a peer said must not end a tap
                    listener, self.listener = self.listener, None
                    listener.deafen(fault_words(error))

    def end(self, relayed: Relayed) -> None:
        """It is over."""
        if not self.closed:
            self._ended.set_result(relayed)


def _tell(listener: Listener, told: Told) -> None:
    match told.kind:
        case Kind.FORTH | Kind.BACK:
            listener.heard(told.kind is Kind.FORTH, told.data, told.at_ns, told.until_ns)
        case Kind.KEPT:
            conn_id, stream_id, words = told.values()
            assert isinstance(conn_id, int) and isinstance(stream_id, int)
            listener.keep_from(conn_id, stream_id, str(words))
        case Kind.DEAF:
            listener.deafen(str(told.values()[0]), told.at_ns)


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
        if not sys.executable:
            raise UsageError("nothing can be relayed: Python does not know its own program")
        self.words = ""
        """Why it is over."""
        loop = asyncio.get_running_loop()
        self.ready: asyncio.Future[None] = loop.create_future()
        self._ear = Ear()
        self._relayings: dict[int, Relaying] = {}
        self._begun = 0
        # Orders have boundaries, and each keeps the descriptors that it came with.
        self._orders, orders = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._orders.setblocking(False)
        self._told, telling = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        descriptors = (orders.fileno(), telling.fileno())
        # Isolated: what is not in our path is not in its path either.
        manner = ("-I", "-B") if sys.dont_write_bytecode else ("-I",)
        arguments = (*manner, "-c", _PROGRAM, *map(str, descriptors), *sys.path)
        try:
            self._popen = subprocess.Popen(
                [sys.executable, *arguments],
                pass_fds=descriptors,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                # What a terminal sends is for the tap, which knows what to make of it.
                start_new_session=True,
            )
        except OSError as error:
            self._orders.close()
            self._told.close()
            words = f"{sys.executable}: {(error.strerror or str(error)).lower()}"
            raise UsageError(f"the process that relays cannot be started: {words}") from error
        finally:
            orders.close()
            telling.close()
        self._told.setblocking(False)
        loop.add_reader(self._told, self._readable)

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
            self._order({"relay": number, "faults": texts}, runtime.fileno(), plugin.fileno())
        except OSError as error:
            del self._relayings[number]
            words = (
                f"the sockets could not be handed over: {(error.strerror or str(error)).lower()}"
            )
            relaying.end(Relayed(RelayEnd(None, words), monotonic_ns(), ""))
        return relaying

    def end_relay(self, number: int, words: str) -> None:
        # Where it cannot be told, it is gone, or about to be.
        with contextlib.suppress(OSError):
            self._order({"relay": number, "close": words})

    def close(self) -> None:
        if not self.over:
            self._end("the tap has ended")

    def kill(self) -> None:
        """End it whatever it does; `_readable` learns of it."""
        self._popen.kill()

    def _order(self, order: dict[str, object], *descriptors: int) -> None:
        data = json.dumps(order).encode()
        if len(data) > ORDER_MAX:
            raise OSError(errno.EMSGSIZE, os.strerror(errno.EMSGSIZE))
        try:
            socket.send_fds(self._orders, [data], descriptors)
        except (BrokenPipeError, ConnectionResetError):
            # `_readable` is about to learn that, too, and more.
            return
        except BlockingIOError:
            # So many orders wait for it only when it stands still.
            self.kill()

    def _readable(self) -> None:
        try:
            data = self._told.recv(_READ)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self._end("")
            return
        for told in self._ear.feed(data):
            # In turns of some microseconds: who waits for this processor may be the runtime.
            os.sched_yield()
            if told.kind is Kind.READY:
                if not self.ready.done():
                    self.ready.set_result(None)
                continue
            self._relayings[told.relay].told(told)
            if told.kind is Kind.ENDED:
                del self._relayings[told.relay]

    def _end(self, words: str) -> None:
        self.words = words or "the process that relays is gone"
        asyncio.get_running_loop().remove_reader(self._told)
        self._orders.close()
        self._told.close()
        status = self._exit_status()
        self.words = words or f"the process that relays has ended, {exit_words(status)}"
        if not self.ready.done():
            self.ready.set_result(None)
        for relaying in self._relayings.values():
            relaying.end(Relayed(RelayEnd(None, self.words), monotonic_ns(), ""))
        self._relayings.clear()

    def _exit_status(self) -> int:
        try:
            return self._popen.wait(EXIT_S)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            return self._popen.wait()
