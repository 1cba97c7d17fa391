# SPDX-License-Identifier: Apache-2.0
"""Each field of an entry, and of a message of the agent, is passed on."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from nri_scope._gen.agent.nri_scope.agent import v1
from nri_scope.entries import Began, Ended, Entry, OperationFate, OperationOutcome, RecordedCall
from nri_scope.events import CapturedCall, Event, Gap, Note, Printed, Role, Session, Tapped
from nri_scope.share.agent_messages import entry_of, response_of

TAPPED = Tapped(0, 51, (("traceparent", "00-1"),))


def filled(kind: type[Any], **others: Any) -> Any:
    """A value with another value in each field: its position, or its name."""
    values: dict[str, Any] = {
        one.name: number if "int" in str(one.type) else (one.name,) if "..." in str(one.type) else
        one.name for number, one in enumerate(fields(kind), 1)
    }  # fmt: skip
    return kind(**{**values, **others})


EVENT = filled(Event)
SESSION = filled(Session, role=Role.TAP, nri_version_inferred=True, failure_policy=None)
ENTRIES: dict[str, Entry] = {
    "session": Began(SESSION),
    "session_end": Ended(SESSION),
    "gap": filled(Gap),
    "note": filled(Note),
    "output": filled(Printed),
    "event": RecordedCall(
        EVENT,
        b"request",
        b"reply",
        "service",
        tapped=TAPPED._replace(event=EVENT.id),
        outcome=OperationOutcome(OperationFate.FAILED, 7, "StopContainer", 8, 9),
    ),
}


@pytest.mark.parametrize("name", ENTRIES)
def test_every_field_of_a_message_is_sent_and_read(name: str) -> None:
    message = getattr(response_of("r.db", ENTRIES[name], 1), name)
    assert {field.name for field in fields(message) if not getattr(message, field.name)} == set()
    entry = entry_of(v1.GetEventsResponse(**{name: message}))
    assert entry is not None
    assert getattr(response_of("r.db", entry, 1), name) == message


def test_a_copy_of_an_event_has_all_of_its_call() -> None:
    call = RecordedCall(EVENT, b"request", b"reply", "service", tapped=TAPPED).call
    for name in CapturedCall._fields:
        other = {"wall_ns": "at_ns"}.get(name, name)
        source = EVENT if hasattr(EVENT, other) else TAPPED
        expected = {"request": b"request", "reply": b"reply", "service": "service"}.get(name)
        assert getattr(call, name) == (expected or getattr(source, other))
