# SPDX-License-Identifier: Apache-2.0
"""Limits of the temporary copies that calls make of recordings."""

from __future__ import annotations

import threading

from grpclib.const import Status
from grpclib.exceptions import GRPCError

from nri_scope.recording.temporary_files import temporary_bytes

from .node_recordings import NodeRecordings

COPIES_FACTOR = 2
"""Maximum size of all copies as a multiple of the size of all recordings."""
COPIES_ALWAYS = 128 << 20
"""Number of bytes that copies may have however small the recordings are."""


class Copies(threading.Semaphore):
    """Slots for calls that make temporary copies, and a limit of the size of all copies."""

    def __init__(self, most: int, recordings: NodeRecordings) -> None:
        super().__init__(most)
        self._recordings = recordings

    def check(self) -> None:
        """Raise GRPCError (RESOURCE_EXHAUSTED) if the copies of all calls are too large."""
        copied = temporary_bytes()
        if copied <= COPIES_ALWAYS:
            return
        if copied > COPIES_FACTOR * sum(one.size for one in self._recordings.all()):
            text = "temporary copies for all calls are too large; select less, or try again later"
            raise GRPCError(Status.RESOURCE_EXHAUSTED, text)
