# SPDX-License-Identifier: Apache-2.0
"""A redactor that changes nothing, for tests that count its calls or replace one method."""

from __future__ import annotations

from nri_scope.share.redaction import NameKind, Redactor, Rules


class Unchanged(Redactor):
    """Redactor that returns its arguments unchanged."""

    def __init__(self) -> None:
        """Set up the default rules."""
        super().__init__(Rules.DEFAULT, bytes(32))

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
