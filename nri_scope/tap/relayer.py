# SPDX-License-Identifier: Apache-2.0
"""The process that relays, and does nothing else: what it relays is heard and recorded in another.

It belongs to that other one. It has no orders but its own, takes no notice of signals that are sent
to both, and ends when the other one does, however that ends: connections are closed then.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import signal
import socket
from collections.abc import Mapping
from functools import partial
from time import monotonic_ns
from typing import TYPE_CHECKING, Any

from nri_scope.transport.loop import run
from nri_scope.transport.relay import Relay
from nri_scope.transport.tuning import prepare_process

from .outbox import Outbox
from .telling import ORDER_MAX, Kind, fault_words, piece, telling

if TYPE_CHECKING:
    from .faulty import Faulty

TOO_MUCH = (
    "nothing is recorded from here on: more was relayed than could be looked at in time; it was "
    "relayed all the same"
)
NO_ROOM = "the process that relays can have no more open files"
LAST_S = 1.0
"""For what is still to be told at the end."""
_PR_SET_PDEATHSIG = 1


def main(orders: int, telling_to: int) -> None:
    """Relay what is ordered on one descriptor, and tell of it on the other, until it is closed."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    # It learns of the other one's end by its orders, but not while it is stopped.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    prepare_process()
    run(_work(socket.socket(fileno=orders), socket.socket(fileno=telling_to)))
    # There is nothing to clean up, and somebody waits.
    os._exit(0)


async def _work(orders: socket.socket, telling_to: socket.socket) -> None:
    relayer = Relayer(orders, telling_to)
    await relayer.over.wait()
    await relayer.close()


class Relayer:
    """All relays of the process."""

    def __init__(self, orders: socket.socket, telling_to: socket.socket) -> None:
        """To be made in a running event loop."""
        self.over = asyncio.Event()
        """Nobody gives orders or listens any more."""
        self._orders = orders
        self._outbox = Outbox(telling_to, self.over.set)
        self._relays: dict[int, Relay] = {}
        self._deaf: set[int] = set()
        self._ending: set[asyncio.Task[None]] = set()
        orders.setblocking(False)
        asyncio.get_running_loop().add_reader(orders, self._ordered)
        self._outbox.put(telling(Kind.READY, 0, monotonic_ns()))

    async def close(self) -> None:
        """Close all connections, and tell of it if somebody still listens."""
        for relay in self._relays.values():
            relay.close("the tap is gone")
        await asyncio.gather(*self._ending)
        await self._outbox.drain(LAST_S)

    def _ordered(self) -> None:
        data, descriptors = b"", list[int]()
        try:
            data, descriptors, _, _ = socket.recv_fds(self._orders, ORDER_MAX, 2)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            # As with the end of orders.
            pass
        if not data:
            asyncio.get_running_loop().remove_reader(self._orders)
            self.over.set()
            return
        self._obey(json.loads(data), descriptors)

    def _obey(self, order: dict[str, Any], descriptors: list[int]) -> None:
        number = order["relay"]
        if "close" in order:
            if number in self._relays:
                self._relays[number].close(order["close"])
            return
        sockets = [socket.socket(fileno=one) for one in descriptors]
        words = NO_ROOM
        # The system leaves out those for which there is no room.
        if len(sockets) == 2:
            try:
                self._begin(number, sockets[0], sockets[1], order["faults"])
                return
            except OSError as error:
                words = (error.strerror or str(error)).lower()
            except Exception as error:  # noqa: BLE001 - somebody waits for the end of this one
                words = fault_words(error)
        for sock in sockets:
            sock.close()
        self._outbox.put(telling(Kind.ENDED, number, monotonic_ns(), None, words, ""))

    def _begin(
        self,
        number: int,
        first: socket.socket,
        second: socket.socket,
        faults: Mapping[str, Any] | None,
    ) -> None:
        through = None if faults is None else self._faulty(number, faults)
        relay = self._relays[number] = Relay(
            first,
            second,
            partial(self._heard, number),
            through=through,
            on_failure=lambda error: self._deafen(number, fault_words(error)),
        )
        ending = asyncio.create_task(self._end(number, relay, through))
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    def _faulty(self, number: int, faults: Mapping[str, Any]) -> Faulty:
        # Decoding NRI takes memory that most taps need not have twice.
        from .faults import parse_faults
        from .faulty import Faulty

        faulty = Faulty(parse_faults(**faults))
        faulty.on_kept = lambda *kept: self._outbox.put(
            telling(Kind.KEPT, number, monotonic_ns(), *kept)
        )
        return faulty

    def _heard(
        self, number: int, forth: bool, data: bytes, arrived_ns: int, passed_ns: int
    ) -> None:
        if number in self._deaf:
            return
        if self._outbox.is_full:
            self._deafen(number, TOO_MUCH)
            return
        self._outbox.put(piece(number, forth, data, arrived_ns, passed_ns))

    def _deafen(self, number: int, words: str) -> None:
        self._deaf.add(number)
        self._outbox.put(telling(Kind.DEAF, number, monotonic_ns(), words))

    async def _end(self, number: int, relay: Relay, faulty: Faulty | None) -> None:
        end = await relay.wait_closed()
        del self._relays[number]
        self._deaf.discard(number)
        made = faulty.summary() if faulty is not None else ""
        self._outbox.put(telling(Kind.ENDED, number, monotonic_ns(), end.first, end.words, made))
