# SPDX-License-Identifier: Apache-2.0
"""Redaction at the source, which is imported only where there is something to redact or continue.

It takes a third of the start of a process that writes a recording.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from nri_scope.errors import RecordingError, UsageError
from nri_scope.events import REDACTED

if TYPE_CHECKING:
    from .redacted_entries import SourceRedaction
    from .redaction.rules import Rules


def check_continued(path: Path, *, redacts: bool) -> None:
    """Raise UsageError if redacted and other events would be mixed in one file.

    An unreadable file is accepted: opening it for writing raises a better error.
    """
    try:
        if not (redacts or path.exists()):
            return
        from nri_scope.recording.reading.reader import Recording

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


def source_redaction(path: Path, rules: Rules | None) -> SourceRedaction | None:
    """Return the redaction of what a recorder adds to a file; None without rules.

    Raises UsageError if the file holds events of the other sort, or if there is no key.
    """
    check_continued(path, redacts=rules is not None)
    if rules is None:
        return None
    from .redacted_entries import SourceRedaction

    return SourceRedaction.to(path, rules)
