# SPDX-License-Identifier: Apache-2.0
"""One end of the channel between two processes, for an event loop or for threads."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import deque
from collections.abc import Callable, Sequence

from nri_scope.errors import ProtocolError

from .messages import WITH_DESCRIPTORS, MessageReader, message

READ_BYTES = 32 << 10
DESCRIPTORS_MAX = 8
"""Maximum number of descriptors with one message."""
TURN_BYTES = 16 << 10
"""Bytes sent before the event loop checks its sockets again: takes some microseconds."""
WAITING_BYTES_MAX = 64 << 20
"""Maximum number of queued bytes; if exceeded, the other process is stopped or far behind."""
ITEM_BYTES = 64
"""Memory per queued message in addition to its bytes."""

OnMessage = Callable[[int, bytes, Sequence[int]], None]
"""Callback for a message: kind, payload, and its descriptors, which the callback then owns."""


class LoopChannel:
    """Sends and receives in an event loop, without blocking.

    Messages are sent in order, and in batches if many are queued.
    """

    def __init__(
        self,
        sock: socket.socket,
        on_message: OnMessage,
        on_end: Callable[[], None],
        *,
        delay_s: float = 0.0,
    ) -> None:
        """Start receiving in the running event loop.

        ``on_end`` is called, possibly twice, when no more messages can be received or sent.
        ``delay_s``: how long a message may wait to be sent together with others. Sending each at
        once would take microseconds of processor time that another process may be waiting for.
        """
        # Not imported by a process that has no event loop.
        import asyncio

        sock.setblocking(False)
        self._socket = sock
        self._on_message = on_message
        self._on_end = on_end
        self._delay_s = delay_s
        self._loop = asyncio.get_running_loop()
        self._reader = MessageReader()
        self._descriptors: deque[Sequence[int]] = deque()
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._due = False
        self._sends = self._receives = True
        self._loop.add_reader(sock, self._readable)

    @property
    def waiting_bytes(self) -> int:
        """Number of bytes not sent yet."""
        return self._bytes

    @property
    def receives(self) -> bool:
        """Whether messages may still arrive."""
        return self._receives

    def offer(self, kind: int, *parts: bytes) -> bool:
        """Send a message, or drop it and return False while `WAITING_BYTES_MAX` is exceeded."""
        if self._bytes > WAITING_BYTES_MAX:
            return False
        self.send(kind, *parts)
        return True

    def send(self, kind: int, *parts: bytes) -> None:
        """Send a message that must not be dropped, however many are queued; these are few."""
        if not self._sends:
            return
        data = message(kind, *parts)
        self._waiting.append(data)
        self._bytes += len(data) + ITEM_BYTES
        if not self._due:
            self._due = True
            if self._delay_s:
                self._loop.call_later(self._delay_s, self._turn)
            else:
                self._turn()

    def send_with(self, descriptors: Sequence[int], kind: int, *parts: bytes) -> None:
        """Send a message with copies of ``descriptors`` immediately.

        Raises BlockingIOError if the other process has not read all earlier messages, and OSError
        if the system cannot copy the descriptors. For a process that is gone, only ``on_end`` is
        called.
        """
        if self._waiting:
            raise BlockingIOError
        data = message(kind | WITH_DESCRIPTORS, *parts)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._keep_rest(data, socket.send_fds(self._socket, [data], descriptors))

    async def drain(self, seconds: float) -> None:
        """Wait up to ``seconds`` until all messages are sent."""
        import asyncio

        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._waiting:
                    await asyncio.sleep(0.01)

    def finish(self) -> None:
        """Stop sending, and drop queued messages; the other process may still send."""
        if self._sends:
            self._stop_sending()
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Stop sending and receiving, without a call of ``on_end``."""
        self._stop_sending()
        self._stop_receiving()
        self._socket.close()

    def _stop_sending(self) -> None:
        if self._sends:
            self._sends = False
            self._waiting.clear()
            self._loop.remove_writer(self._socket)

    def _stop_receiving(self) -> None:
        if self._receives:
            self._receives = False
            self._loop.remove_reader(self._socket)

    def _turn(self) -> None:
        if not self._waiting:
            return
        parts = [self._waiting.popleft()]
        size = len(parts[0])
        while self._waiting and size + len(self._waiting[0]) <= TURN_BYTES:
            parts.append(self._waiting.popleft())
            size += len(parts[-1])
        data = b"".join(parts)
        self._bytes -= size + len(parts) * ITEM_BYTES
        try:
            sent = self._socket.send(data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError:
            self._stop_sending()
            self._on_end()
            return
        if sent == size and self._waiting:
            self._loop.call_soon(self._turn)
        elif sent == size:
            self._due = False
        else:
            self._keep_rest(data, sent)

    def _keep_rest(self, data: bytes, sent: int) -> None:
        if sent < len(data):
            self._due = True
            self._waiting.appendleft(data[sent:])
            self._bytes += len(data) - sent + ITEM_BYTES
            self._loop.add_writer(self._socket, self._writable)

    def _writable(self) -> None:
        self._loop.remove_writer(self._socket)
        self._turn()

    def _readable(self) -> None:
        # Until there is no more: uvloop tells only once of an end with unread orders (ECONNRESET),
        # although something is left to be read before it.
        if self._receives and self._read():
            self._loop.call_soon(self._readable)

    def _read(self) -> bool:
        """Read once; return whether there may be more."""
        try:
            data, descriptors, flags, _ = socket.recv_fds(self._socket, READ_BYTES, DESCRIPTORS_MAX)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            data, descriptors, flags = b"", [], 0
        if descriptors or flags & socket.MSG_CTRUNC:
            # All belong to one message: the system ends a read after a message's descriptors. It
            # omits descriptors for which this process has no free number.
            self._descriptors.append(descriptors)
        try:
            for kind, payload in self._reader.feed(data):
                if not self._receives:
                    return False
                if kind & WITH_DESCRIPTORS:
                    kind &= ~WITH_DESCRIPTORS
                    self._on_message(kind, payload, self._descriptors.popleft())
                else:
                    self._on_message(kind, payload, ())
        except ProtocolError:
            data = b""
        if not data:
            self._stop_receiving()
            self._on_end()
        return bool(data)


class ThreadChannel:
    """Sends from any thread and receives in one; both operations may block."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(True)
        self._socket = sock
        self._sending = threading.Lock()
        self._reader = MessageReader()
        self._received: deque[tuple[int, bytes]] = deque()

    def send(self, kind: int, *parts: bytes) -> None:
        """Send a message; it is dropped if the other process has ended."""
        with contextlib.suppress(OSError), self._sending:
            self._socket.sendall(message(kind, *parts))

    def receive(self) -> tuple[int, bytes] | None:
        """Return kind and payload of the next message; None if no more can arrive."""
        while not self._received:
            try:
                data = self._socket.recv(READ_BYTES)
                self._received.extend(self._reader.feed(data))
            except (OSError, ProtocolError):
                return None
            if not data:
                return None
        return self._received.popleft()
