# SPDX-License-Identifier: Apache-2.0
"""The origin of a replay's golden."""

from __future__ import annotations

from .golden import Origin
from .result import Replayed


def origin_of(replayed: Replayed) -> Origin:
    """Return the events and the runtime that were replayed."""
    events = sum(event.event_id > 0 for event in replayed.events)
    return Origin(
        recording=f"{replayed.source}, {events} events",
        fingerprint=replayed.fingerprint,
        profile=replayed.profile,
    )
