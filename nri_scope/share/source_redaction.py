# SPDX-License-Identifier: Apache-2.0
"""Redaction at the source, which is imported only where there is something to redact or continue.

It takes a third of the start of a process that writes a recording.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import time_ns
from typing import TYPE_CHECKING

from nri_scope.errors import RecordingError, UsageError
from nri_scope.events import REDACTED

if TYPE_CHECKING:
    from nri_scope.recorder.writer import Recorder

    from .redacted_entries import SourceRedaction
    from .redaction.rules import Rules


def check_continued(path: Path, *, redacts: bool) -> None:
    """Raise UsageError if redacted and other events would be mixed in one file.

    An unreadable file is accepted: opening it for writing raises a better error.
    """
    try:
        if not (redacts or path.exists()):
            return
        from nri_scope.recording.reader import Recording

        with Recording.open(path) as recording:
            # Not via the reader's list of notes, which is limited in length.
            notes = recording.rows("SELECT 1 FROM note WHERE text = ? LIMIT 1", [REDACTED])
            sessions = recording.rows("SELECT 1 FROM session LIMIT 1")
    except (OSError, RecordingError):
        return
    if notes and not redacts:
        raise UsageError(f"{path} is redacted", "add --redact, or name another file")
    if redacts and sessions and not notes:
        raise UsageError(f"{path} contains events recorded without --redact", "name another file")


def open_recorder(
    path: Path, rules: Rules | None, open_with: Callable[[SourceRedaction | None], Recorder]
) -> Recorder:
    """Open a recorder that redacts by these rules, if any, and says so in the recording.

    Raises UsageError if the file holds events of the other sort, or if there is no key.
    """
    check_continued(path, redacts=rules is not None)
    if rules is None:
        return open_with(None)
    from .redacted_entries import SourceRedaction

    recorder = open_with(SourceRedaction.to(path, rules))
    recorder.note(None, time_ns(), REDACTED)
    return recorder
