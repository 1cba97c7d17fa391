# SPDX-License-Identifier: Apache-2.0
"""Read lines of standard input in the event loop, which keeps handling ^C and plugins."""

from __future__ import annotations

import asyncio
import os

_READ_SIZE = 4096
_LINE_MAX = 1 << 20
"""Maximum bytes of a line; longer ones are cut."""


class LineReader:
    """Lines of a file descriptor."""

    def __init__(self, descriptor: int) -> None:
        self.is_terminal = os.isatty(descriptor)
        self._descriptor = descriptor
        self._data = bytearray()
        self._has_ended = False

    async def line(self) -> str | None:
        """Return the next line without its end; None at the end of the input."""
        while (at := self._data.find(b"\n")) < 0 and not self._has_ended:
            await self._readable()
            data = os.read(self._descriptor, _READ_SIZE)
            if len(self._data) < _LINE_MAX:
                self._data += data
            self._has_ended = not data
        if at < 0:
            # Without a line end, it was not entered.
            return None
        line = self._data[:at].decode(errors="replace")
        del self._data[: at + 1]
        return line

    async def _readable(self) -> None:
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        try:
            loop.add_reader(self._descriptor, ready.set)
        except OSError:
            # A regular file, which is always readable.
            return
        try:
            await ready.wait()
        finally:
            loop.remove_reader(self._descriptor)
