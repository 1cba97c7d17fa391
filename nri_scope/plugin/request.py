# SPDX-License-Identifier: Apache-2.0
"""The request of the running handler, with its deadline."""

from __future__ import annotations

from contextvars import ContextVar
from time import monotonic_ns


class Request:
    """One request to a handler."""

    def __init__(self, handler: str, subject: str, timeout_ns: int) -> None:
        self.handler = handler
        self.subject = subject
        """``namespace/pod/container``; parts that the request lacks are omitted."""
        self.answered = False
        self._deadline_ns = monotonic_ns() + timeout_ns if timeout_ns else None

    def __str__(self) -> str:
        return f"{self.handler} {self.subject}".rstrip()

    @property
    def time_left(self) -> float | None:
        """Seconds until the deadline, negative after it; None without a deadline."""
        if self._deadline_ns is None:
            return None
        return (self._deadline_ns - monotonic_ns()) / 1e9


CURRENT: ContextVar[Request | None] = ContextVar("nri_scope_plugin_request", default=None)


def unanswered() -> Request | None:
    """Return the unanswered request of the running handler; also in tasks that it started."""
    request = CURRENT.get()
    return None if request is None or request.answered else request


def time_left() -> float | None:
    """Return the seconds until the running handler's deadline; None without handler or deadline.

    A runtime disconnects a plugin that misses the deadline, and continues without it.
    """
    request = unanswered()
    return None if request is None else request.time_left
