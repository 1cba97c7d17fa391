# SPDX-License-Identifier: Apache-2.0
"""Replies in a replay, and their verdicts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from google.protobuf.message import Message


class Verdict(StrEnum):
    """Verdict on a reply."""

    OK = "ok"
    LATE = "late"
    """The reply missed the deadline, so a runtime disconnects the plugin."""
    ERROR = "error"
    """An error status."""
    CRASH = "crash"
    """The connection ended before a reply came."""
    MALFORMED = "malformed"
    """The reply cannot be decoded, or violates the protocol."""
    CONFLICT = "conflict"
    """The runtime rejects a valid reply, for example because of another plugin's."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One plugin's reply to one event."""

    event_id: int
    """The event's id in the recording; 0 for an event that is not in the recording."""
    event: str
    """The event's name as in filters, such as CreateContainer, Configure or Synchronize."""
    plugin: str
    """``NN-name``."""
    subject: str
    """``namespace/pod`` or ``namespace/pod/container``; "" for an event about neither."""
    occurrence: int
    """Ordinal number, from 1, of this event for this plugin and subject."""
    message: Message | None
    """None after an error, or for an unknown method."""
    verdict: Verdict
    problem: str
    """A description of the problem; "" if the verdict is OK."""
    took_ns: int
    deadline_ns: int
    """The request's deadline; 0 if there was none."""
    max_took_ns: int = 0
    """Maximum response time that the user accepts; 0 for no limit but the deadline."""

    @property
    def slow(self) -> bool:
        """Whether it took more than half of the deadline, and was in time."""
        return self.verdict is Verdict.OK and 2 * self.took_ns > self.deadline_ns > 0

    @property
    def too_slow(self) -> bool:
        """Whether it took longer than the user accepts, and was in time for the runtime."""
        return self.verdict is Verdict.OK and self.took_ns > self.max_took_ns > 0
