# SPDX-License-Identifier: Apache-2.0
"""Limits of a redactor's memory and work, and its cache of answers."""

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
    """Limits of what is kept, and of work."""

    values: int = 200_000
    """Values that are remembered; later ones are replaced in their places only."""
    shown: int | None = None
    """Characters of visible names, of which the oldest are forgotten; None: all are kept."""
    cached: int = 64 << 20
    """Bytes of cached answers for texts, approximately; the same again for parts of messages."""
    part: int = UNBOUNDED
    """Work on one pod or container in a message: one unit per character, see `engine` for more. The
    rest is replaced without a search."""
    message: int = UNBOUNDED
    """Work on a whole message."""
    work: int | None = None
    """Work on all that is redacted, see `work_limit`; a recording that takes more, or has more
    values, is refused. None: no limit."""


@dataclass(slots=True)
class Answer(Generic[_Given, _Found]):
    """The redacted form of a text, with the state in which it is valid."""

    text: _Given
    found: tuple[_Found, ...]
    looked_at: str
    """The text, and everything that was decoded from it."""
    known: int
    epoch: int
    late: int | None
    """`Owners.late` of the pod that it is valid for; None: valid for all."""


class Answers(Generic[_Question, _Given, _Found]):
    """A cache of the newest answers, limited by size."""

    def __init__(self, most: int) -> None:
        """``most``: bytes, approximately."""
        self._most = most
        self._answers: OrderedDict[_Question, tuple[Answer[_Given, _Found], int]] = OrderedDict()
        self.size = 0
        """Bytes, approximately."""

    def get(self, question: _Question) -> Answer[_Given, _Found] | None:
        """Return the answer to a question; None where it is not cached."""
        kept = self._answers.get(question)
        return kept[0] if kept is not None else None

    def keep(self, question: _Question, answer: Answer[_Given, _Found]) -> None:
        """Add an answer, and drop as many of the oldest ones as necessary."""
        # Question, answer, and the searched text, which contains both.
        size = 500 + 2 * len(answer.looked_at)
        if size > self._most // 8:
            return
        before = self._answers.pop(question, None)
        self.size += size - (before[1] if before is not None else 0)
        while self.size > self._most:
            _, (_, gone) = self._answers.popitem(last=False)
            self.size -= gone
        self._answers[question] = (answer, size)
