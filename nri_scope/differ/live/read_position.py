# SPDX-License-Identifier: Apache-2.0
"""The position up to which a recording was read."""

from __future__ import annotations

from typing import NamedTuple

from nri_scope.recording import lookup
from nri_scope.recording.reader import Recording


class ReadPosition(NamedTuple):
    """The position up to which a recording was read."""

    event: int
    """The newest one; 0: none."""
    session: int
    """The id of the last session; 0 for none."""

    @classmethod
    def end_of(cls, recording: Recording) -> ReadPosition:
        """Return the current end of a file that is continued: earlier events are not shown."""
        sessions = (session.id for session in recording.sessions())
        return cls(lookup.event_range(recording)[1], max(sessions, default=0))
