# SPDX-License-Identifier: Apache-2.0
"""Convert plugins' answers to replies with verdicts."""

from __future__ import annotations

from collections import Counter

from google.protobuf.message import Message

from nri_scope.errors import (
    ConnectionClosed,
    DeadlineExceeded,
    NriScopeError,
    RpcError,
    limit_words,
)
from nri_scope.nri.no_change import is_empty_reply
from nri_scope.runtime import Answer

from .replies import Reply, Verdict

BROKEN = "protocol error"
"""Prefix of the reason with which `transport.Link` drops a peer that violates the protocol."""


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
        found = verdict(answer.error)
        problem = str(answer.error or "")
        if found is Verdict.OK and refused:
            found, problem = Verdict.CONFLICT, refused
        elif found is Verdict.LATE:
            problem = f"no reply within {limit_words(answer.timeout_ns / 1e9)}"
        elif found is Verdict.CRASH:
            problem = lost or problem
        return Reply(
            event_id=event_id,
            event=event,
            plugin=answer.plugin,
            subject=subject,
            occurrence=self._counts[key],
            message=_shared(answer.reply),
            verdict=found,
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
        case ConnectionClosed(reason=reason) if reason.startswith(BROKEN):
            return Verdict.MALFORMED
        case ConnectionClosed():
            return Verdict.CRASH
        case RpcError():
            return Verdict.ERROR
    return Verdict.MALFORMED
