# SPDX-License-Identifier: Apache-2.0
"""Long work that nobody waits for any more."""

from __future__ import annotations

import threading
from asyncio import CancelledError


class Stop:
    """Set by whoever asked for some work; looked at by the work, in whichever thread that is."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        """The work is not wanted any more."""
        self._event.set()

    @property
    def is_set(self) -> bool:
        """Whether the work is over, or not wanted any more."""
        return self._event.is_set()

    def check(self) -> None:
        """To be called often. Raises CancelledError once the work is not wanted any more."""
        if self._event.is_set():
            raise CancelledError
