# SPDX-License-Identifier: Apache-2.0
"""A change that changes nothing."""

from __future__ import annotations

from ..redaction import NameKind


class Unchanged:
    """Gives everything as it was. A `Change`."""

    def learn(self, method: str, request: bytes, reply: bytes, *, service: str = "") -> None:
        """Nothing to learn."""

    def learn_text(self, text: str) -> None:
        """Nothing to learn."""

    def learn_name(self, kind: NameKind, text: str) -> None:
        """Nothing to learn."""

    def learn_keyed(self, key: str, value: str) -> None:
        """Nothing to learn."""

    def request(self, method: str, message: bytes, *, service: str = "") -> bytes:
        """``message``."""
        return message

    def reply(self, method: str, message: bytes, *, service: str = "") -> bytes:
        """``message``."""
        return message

    def text(self, text: str, place: str = "text", *, of_event: bool = False) -> str:
        """``text``."""
        return text

    def keyed(self, key: str, value: str, place: str) -> tuple[str, str]:
        """``key`` and ``value``."""
        return key, value

    def name(self, kind: NameKind, text: str) -> str:
        """``text``."""
        return text

    def id(self, text: str) -> str:
        """``text``."""
        return text

    def path(self, pointer: str) -> str:
        """``pointer``."""
        return pointer
