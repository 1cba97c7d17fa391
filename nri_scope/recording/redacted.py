# SPDX-License-Identifier: Apache-2.0
"""Whether a recording was redacted."""

from __future__ import annotations

from contextlib import suppress

from nri_scope.errors import RecordingError
from nri_scope.events import REDACTED

from .reader import Recording


def is_redacted(recording: Recording) -> bool:
    """Return whether a recording, or the manifest of its bundle, says that it was redacted.

    Raises RecordingError.
    """
    if recording.rows("SELECT 1 FROM note WHERE text = ? LIMIT 1", [REDACTED]):
        return True
    # By its name: opening and closing a recording that this process writes would drop SQLite's
    # locks.
    if recording.path.suffix.lower() == ".zip":
        from .bundle.unpack import read_manifest

        with suppress(RecordingError):
            return read_manifest(recording.path).redaction is not None
    return False
