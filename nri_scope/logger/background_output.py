# SPDX-License-Identifier: Apache-2.0
"""Write output in a background thread, for callers that must neither block nor fail."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Background(Generic[T]):
    """Hands items to ``write`` in a separate thread.

    While a terminal is stopped (^S), a pipe has no reader or is closed, or the disk is full, items
    are skipped; their number is passed to ``skipped`` once writing continues.
    """

    def __init__(
        self,
        write: Callable[[T], None],
        *,
        flush: Callable[[], None] = lambda: None,
        skipped: Callable[[int], None] = lambda count: None,
        waiting_max: int = 1000,
    ) -> None:
        self._write = write
        self._flush = flush
        self._tell_skipped = skipped
        self._waiting_max = waiting_max
        self._waiting: deque[T] = deque()
        self._skipped = 0
        self._bell = threading.Event()
        self._closing = False
        self._broken = False
        # A daemon: a reader that never reads must not keep the process alive.
        self._thread = threading.Thread(target=self._run, name="output", daemon=True)
        self._thread.start()

    def put(self, item: T) -> None:
        """Queue an item, or skip it. Never blocks and never raises."""
        if self._broken:
            return
        if len(self._waiting) >= self._waiting_max:
            self._skipped += 1
            return
        self._waiting.append(item)
        self._bell.set()

    def close(self, timeout: float = 2.0) -> None:
        """Write the waiting items, for at most ``timeout`` seconds."""
        self._closing = True
        self._bell.set()
        self._thread.join(timeout)

    def _run(self) -> None:
        while not (self._closing and not self._waiting):
            self._bell.wait()
            self._bell.clear()
            try:
                self._write_waiting()
            except (OSError, ValueError):
                # The output no longer has a reader (ValueError: the stream is closed). The command
                # continues without output.
                self._broken = True
                self._waiting.clear()
                return

    def _write_waiting(self) -> None:
        while self._waiting:
            self._write(self._waiting.popleft())
        skipped, self._skipped = self._skipped, 0
        if skipped:
            self._tell_skipped(skipped)
        self._flush()
