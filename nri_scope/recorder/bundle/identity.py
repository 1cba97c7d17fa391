# SPDX-License-Identifier: Apache-2.0
"""A redactor for one recording."""

from __future__ import annotations

import hashlib
from pathlib import Path

from nri_scope.recorder.reader import Recording
from nri_scope.recorder.redaction import Redactor, Rules, derive, local_key


def redactor_for(recording: Recording, rules: Rules, key_folder: Path | None = None) -> Redactor:
    """A redactor with the user's key for this recording. Raises UsageError and RecordingError.

    The same recording has the same tokens each time on this machine, also when it has grown
    meanwhile; those of two recordings tell nothing about each other.
    """
    return Redactor(rules, derive(local_key(key_folder), purpose(recording)))


def purpose(recording: Recording) -> bytes:
    """What tells a recording from all others: how it began, to the nanosecond."""
    session = next(iter(recording.sessions()), None)
    event = next(recording.events(), None)
    told = (
        None if session is None else (session.id, session.started_ns, session.plugin),
        None if event is None else (event.id, event.at_ns, event.mono_ns, event.event),
    )
    return hashlib.sha256(repr(told).encode("utf-8", "surrogatepass")).digest()
