# SPDX-License-Identifier: Apache-2.0
"""Redaction at the source: every text written by a recorder is redacted."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, get_type_hints

import pytest

from nri_scope.capture.sink import ControlEntry, End
from nri_scope.events import EVENT_TEXTS, CapturedCall, Gap, Note, Printed, SessionStart
from nri_scope.share.redacted_entries import SourceRedaction
from nri_scope.share.redaction.names import SESSION_NAMES
from nri_scope.share.redaction.redactor import Redactor
from nri_scope.share.redaction.rules import Rules

SECRET = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
_PUBLIC = {"plugin_index"}
"""Fields of a session that consist of two digits."""


def redaction() -> SourceRedaction:
    return SourceRedaction(Redactor(Rules.DEFAULT, bytes(32)))


def _secret_of(kind: Any) -> Any:
    if kind is str:
        return f"token={SECRET}"
    if kind is bytes:
        return b""
    if kind == tuple[tuple[str, str], ...]:
        return (("key", f"token={SECRET}"),)
    return None if kind == int | None else 0


def test_each_text_of_an_event_is_redacted() -> None:
    kinds = get_type_hints(CapturedCall)
    item = CapturedCall(**{name: _secret_of(kinds[name]) for name in CapturedCall._fields})
    texts = [name for name in CapturedCall._fields if SECRET in str(getattr(item, name))]
    assert {"method", "service", "metadata", *EVENT_TEXTS} == set(texts)
    assert SECRET not in str(redaction().redact_call(item))


@pytest.mark.parametrize(
    "entry",
    [
        End(1, f"token={SECRET}", 1),
        Gap(0, 1, 1, 2, f"token={SECRET}", 1),
        Note(0, 1, 1, f"token={SECRET}"),
        Printed(0, 1, 1, "stdout", f"token={SECRET}"),
    ],
)
def test_each_text_of_another_entry_is_redacted(entry: ControlEntry) -> None:
    assert SECRET in str(entry) and SECRET not in str(redaction().redact_entry(entry))


def test_each_text_of_a_session_is_redacted_or_public() -> None:
    """Check a new field by hand, then add it to `SESSION_NAMES` or to `_PUBLIC`."""
    kinds = get_type_hints(SessionStart)
    texts = {field.name for field in fields(SessionStart) if kinds[field.name] is str}
    assert texts - set(SESSION_NAMES) == _PUBLIC
