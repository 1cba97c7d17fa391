# SPDX-License-Identifier: Apache-2.0
"""From a plugin's answer to what is thought of it."""

from __future__ import annotations

from collections import Counter

from nri_scope.errors import (
    AdjustmentRefused,
    ConnectionClosed,
    DeadlineExceeded,
    NriScopeError,
    RpcError,
)
from nri_scope.runtime import Answer

from .model import Reply, Verdict


class Judge:
    """Turns answers into replies, counting how often each plugin got which event."""

    def __init__(self) -> None:
        self._seen: Counter[tuple[str, str, str]] = Counter()

    def reply(
        self, answer: Answer, event_id: int, event: str, subject: str, deadline_ns: int
    ) -> Reply:
        """The judged reply. An error of `AdjustmentRefused` is a conflict."""
        key = (answer.plugin, event, subject)
        self._seen[key] += 1
        return Reply(
            event_id=event_id,
            event=event,
            plugin=answer.plugin,
            subject=subject,
            occurrence=self._seen[key],
            message=answer.reply,
            verdict=verdict(answer.error),
            problem=str(answer.error or ""),
            took_ns=answer.took_ns,
            deadline_ns=deadline_ns,
        )


def verdict(error: NriScopeError | None) -> Verdict:
    """What an answer's error means."""
    match error:
        case None:
            return Verdict.OK
        case DeadlineExceeded():
            return Verdict.LATE
        case ConnectionClosed():
            return Verdict.CRASH
        case RpcError():
            return Verdict.ERROR
        case AdjustmentRefused():
            return Verdict.CONFLICT
    return Verdict.RUBBISH
