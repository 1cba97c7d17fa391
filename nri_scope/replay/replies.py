# SPDX-License-Identifier: Apache-2.0
"""Replies of a replay, and the verdicts on them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from google.protobuf.message import Message


class Verdict(StrEnum):
    """The verdict on a reply, in one word."""

    OK = "ok"
    LATE = "late"
    """After the request's deadline; a runtime drops the plugin for it."""
    ERROR = "error"
    """An error status."""
    CRASH = "crash"
    """The connection ended instead of a reply."""
    RUBBISH = "rubbish"
    """Not a reply: what came cannot be decoded."""
    CONFLICT = "conflict"
    """The runtime refuses what was asked for, another plugin's choice being one reason."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One plugin's answer to one event."""

    event_id: int
    """Of the recording; 0 for what the recording does not hold."""
    event: str
    """As filters name it: CreateContainer; Configure and Synchronize too."""
    plugin: str
    """``NN-name``."""
    subject: str
    """``namespace/pod`` or ``namespace/pod/container``; "" for what is about neither."""
    occurrence: int
    """1 for the first such event of this subject that this plugin got, 2 for the next, …"""
    message: Message | None
    """None where there is none: an error, or a method that is unknown."""
    verdict: Verdict
    problem: str
    """In words, "" with verdict ok."""
    took_ns: int
    deadline_ns: int
    """How long the plugin might have taken; 0 where there was no deadline."""

    @property
    def slow(self) -> bool:
        """Whether it took more than half of its time, and was in time."""
        return self.verdict is Verdict.OK and 2 * self.took_ns > self.deadline_ns > 0
