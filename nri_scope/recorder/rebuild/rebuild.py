# SPDX-License-Identifier: Apache-2.0
"""A new recording from a part of another one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from nri_scope.recorder.reader import Recording
from nri_scope.recorder.rebuild.change import Change
from nri_scope.recorder.rebuild.rebuilt import Rebuilt
from nri_scope.recorder.rebuild.selection import Selection


def rebuild(
    source: Recording,
    output: Path,
    selection: Selection = Selection(),  # noqa: B008 - frozen
    *,
    change: Change | None = None,
    on_progress: Callable[[float], None] | None = None,
) -> Rebuilt:
    """Write what ``selection`` chooses of ``source``, and its context, to the new file ``output``.

    Numbers of events and sessions, places in sessions and times stay what they were. The same
    input gives the same bytes. ``on_progress`` is called now and then with the part that is done,
    0 to 1, by the calling thread; an exception from it, or the interrupt key, ends the work and
    leaves nothing behind.

    Raises UsageError where nothing is chosen or ``pod`` is not in the recording, RecordingError
    where the original cannot be read at all, ``output`` exists or cannot be written.
    """
    raise NotImplementedError
