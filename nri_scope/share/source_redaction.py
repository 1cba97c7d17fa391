# SPDX-License-Identifier: Apache-2.0
"""Redaction at the source, which is imported only where there is something to redact or continue.

It takes a third of the start of a process that writes a recording.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import time_ns
from typing import TYPE_CHECKING

from nri_scope.events import REDACTED

if TYPE_CHECKING:
    from nri_scope.recorder.writer import Recorder

    from .redaction.capture import SourceRedaction
    from .redaction.rules import Rules


def check_continued(path: Path, *, redacts: bool) -> None:
    """Refuse to mix redacted and other events in one file. Raises UsageError.

    An unreadable file is not refused: the attempt to write it gives a better error.
    """
    with suppress(OSError):
        if redacts or path.exists():
            from .redaction import capture

            capture.check_continued(path, redacts=redacts)


def opened(
    path: Path, rules: Rules | None, open_with: Callable[[SourceRedaction | None], Recorder]
) -> Recorder:
    """Open a recorder that redacts by these rules, if any, and says so in the recording.

    Raises UsageError if the file holds events of the other sort, or if there is no key.
    """
    check_continued(path, redacts=rules is not None)
    if rules is None:
        return open_with(None)
    from .redaction.capture import SourceRedaction

    recorder = open_with(SourceRedaction.to(path, rules))
    recorder.note(None, time_ns(), REDACTED)
    return recorder
