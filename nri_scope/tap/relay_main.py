# SPDX-License-Identifier: Apache-2.0
"""The relay process, which relays data and sends copies to the recording process.

The recording process is its parent, from which it receives orders. It ignores stop signals, which a
terminal sends to both. When the recording process ends for any reason, the relay process closes all
connections and exits.
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

from .relay_messages import RELAY, ReportKind, describe_error, encode_values, piece_head

if TYPE_CHECKING:
    from .fault_injection import Faulty

TOO_MUCH = (
    "recording stopped: the recorder could not follow the relayed traffic; it was relayed all "
    "the same"
)
NO_ROOM = "the relay process has too many open files"
LAST_S = 1.0
"""Maximum time in seconds to send the last messages at the end."""
WAIT_S = 0.02
"""Maximum delay in seconds of the report of a piece. Sending each one immediately would take
processor time for which the receiver of the piece may be waiting."""

_FORTH, _BACK = int(ReportKind.FORTH), int(ReportKind.BACK)
"""The values as plain integers, which `struct` packs in half the time."""


def main(descriptor: int) -> None:
    """Execute the orders received on a channel, and send reports, until the channel is closed."""
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
        """Start executing orders. Requires a running event loop."""
        self.over = asyncio.Event()
        """Set when the other end of the channel is closed."""
        self._channel = LoopChannel(sock, self._execute, self.over.set, delay_s=WAIT_S)
        self._relays: dict[int, Relay] = {}
        self._unreported: set[int] = set()
        self._ending: set[asyncio.Task[None]] = set()
        self._report(ReportKind.READY, 0)

    async def close(self) -> None:
        """Close all connections, and report their ends if the channel is still open."""
        for relay in self._relays.values():
            relay.close("the tap is gone")
        await asyncio.gather(*self._ending)
        await self._channel.drain(LAST_S)

    def _report(self, kind: ReportKind, number: int, *more: object) -> None:
        self._channel.send(kind, encode_values(number, monotonic_ns(), *more))

    def _execute(self, kind: int, payload: bytes, descriptors: Sequence[int]) -> None:
        number, order = json.loads(payload)
        if kind != RELAY:
            if number in self._relays:
                self._relays[number].close(order)
            return
        sockets = [socket.socket(fileno=one) for one in descriptors]
        words = NO_ROOM
        # The kernel omits descriptors beyond the limit of this process.
        if len(sockets) == 2:
            try:
                self._begin_relay(number, sockets[0], sockets[1], order)
                return
            except OSError as error:
                words = (error.strerror or str(error)).lower()
            except Exception as error:  # noqa: BLE001 - the tap waits for this relay's end
                words = describe_error(error)
        for sock in sockets:
            sock.close()
        self._report(ReportKind.ENDED, number, None, words, "")

    def _begin_relay(
        self,
        number: int,
        first: socket.socket,
        second: socket.socket,
        faults: Mapping[str, Any] | None,
    ) -> None:
        faulty = None if faults is None else self._faulty(number, faults)
        relay = self._relays[number] = Relay(
            first,
            second,
            partial(self._on_piece, number),
            fault_hook=faulty,
            on_failure=lambda error: self._stop_reporting(number, describe_error(error)),
        )
        ending = asyncio.create_task(self._end(number, relay, faulty))
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    def _faulty(self, number: int, faults: Mapping[str, Any]) -> Faulty:
        # Imported late: NRI decoding takes memory, and without faults this process needs none.
        from .fault_injection import Faulty
        from .faults import parse_faults

        faulty = Faulty(parse_faults(**faults))
        faulty.on_dropped = lambda *dropped: self._report(ReportKind.DROPPED, number, *dropped)
        return faulty

    def _on_piece(
        self, number: int, forth: bool, data: bytes, arrived_ns: int, passed_ns: int
    ) -> None:
        if number in self._unreported:
            return
        head = piece_head(number, arrived_ns, passed_ns)
        if not self._channel.offer(_FORTH if forth else _BACK, head, data):
            self._stop_reporting(number, TOO_MUCH)

    def _stop_reporting(self, number: int, words: str) -> None:
        self._unreported.add(number)
        self._report(ReportKind.UNREPORTED, number, words)

    async def _end(self, number: int, relay: Relay, faulty: Faulty | None) -> None:
        end = await relay.wait_closed()
        del self._relays[number]
        self._unreported.discard(number)
        made = faulty.summary() if faulty is not None else ""
        self._report(ReportKind.ENDED, number, end.by_first, end.reason, made)
