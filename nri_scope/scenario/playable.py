# SPDX-License-Identifier: Apache-2.0
"""Provide a recording of what a file describes: a scenario, a manifest or a changed recording.

Modules that need the runtime or the recorder are imported when there is something to make: commands
that show a recording need neither.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from nri_scope.recording.file.schema_check import SCENARIO_SUFFIXES, STANDARD_INPUT
from nri_scope.recording.file.temporary_files import standing_for, temporary_folder

if TYPE_CHECKING:
    from .model import Scenario

_NOTES_MAX = 2
"""Maximum number of remarks that are passed on one by one."""
_NAME_MAX = 60
"""Maximum length of the name of a temporary recording."""


def is_scenario_file(path: Path) -> bool:
    """Return whether a path leads to a scenario or manifest, by its name or as a pipe."""
    if path == STANDARD_INPUT or path.suffix.lower() in SCENARIO_SUFFIXES:
        return True
    try:
        return stat.S_ISFIFO(path.stat().st_mode)
    except (OSError, ValueError):
        return False


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

    That is ``path`` itself if it is a recording and there are no ``changes``, see
    `field_assignments`. Otherwise, it is a temporary recording with a single session, made from the
    scenario or the manifest, or from ``session`` of the recording; it is removed at the end of
    the block. A manifest's pods run on the runtime ``profile``, or `model.DEFAULT_PROFILE`.
    ``on_note`` gets remarks on what is not as in the file. Raises UsageError and RecordingError.
    """
    if not is_scenario_file(path) and not changes:
        yield path
        return
    from .compile import compile_scenario
    from .document import source_name
    from .field_assignments import assign_fields
    from .recorded_scenario import read_recording

    if is_scenario_file(path):
        scenario, notes = read_scenario(path, profile)
    else:
        scenario, notes = read_recording(path, session)
    assign_fields(scenario, changes)
    if len(notes) > _NOTES_MAX:
        command = f"nri-scope scenario {'from-pod' if is_scenario_file(path) else 'from-recording'}"
        summary = f"{len(notes) - 1} more values are unknown or assumed; `{command}` lists them"
        notes = [notes[0], summary]
    for note in notes:
        on_note(f"{source_name(path)}: {note}")
    with temporary_folder() as folder:
        # A view shows the name; a recording's own is not repeated.
        stem = Path(scenario.source).name.split(".")[0].replace(" ", "-")[:_NAME_MAX]
        recording = folder / f"{stem or 'scenario'}.nriscope.db"
        compile_scenario(scenario, recording)
        # Errors name the scenario, as what plays it knows only the temporary recording.
        with standing_for(recording, scenario.source):
            yield recording


def read_scenario(path: Path, profile: str | None = None) -> tuple[Scenario, list[str]]:
    """Return the scenario in a file, or that of the manifest in it, with remarks on the latter."""
    from nri_scope.runtime import RECORDED

    from .document import parse_scenario, read_text, source_name
    from .manifest_scenario import is_manifest, scenario_of_manifest
    from .model import DEFAULT_PROFILE, RuntimeChoice

    text, source = read_text(path), source_name(path)
    if not is_manifest(text):
        return parse_scenario(text, source), []
    chosen = DEFAULT_PROFILE if profile is None or profile == RECORDED else profile
    return scenario_of_manifest(text, source, RuntimeChoice(chosen))
