# SPDX-License-Identifier: Apache-2.0
"""The relay process: it only relays, and sends copies to the recording process.

It belongs to the recording process: it takes orders only from there, ignores signals sent to both,
and ends when that process ends for any reason. Connections are then closed.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Mapping, Sequence
from functools import partial
from time import monotonic_ns
from typing import TYPE_CHECKING, Any

from nri_scope.process.channel import LoopChannel
from nri_scope.process.signals import ignore_stop_signals
from nri_scope.transport.loop import prepare_process, run
from nri_scope.transport.relay import Relay

from .relay_messages import RELAY, ReportKind, fault_words, piece_head, values

if TYPE_CHECKING:
    from .fault_injection import Faulty

TOO_MUCH = (
    "nothing is recorded from here on: more was relayed than could be looked at in time; it was "
    "relayed all the same"
)
NO_ROOM = "the process that relays can have no more open files"
LAST_S = 1.0
"""Seconds to send the last messages at the end."""
WAIT_S = 0.02
"""Seconds that the report of a piece may wait. Sending each at once would take microseconds of
processor time for which the peer that receives the piece may be waiting."""

_FORTH, _BACK = int(ReportKind.FORTH), int(ReportKind.BACK)
"""The values as plain integers, which are packed in half the time."""


def main(descriptor: int) -> None:
    """Relay as ordered on a channel, and report on that channel, until it is closed."""
    ignore_stop_signals()
    prepare_process()
    run(_work(socket.socket(fileno=descriptor)))


async def _work(sock: socket.socket) -> None:
    relayer = Relayer(sock)
    await relayer.over.wait()
    await relayer.close()


class Relayer:
    """All relays of the relay process."""

    def __init__(self, sock: socket.socket) -> None:
        """Start taking orders. Needs a running event loop."""
        self.over = asyncio.Event()
        """Set when the other end of the channel is closed."""
        self._channel = LoopChannel(sock, self._obey, self.over.set, delay_s=WAIT_S)
        self._relays: dict[int, Relay] = {}
        self._deaf: set[int] = set()
        self._ending: set[asyncio.Task[None]] = set()
        self._tell(ReportKind.READY, 0)

    async def close(self) -> None:
        """Close all connections, and report it if the channel is still open."""
        for relay in self._relays.values():
            relay.close("the tap is gone")
        await asyncio.gather(*self._ending)
        await self._channel.drain(LAST_S)

    def _tell(self, kind: ReportKind, number: int, *more: object) -> None:
        self._channel.send(kind, values(number, monotonic_ns(), *more))

    def _obey(self, kind: int, payload: bytes, descriptors: Sequence[int]) -> None:
        number, order = json.loads(payload)
        if kind != RELAY:
            if number in self._relays:
                self._relays[number].close(order)
            return
        sockets = [socket.socket(fileno=one) for one in descriptors]
        words = NO_ROOM
        # The system omits descriptors for which this process has no free number.
        if len(sockets) == 2:
            try:
                self._begin(number, sockets[0], sockets[1], order)
                return
            except OSError as error:
                words = (error.strerror or str(error)).lower()
            except Exception as error:  # noqa: BLE001 - the tap waits for this relay's end
                words = fault_words(error)
        for sock in sockets:
            sock.close()
        self._tell(ReportKind.ENDED, number, None, words, "")

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
            fault_hook=through,
            on_failure=lambda error: self._deafen(number, fault_words(error)),
        )
        ending = asyncio.create_task(self._end(number, relay, through))
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    def _faulty(self, number: int, faults: Mapping[str, Any]) -> Faulty:
        # Imported late: decoding NRI takes memory, and most taps need it in one process only.
        from .fault_injection import Faulty
        from .faults import parse_faults

        faulty = Faulty(parse_faults(**faults))
        faulty.on_kept = lambda *kept: self._tell(ReportKind.KEPT, number, *kept)
        return faulty

    def _heard(
        self, number: int, forth: bool, data: bytes, arrived_ns: int, passed_ns: int
    ) -> None:
        if number in self._deaf:
            return
        head = piece_head(number, arrived_ns, passed_ns)
        if not self._channel.offer(_FORTH if forth else _BACK, head, data):
            self._deafen(number, TOO_MUCH)

    def _deafen(self, number: int, words: str) -> None:
        self._deaf.add(number)
        self._tell(ReportKind.DEAF, number, words)

    async def _end(self, number: int, relay: Relay, faulty: Faulty | None) -> None:
        end = await relay.wait_closed()
        del self._relays[number]
        self._deaf.discard(number)
        made = faulty.summary() if faulty is not None else ""
        self._tell(ReportKind.ENDED, number, end.by_first, end.reason, made)
