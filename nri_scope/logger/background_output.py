# SPDX-License-Identifier: Apache-2.0
"""Write output in a background thread, for callers that must neither block nor fail."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Background(Generic[T]):
    """Bounded queue of items that a separate thread passes to ``write``.

    While ``write`` blocks, because a terminal is stopped (^S) or a pipe is not read, items beyond
    ``waiting_max`` are skipped; their number is passed to ``skipped`` once writing continues. After
    an error, such as a closed pipe or a full disk, all items are dropped.
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
        self._on_skipped = skipped
        self._waiting_max = waiting_max
        self._queue: deque[T] = deque()
        self._skipped = 0
        self._wake = threading.Event()
        self._closing = False
        self._has_failed = False
        # A daemon: a blocked write must not keep the process alive.
        self._thread = threading.Thread(target=self._run, name="output", daemon=True)
        self._thread.start()

    def put(self, item: T) -> None:
        """Queue an item, or skip it. Never blocks and never raises."""
        if self._has_failed:
            return
        if len(self._queue) >= self._waiting_max:
            self._skipped += 1
            return
        self._queue.append(item)
        self._wake.set()

    def close(self, timeout: float = 2.0) -> None:
        """Write the queued items, for at most ``timeout`` seconds."""
        self._closing = True
        self._wake.set()
        self._thread.join(timeout)

    def _run(self) -> None:
        while not (self._closing and not self._queue):
            self._wake.wait()
            self._wake.clear()
            try:
                self._write_queue()
            except (OSError, ValueError):
                # ValueError: the stream is closed. The command continues without output.
                self._has_failed = True
                self._queue.clear()
                return

    def _write_queue(self) -> None:
        while self._queue:
            self._write(self._queue.popleft())
        skipped, self._skipped = self._skipped, 0
        if skipped:
            self._on_skipped(skipped)
        self._flush()
