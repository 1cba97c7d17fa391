# SPDX-License-Identifier: Apache-2.0
"""Replies in a replay, and the verdicts on them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from google.protobuf.message import Message


class Verdict(StrEnum):
    """The verdict on a reply, in one word."""

    OK = "ok"
    LATE = "late"
    """After the request's deadline, for which a runtime disconnects a plugin."""
    ERROR = "error"
    """An error status."""
    CRASH = "crash"
    """The connection ended before a reply came."""
    RUBBISH = "rubbish"
    """Not a reply: its bytes cannot be decoded."""
    CONFLICT = "conflict"
    """The runtime refuses the request, for example because of another plugin's."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One plugin's answer to one event."""

    event_id: int
    """The event's id in the recording; 0 for an event that is not in the recording."""
    event: str
    """The event's name as in filters, such as CreateContainer, Configure or Synchronize."""
    plugin: str
    """``NN-name``."""
    subject: str
    """``namespace/pod`` or ``namespace/pod/container``; "" for an event about neither."""
    occurrence: int
    """Ordinal number of this event among those of this subject that this plugin got, from 1."""
    message: Message | None
    """None if there is none: after an error, or for an unknown method."""
    verdict: Verdict
    problem: str
    """A description of the problem; "" if the verdict is OK."""
    took_ns: int
    deadline_ns: int
    """The request's deadline; 0 if there was none."""

    @property
    def slow(self) -> bool:
        """Whether it took more than half of its deadline, but was in time."""
        return self.verdict is Verdict.OK and 2 * self.took_ns > self.deadline_ns > 0
