# SPDX-License-Identifier: Apache-2.0
"""Tell by which event iSulad crashed: NRI has no message for the end of a runtime."""

from __future__ import annotations

from collections.abc import Iterable

from nri_scope.end_reasons import parse_end_reason
from nri_scope.events import Event, Session
from nri_scope.nri.events import UNSOLICITED, UPDATE
from nri_scope.oci import runtime_rules_of
from nri_scope.wire.ttrpc import Code

SOON_NS = 5_000_000_000
"""Maximum time from an event's end to the runtime's end: other plugins reply in between, each
within 2 s."""


def crash_event(
    session: Session,
    last: Event,
    others: Iterable[tuple[Session, Event]],
) -> str:
    """Return the name of the event of which iSulad died at the end of `session`; "" for none.

    iSulad crashes on some requests. NRI has no message for the end of a runtime, so an event has a
    name here only if all of these hold:

    - the session's runtime is iSulad, and the event is the last of the session;
    - it is an UpdateContainer (the CRI's UpdateContainerResources, which kills iSulad even without
      plugins), or an UpdateContainers of the plugin that was not answered;
    - the runtime closed the connection, within `SOON_NS` of the event's end: PostUpdateContainer,
      which iSulad sends some milliseconds after UpdateContainer, did not come in that time;
    - no other session that was open at that moment got an event later: iSulad did not run on.

    A restart of iSulad by its administrator in that interval has the same events.

    `last`: the session's last event. `others`: all other sessions of the recording, each with its
    last event.
    """
    if closed_after(session, last) is None:
        return ""
    ended_ns = session.ended_ns or 0
    runs_on = any(
        other.is_connection
        and runtime_rules_of(other.runtime_name).dies_of_updates
        and other.started_ns < ended_ns < newest.at_ns
        for other, newest in others
    )
    return "" if runs_on else last.event


def closed_after(session: Session, event: Event) -> int | None:
    """Return how many ns after a deadly event, up to `SOON_NS`, iSulad closed its session.

    None if it did not, or if iSulad survives such an event.
    """
    deadly = event.event == UPDATE or (
        event.event == UNSOLICITED and event.status_code == Code.UNAVAILABLE
    )
    if (
        not deadly
        or not runtime_rules_of(session.runtime_name).dies_of_updates
        or not session.is_connection
        or session.ended_ns is None
        or not parse_end_reason(session.end_reason).is_by_runtime
    ):
        return None
    after_ns = session.ended_ns - event.at_ns
    return after_ns if 0 <= after_ns <= event.took_ns + SOON_NS else None
