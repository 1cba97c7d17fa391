# SPDX-License-Identifier: Apache-2.0
"""Merge the marks in a recording and in the file beside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress

from nri_scope.events import Mark, MarkKey

from ..reader import Recording
from . import sidecar
from .table import marks_in


def merged(*sources: Iterable[Mark]) -> dict[MarkKey, Mark]:
    """Return the newest mark of each event, without removed marks.

    Between equally new marks, the last source takes precedence.
    """
    newest: dict[MarkKey, Mark] = {}
    for marks in sources:
        for mark in marks:
            known = newest.get(mark.key)
            if known is None or known.made_ns <= mark.made_ns:
                newest[mark.key] = mark
    return {key: mark for key, mark in newest.items() if not mark.gone}


def marks_of(recording: Recording) -> list[Mark]:
    """Return all marks in a recording and beside it, ordered by event. Raises RecordingError.

    An unusable file of marks counts as empty.
    """
    found: Mapping[MarkKey, Mark] = {}
    with suppress(sidecar.Unusable):
        found = sidecar.read(sidecar.path_of(recording.path))
    return sorted(merged(marks_in(recording), found.values()).values())
