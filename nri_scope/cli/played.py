# SPDX-License-Identifier: Apache-2.0
"""What commands play: a recording, or a scenario or manifest in place of one, with changes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .chain_options import ChainOptions


@contextmanager
def played(options: ChainOptions, *, quiet: bool = False) -> Iterator[None]:
    """Replace FILE by a recording of it, with the changes of ``--set``, inside the block.

    Remarks on a manifest, unless ``quiet``, become the job's notes, which are printed only when the
    replay begins: errors of options are found inside the block. Stop signals raise
    KeyboardInterrupt in the block, unless handled otherwise, as that recording must be removed.
    Raises UsageError and RecordingError.
    """
    from nri_scope.process.signals import interrupted_by_signals
    from nri_scope.scenario.playable import playable
    from nri_scope.scenario.source import is_text

    given = options["file"]
    changes, session, profile = options["changes"], options["session"], options["profile"]
    notes: list[str] = []
    with (
        interrupted_by_signals(),
        playable(
            given, changes=changes, session=session, profile=profile, on_note=notes.append
        ) as recording,
    ):
        options["file"], options["notes"] = recording, [] if quiet else notes
        if recording != given and not is_text(given):
            # The only session was made from the chosen one.
            options["session"] = None
        yield
