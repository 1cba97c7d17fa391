# SPDX-License-Identifier: Apache-2.0
"""A redactor that changes nothing, for tests that count its calls or replace one method."""

from __future__ import annotations

from nri_scope.share.redaction import NameKind, Redactor


class Unchanged(Redactor):
    """Redactor that learns nothing and returns its arguments unchanged."""

    def __init__(self) -> None:
        """Set up nothing."""

    def learn(self, method: str, request: bytes, reply: bytes, *, service: str = "") -> None:
        """Ignore the event."""

    def learn_text(self, text: str) -> None:
        """Ignore the text."""

    def learn_name(self, kind: NameKind, text: str) -> None:
        """Ignore the name."""

    def learn_keyed(self, key: str, value: str) -> None:
        """Ignore the pair."""

    def request(self, method: str, message: bytes, *, service: str = "") -> bytes:
        """Return ``message``."""
        return message

    def reply(self, method: str, message: bytes, *, service: str = "") -> bytes:
        """Return ``message``."""
        return message

    def text(self, text: str, place: str = "text", *, of_event: bool = False) -> str:
        """Return ``text``."""
        return text

    def keyed(self, key: str, value: str, place: str) -> tuple[str, str]:
        """Return ``key`` and ``value``."""
        return key, value

    def name(self, kind: NameKind, text: str) -> str:
        """Return ``text``."""
        return text

    def id(self, text: str) -> str:
        """Return ``text``."""
        return text

    def path(self, pointer: str) -> str:
        """Return ``pointer``."""
        return pointer
