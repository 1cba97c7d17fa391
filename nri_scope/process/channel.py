# SPDX-License-Identifier: Apache-2.0
"""One end of a channel between two processes, for an event loop or for threads.

A message has a length, a kind and a payload.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterator

from nri_scope.errors import ProtocolError, RemoteProtocolError

HEAD = struct.Struct("=IB")
"""Payload length in bytes and kind, in native byte order, as both ends run on one machine."""
PAYLOAD_MAX = 64 << 20
"""Maximum payload in bytes. nri-scope never sends more, so a larger one means a corrupt stream."""


def message(kind: int, *parts: bytes) -> bytes:
    """Encode a message whose payload is the concatenation of ``parts``."""
    return b"".join((HEAD.pack(sum(map(len, parts)), kind), *parts))


class ChannelReader:
    """Parser of messages in a stream of arbitrary chunks, in time linear in the stream's length."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._needed = HEAD.size
        """Length of ``_rest`` required to parse further."""

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield kind and payload of each message that ``data`` completes.

        Raises RemoteProtocolError if a payload has more than `PAYLOAD_MAX` bytes.
        """
        if self._rest:
            self._rest += data
            if len(self._rest) < self._needed:
                return
            data = bytes(self._rest)
        start, end = 0, HEAD.size
        while end <= len(data):
            size, kind = HEAD.unpack_from(data, start)
            if size > PAYLOAD_MAX:
                raise RemoteProtocolError(
                    f"message between processes has {size:,} bytes; the limit is {PAYLOAD_MAX:,}"
                )
            end += size
            if end > len(data):
                break
            yield kind, data[start + HEAD.size : end]
            start, end = end, end + HEAD.size
        self._rest = bytearray(data[start:])
        self._needed = end - start


READ_BYTES = 32 << 10
"""Maximum number of bytes to receive in one call."""
TURN_BYTES = 16 << 10
"""Maximum number of bytes sent, within some microseconds, before the event loop runs other
callbacks; a larger message is sent in one call."""
ITEM_BYTES = 64
"""Memory of a queued message in addition to its bytes."""

OnMessage = Callable[[int, bytes], None]
"""Callback for a message: kind and payload."""


class LoopChannel:
    """Non-blocking channel end in an event loop.

    Messages are sent in order, and in batches if several are queued.
    """

    def __init__(
        self,
        sock: socket.socket,
        on_message: OnMessage,
        on_end: Callable[[], None],
    ) -> None:
        """Start receiving in the running event loop.

        ``on_end`` is called when no more messages can be received, and when none can be sent.
        """
        # Imported here, as processes without an event loop do not need it.
        import asyncio

        sock.setblocking(False)
        self._socket = sock
        self._on_message = on_message
        self._on_end = on_end
        self.loop = asyncio.get_running_loop()
        self._reader = ChannelReader()
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._is_scheduled = False
        """Whether `_turn` will be called again."""
        self._sends = self._receives = True
        self.loop.add_reader(sock, self._readable)

    @property
    def waiting_bytes(self) -> int:
        """Number of queued bytes."""
        return self._bytes

    @property
    def can_receive(self) -> bool:
        """Whether messages may still arrive."""
        return self._receives

    def send(self, kind: int, *parts: bytes) -> None:
        """Send a message; ignored after the other process has ended."""
        if not self._sends:
            return
        data = message(kind, *parts)
        self._waiting.append(data)
        self._bytes += len(data) + ITEM_BYTES
        if not self._is_scheduled:
            self._is_scheduled = True
            self._turn()

    def finish(self) -> None:
        """Stop sending and drop queued messages; messages can still be received."""
        if self._sends:
            self._stop_sending()
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Stop sending and receiving, without calling ``on_end``."""
        self._stop_sending()
        self._stop_receiving()
        self._socket.close()

    def _stop_sending(self) -> None:
        if self._sends:
            self._sends = False
            self._waiting.clear()
            self.loop.remove_writer(self._socket)

    def _stop_receiving(self) -> None:
        if self._receives:
            self._receives = False
            self.loop.remove_reader(self._socket)

    def _turn(self) -> None:
        """Send one batch of queued messages."""
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
            self.loop.call_soon(self._turn)
        elif sent == size:
            self._is_scheduled = False
        else:
            self._queue_rest(data, sent)

    def _queue_rest(self, data: bytes, sent: int) -> None:
        if sent < len(data):
            self._is_scheduled = True
            self._waiting.appendleft(data[sent:])
            self._bytes += len(data) - sent + ITEM_BYTES
            self.loop.add_writer(self._socket, self._writable)

    def _writable(self) -> None:
        self.loop.remove_writer(self._socket)
        self._turn()

    def _readable(self) -> None:
        # Repeated until no data is left. If the other process ended without reading all messages,
        # uvloop reports the socket (ECONNRESET) only once, although data can still be received.
        if self._receives and self._read():
            self.loop.call_soon(self._readable)

    def _read(self) -> bool:
        """Receive once; return whether more data may follow."""
        try:
            data = self._socket.recv(READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            data = b""
        try:
            for kind, payload in self._reader.feed(data):
                if not self._receives:
                    return False
                self._on_message(kind, payload)
        except ProtocolError:
            data = b""
        if not data:
            self._stop_receiving()
            self._on_end()
        return bool(data)


class ThreadChannel:
    """Blocking channel end for threads: any of them may send, one may receive."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(True)
        self._socket = sock
        self._send_lock = threading.Lock()
        self._reader = ChannelReader()
        self._received: deque[tuple[int, bytes]] = deque()

    def send(self, kind: int, *parts: bytes) -> None:
        """Send a message; it is dropped if the other process has ended."""
        with contextlib.suppress(OSError), self._send_lock:
            self._socket.sendall(message(kind, *parts))

    def receive(self) -> tuple[int, bytes] | None:
        """Wait for the next message; return its kind and payload, or None at the end."""
        while not self._received:
            try:
                data = self._socket.recv(READ_BYTES)
                self._received.extend(self._reader.feed(data))
            except (OSError, ProtocolError):
                return None
            if not data:
                return None
        return self._received.popleft()
