# SPDX-License-Identifier: Apache-2.0
"""What becomes of messages and texts on their way into the new recording."""

from __future__ import annotations

from typing import Protocol

from ..redaction import NameKind


class Change(Protocol):
    """What `nri_scope.share.redaction.Redactor` offers: see there for each method."""

    def learn(self, method: str, request: bytes, reply: bytes, *, service: str = "") -> None:
        """Called for every event of the original, also for those that are left out."""

    def learn_text(self, text: str) -> None:
        """Called for every text of a table, likewise."""

    def learn_name(self, kind: NameKind, text: str) -> None:
        """Called for every name of a table, likewise."""

    def learn_keyed(self, key: str, value: str) -> None:
        """Called for every pair of metadata, likewise."""

    def request(self, method: str, message: bytes, *, service: str = "") -> bytes:
        """A request's payload as it is to be written."""
        ...

    def reply(self, method: str, message: bytes, *, service: str = "") -> bytes:
        """A reply's payload, likewise; of the request that was given last."""
        ...

    def text(self, text: str, place: str = "text", *, of_event: bool = False) -> str:
        """Words for people, likewise; ``place`` is table and column. ``of_event``: they belong to
        the messages that were given last.
        """
        ...

    def keyed(self, key: str, value: str, place: str) -> tuple[str, str]:
        """A key with its value, likewise."""
        ...

    def name(self, kind: NameKind, text: str) -> str:
        """A name as tables have it, likewise."""
        ...

    def id(self, text: str) -> str:
        """An id or UID as tables have it, likewise."""
        ...

    def path(self, pointer: str) -> str:
        """An OCI path, likewise; of the messages that were given last."""
        ...
