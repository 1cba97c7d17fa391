# SPDX-License-Identifier: Apache-2.0
"""How much a redactor keeps and does, and the answers that it keeps."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

_Question = TypeVar("_Question", bound=Hashable)
_Given = TypeVar("_Given")
_Found = TypeVar("_Found")


UNBOUNDED = 1 << 62


@dataclass(frozen=True, slots=True)
class Memory:
    """Bounds of what is kept, and of what is done."""

    values: int = 200_000
    """Values that were replaced; what comes later is replaced in its place only."""
    shown: int | None = None
    """Characters of visible names, of which the oldest are forgotten; None: all are kept."""
    cached: int = 64 << 20
    """Bytes of texts with what became of them, about; likewise of parts of messages."""
    part: int = UNBOUNDED
    """Work on one pod or container in a message: a character is one, see `engine` for more. What
    is left of it then is replaced without being looked at."""
    message: int = UNBOUNDED
    """The same on a whole message."""
    work: int | None = None
    """Work on all that is redacted, see `work_limit`; what takes more, or has more values, is
    refused. None: there is no limit."""


@dataclass(slots=True)
class Answer(Generic[_Given, _Found]):
    """What became of a text, and until when that is so."""

    text: _Given
    found: tuple[_Found, ...]
    looked_at: str
    """The text, and all that was unpacked from it."""
    known: int
    epoch: int
    late: int | None
    """`Owners.late` of the pod that it is for; None: it is the same for all."""


class Answers(Generic[_Question, _Given, _Found]):
    """The newest ones, up to a size."""

    def __init__(self, most: int) -> None:
        """``most``: bytes, about."""
        self._most = most
        self._answers: OrderedDict[_Question, tuple[Answer[_Given, _Found], int]] = OrderedDict()
        self.size = 0
        """Bytes, about."""

    def get(self, question: _Question) -> Answer[_Given, _Found] | None:
        """What was kept for it."""
        kept = self._answers.get(question)
        return kept[0] if kept is not None else None

    def keep(self, question: _Question, answer: Answer[_Given, _Found]) -> None:
        """Keep an answer, and let go of the oldest ones, as many as that takes."""
        # What was asked, what was given, and what was looked at, which has both in it.
        size = 500 + 2 * len(answer.looked_at)
        if size > self._most // 8:
            return
        before = self._answers.pop(question, None)
        self.size += size - (before[1] if before is not None else 0)
        while self.size > self._most:
            _, (_, gone) = self._answers.popitem(last=False)
            self.size -= gone
        self._answers[question] = (answer, size)
