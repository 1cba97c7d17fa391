# SPDX-License-Identifier: Apache-2.0
"""Decide from events whether iSulad ended because of one: it crashes on some requests.

NRI has no message for the end of a runtime, so this is said only if all of these hold:

- the session's runtime is iSulad, and the event is the last of the session;
- it is an UpdateContainer (the CRI's UpdateContainerResources, which kills iSulad even without
  plugins), or an UpdateContainers of the plugin that was not answered;
- the runtime closed the connection, within `SOON_NS` of the event's end: PostUpdateContainer, which
  iSulad sends some milliseconds after UpdateContainer, did not come in that time;
- no other session that was open at that moment got an event later: iSulad did not run on.

A restart of iSulad by its administrator in that interval has the same events.
"""

from __future__ import annotations

from collections.abc import Iterable

from nri_scope.events import CLOSED_BY_RUNTIME, RUNTIME_CLOSED, Event, Session
from nri_scope.nri.events import UNSOLICITED, UPDATE
from nri_scope.nri.versions import runtime_title
from nri_scope.wire.ttrpc import Code

SOON_NS = 5_000_000_000
"""Maximum time from an event's end to the runtime's end: other plugins reply in between, each
within 2 s."""


def crash_event(session: Session, last: Event, others: Iterable[tuple[Session, Event]]) -> str:
    """Return the name of the event of which iSulad died at the end of `session`; "" for none.

    `last`: the session's last event. `others`: all other sessions of the recording, each with its
    last event.
    """
    if closed_after(session, last) is None:
        return ""
    ended_ns = session.ended_ns or 0
    runs_on = any(
        other.is_connection
        and runtime_title(other.runtime_name) == "iSulad"
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
        or runtime_title(session.runtime_name) != "iSulad"
        or not session.is_connection
        or session.ended_ns is None
        or not session.end_reason.startswith((RUNTIME_CLOSED, CLOSED_BY_RUNTIME))
    ):
        return None
    after_ns = session.ended_ns - event.at_ns
    return after_ns if 0 <= after_ns <= event.took_ns + SOON_NS else None
