# SPDX-License-Identifier: Apache-2.0
"""A redactor for each recording of a node, which all calls share.

A redactor must learn from every event of a recording before it redacts one, which takes longer than
anything else in a call about one pod. A shared one learns from each event once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from nri_scope.share.redaction import Redactor

from .node_recordings import NodeRecording


@dataclass(slots=True)
class SharedRedactor:
    """A redactor for one thread at a time."""

    redactor: Redactor
    learned: int = 0
    """Number of the last event from which it has learned, as from all before it."""
    lock: threading.Lock = field(default_factory=threading.Lock)


class NodeRedactors:
    """Redactors by recording."""

    def __init__(self, new_redactor: Callable[[], Redactor]) -> None:
        self.new_redactor = new_redactor
        self._shared: dict[tuple[str, int], SharedRedactor] = {}
        """By name and inode."""
        self._lock = threading.Lock()

    @contextmanager
    def of(
        self, file: NodeRecording, while_waiting: Callable[[], None]
    ) -> Iterator[SharedRedactor]:
        """Hold the redactor of a recording in the block.

        ``while_waiting`` is called regularly while another call holds it; its exceptions end that.
        """
        with self._lock:
            key = file.name, file.inode
            shared = self._shared.get(key)
            if shared is None:
                shared = self._shared[key] = SharedRedactor(self.new_redactor())
        while not shared.lock.acquire(timeout=0.2):
            while_waiting()
        try:
            yield shared
        finally:
            shared.lock.release()

    def keep(self, files: Collection[NodeRecording]) -> None:
        """Forget the redactors of other recordings."""
        keys = {(file.name, file.inode) for file in files}
        with self._lock:
            self._shared = {key: one for key, one in self._shared.items() if key in keys}
