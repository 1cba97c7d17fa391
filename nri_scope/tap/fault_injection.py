# SPDX-License-Identifier: Apache-2.0
"""Inject faults into a tapped connection."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from time import monotonic_ns

from nri_scope.nri.events import PLUGIN_CONN
from nri_scope.nri.request_subject import UNKNOWN, decode_request
from nri_scope.transport.relay import Relay
from nri_scope.wire import Code
from nri_scope.wire.mux import FramedPiece, MessageSplitter, error_response, parse_request
from nri_scope.wire.ttrpc import MessageType

from .settings import Fault, Faults

DROPPED = "withheld from the plugin by fault injection (--drop)"
FAILED = "made to fail on purpose (--error)"

HELD_MAX = 1024
"""Maximum number of replies delayed at a time; further replies are forwarded immediately."""
HELD_BYTES_MAX = 64 << 20
"""Maximum total size of delayed replies in bytes."""


class Faulty:
    """A `transport.relay.FaultHook` that forwards messages, except those randomly chosen for a
    fault.
    """

    def __init__(self, faults: Faults) -> None:
        self.on_dropped: Callable[[int, int, str], None] = lambda conn_id, stream_id, words: None
        """Called for each request that is not forwarded, before the request is reported: mux id,
        stream id, reason."""
        self._faults = faults
        self._random = random.Random(faults.seed)
        self._forth = MessageSplitter(PLUGIN_CONN)
        self._back = MessageSplitter(PLUGIN_CONN)
        self._delays: dict[int, float] = {}
        """Seconds by which to delay future replies, by stream id."""
        self._held = self._held_bytes = 0
        self._dropped = self._failed = self._delayed = 0

    def receive(self, relay: Relay, forth: bool, data: bytes, arrived_ns: int) -> None:
        """Forward data from the runtime (``forth``) or from the plugin, with faults."""
        for framed in (self._forth if forth else self._back).feed(data):
            if forth and framed.type == MessageType.REQUEST:
                self._forward_request(relay, framed, arrived_ns)
            elif not forth and framed.type == MessageType.RESPONSE:
                self._forward_reply(relay, framed, arrived_ns)
            else:
                relay.pass_on(forth, framed.raw, arrived_ns)

    def finish(self, relay: Relay, forth: bool) -> None:
        """Forward the remaining data of a direction that has ended."""
        rest = (self._forth if forth else self._back).flush()
        if rest:
            relay.pass_on(forth, rest, monotonic_ns())

    def summary(self) -> str:
        """Return a sentence with the counts of injected faults."""
        text = (
            f"injected faults: {self._delayed} replies delayed, {self._dropped} requests "
            f"dropped, {self._failed} answered with an error"
        )
        if self._forth.is_passthrough or self._back.is_passthrough:
            text += "; none once the connection could not be understood"
        return text

    def _forward_request(self, relay: Relay, framed: FramedPiece, arrived_ns: int) -> None:
        event = self._event(framed.data)
        faults = self._faults
        if self._matching_fault(faults.drops, event) is not None:
            self._dropped += 1
            self.on_dropped(PLUGIN_CONN, framed.stream_id, DROPPED)
            relay.notify(True, framed.raw, arrived_ns, arrived_ns)
            return
        if self._matching_fault(faults.errors, event) is not None:
            self._failed += 1
            relay.notify(True, framed.raw, arrived_ns, arrived_ns)
            error = error_response(PLUGIN_CONN, framed.stream_id, Code.UNKNOWN, FAILED)
            relay.pass_on(False, error, arrived_ns)
            return
        delay = self._matching_fault(faults.delays, event)
        if delay is not None and len(self._delays) < HELD_MAX:
            self._delays[framed.stream_id] = delay.delay_s
        relay.pass_on(True, framed.raw, arrived_ns)

    def _forward_reply(self, relay: Relay, framed: FramedPiece, arrived_ns: int) -> None:
        delay_s = self._delays.pop(framed.stream_id, None)
        size = len(framed.raw)
        if delay_s is None or self._held >= HELD_MAX or self._held_bytes + size > HELD_BYTES_MAX:
            relay.pass_on(False, framed.raw, arrived_ns)
            return
        self._delayed += 1
        self._held += 1
        self._held_bytes += size

        due_ns = arrived_ns + int(delay_s * 1e9)
        loop = asyncio.get_running_loop()

        def release() -> None:
            left_ns = due_ns - monotonic_ns()
            if left_ns > 0:
                # uvloop's timers may fire early: they start at the beginning of the loop's
                # iteration, and have millisecond resolution.
                loop.call_later(left_ns / 1e9, release)
                return
            self._held -= 1
            self._held_bytes -= size
            relay.pass_on(False, framed.raw, arrived_ns)

        loop.call_later(delay_s, release)

    def _matching_fault(self, faults: tuple[Fault, ...], event: str) -> Fault | None:
        for fault in faults:
            if event in fault.events and self._random.random() < fault.probability:
                return fault
        return None

    def _event(self, data: bytes) -> str:
        named = parse_request(data)
        if named is None:
            return ""
        service, method, payload = named
        decoded = decode_request(method, payload, service)
        # A method of another service may have the name of an event.
        return "" if decoded.mark == UNKNOWN else decoded.event
