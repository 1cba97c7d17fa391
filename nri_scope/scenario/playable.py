# SPDX-License-Identifier: Apache-2.0
"""Turn whatever can be played into a recording: a recording, a scenario, a manifest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from .source import is_text


@contextmanager
def playable(
    path: Path,
    *,
    changes: Sequence[str] = (),
    session: int | None = None,
    profile: str | None = None,
    on_note: Callable[[str], None] = lambda note: None,
) -> Iterator[Path]:
    """Yield the path of a recording of what is in a file.

    That is ``path`` itself if it is a recording without ``changes``, in the form of
    `text.apply_changes`. Otherwise, it is a temporary recording with a single session, made from
    the scenario or the manifest, or from ``session`` of the recording; it is removed at the end of
    the block. A manifest's pods run on the runtime ``profile``, or `model.DEFAULT_PROFILE`.
    ``on_note`` gets remarks on what is not as in the file. Raises UsageError and RecordingError.
    """
    if not is_text(path) and not changes:
        yield path
        return
    # It imports the runtime and the recorder, which commands that show a recording do not need.
    from .temporary_recording import temporary_recording

    with temporary_recording(path, changes, session, profile, on_note) as recording:
        yield recording
