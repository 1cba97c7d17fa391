# SPDX-License-Identifier: Apache-2.0
"""Puts tokens in place of what the rules name, in whatever a recording holds."""

from __future__ import annotations

from collections.abc import Iterator

from nri_scope.recorder.redaction.kind import Kind
from nri_scope.recorder.redaction.known import Original
from nri_scope.recorder.redaction.rules import Rules
from nri_scope.recorder.redaction.tally import Tally


class Redactor:
    """Redacts one recording, or several that are to have the same tokens.

    Equal originals get equal tokens, whatever they are met in. Nothing raises because of what a
    recording holds. Not for use by two threads at once.

    A finished recording is redacted in two passes, since what shows that a value is secret may come
    after a place where it is met: first `learn` for every event (and `learn_name`, `learn_text` for
    what only tables have), then `request`, `reply`, `text`, `name` and `path`. While recording
    there is one pass, and a secret is replaced from the moment when it is known.
    """

    tally: Tally

    def __init__(self, rules: Rules, key: bytes) -> None:
        """``key`` has 32 bytes and is written nowhere."""
        self.tally = Tally()

    def learn(self, method: str, request: bytes, reply: bytes, *, service: str = "") -> None:
        """See an event's messages before any of them is changed. Counts nothing."""

    def learn_text(self, text: str) -> None:
        """See a text from a table (status message, end reason, note), likewise."""

    def learn_name(self, kind: Kind, text: str) -> None:
        """See a name from a table, likewise."""

    def request(self, method: str, message: bytes, *, service: str = "") -> bytes:
        """A request's payload by the RPC's name; ``service`` as `Captured` has it.

        Requests of NRI, and those to the CRI that a recording holds. What is malformed or of an
        unknown method is replaced as a whole by a token, since nobody can know what is in it.
        """
        return message

    def reply(self, method: str, message: bytes, *, service: str = "") -> bytes:
        """The payload of the answer, likewise."""
        return message

    def text(self, text: str, place: str = "text") -> str:
        """Words for people: status messages, end reasons, notes, reasons of gaps.

        ``place`` is for the tally, e.g. ``event.status_message``.
        """
        return text

    def name(self, kind: Kind, text: str) -> str:
        """A name as tables have it; equal to what became of it in the messages."""
        return text

    def path(self, pointer: str) -> str:
        """An OCI path as in `Event.changed`: keys in it become what they became in the messages."""
        return pointer

    def originals(self) -> Iterator[Original]:
        """Everything replaced so far, for the scan of what was written."""
        return iter(())
