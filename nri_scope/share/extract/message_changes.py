# SPDX-License-Identifier: Apache-2.0
"""The interface for changing messages and texts on their way into the new recording."""

from __future__ import annotations

from typing import Protocol

from ..redaction import NameKind


class Change(Protocol):
    """The methods of `nri_scope.share.redaction.Redactor`, which describes them."""

    def learn(self, method: str, request: bytes, reply: bytes, *, service: str = "") -> None:
        """Learn from an event of the original; also called for events that are left out."""

    def learn_text(self, text: str) -> None:
        """Learn from a text in a table; called for each one in the original."""

    def learn_name(self, kind: NameKind, text: str) -> None:
        """Learn from a name in a table; called for each one in the original."""

    def learn_keyed(self, key: str, value: str) -> None:
        """Learn from a metadata entry; called for each one in the original."""

    def request(self, method: str, message: bytes, *, service: str = "") -> bytes:
        """Return a request's payload as it is to be written."""
        ...

    def reply(self, method: str, message: bytes, *, service: str = "") -> bytes:
        """Return a reply's payload as it is to be written; it answers the last `request`."""
        ...

    def text(self, text: str, place: str = "text", *, of_event: bool = False) -> str:
        """Return text as it is to be written; ``place`` is its table and column. ``of_event``: it
        belongs to the messages that were passed last.
        """
        ...

    def keyed(self, key: str, value: str, place: str) -> tuple[str, str]:
        """Return a key and its value as they are to be written."""
        ...

    def name(self, kind: NameKind, text: str) -> str:
        """Return a name in a table as it is to be written."""
        ...

    def id(self, text: str) -> str:
        """Return an id or UID in a table as it is to be written."""
        ...

    def path(self, pointer: str) -> str:
        """Return an OCI path as it is to be written; it belongs to the messages passed last."""
        ...
