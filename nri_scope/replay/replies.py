# SPDX-License-Identifier: Apache-2.0
"""Replies in a replay, and their verdicts."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum

from google.protobuf.message import Message

from nri_scope.errors import (
    ConnectionClosed,
    DeadlineExceeded,
    NriScopeError,
    ProtocolViolated,
    RpcError,
    limit_words,
)
from nri_scope.nri.no_change import is_empty_reply
from nri_scope.runtime import Answer


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


class Judge:
    """Converter of answers to replies, which numbers the events of each plugin and subject."""

    def __init__(self, max_took_ns: int = 0) -> None:
        """``max_took_ns``: maximum response time that the user accepts; 0 for no limit."""
        self._max_took_ns = max_took_ns
        self._counts: Counter[tuple[str, str, str]] = Counter()

    def reply(
        self,
        answer: Answer,
        event_id: int,
        event: str,
        subject: str,
        *,
        refused: str = "",
        lost: str = "",
    ) -> Reply:
        """Return the reply with its verdict.

        ``refused``: why the runtime rejects it. ``lost``: how the plugin's connection ended, if it
        ended before the reply.
        """
        key = (answer.plugin, event, subject)
        self._counts[key] += 1
        outcome = verdict(answer.error)
        problem = str(answer.error or "")
        if outcome is Verdict.OK and refused:
            outcome, problem = Verdict.CONFLICT, refused
        elif outcome is Verdict.LATE:
            problem = f"no reply within {limit_words(answer.timeout_ns / 1e9)}"
        elif outcome is Verdict.CRASH:
            problem = lost or problem
        return Reply(
            event_id=event_id,
            event=event,
            plugin=answer.plugin,
            subject=subject,
            occurrence=self._counts[key],
            message=_shared(answer.reply),
            verdict=outcome,
            problem=problem,
            took_ns=answer.took_ns,
            deadline_ns=answer.timeout_ns,
            max_took_ns=self._max_took_ns,
        )


_EMPTY: dict[str, Message] = {}


def _shared(message: Message | None) -> Message | None:
    """Return one shared object for empty replies, as a recording may have millions."""
    if message is None or not is_empty_reply(message):
        return message
    return _EMPTY.setdefault(message.DESCRIPTOR.full_name, message)


def verdict(error: NriScopeError | None) -> Verdict:
    """Return the verdict on an answer's error."""
    match error:
        case None:
            return Verdict.OK
        case DeadlineExceeded():
            return Verdict.LATE
        case ProtocolViolated():
            return Verdict.MALFORMED
        case ConnectionClosed():
            return Verdict.CRASH
        case RpcError():
            return Verdict.ERROR
    return Verdict.MALFORMED
