# SPDX-License-Identifier: Apache-2.0
"""Make a temporary recording of a scenario, of a manifest, or of a changed recording."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from nri_scope.errors import RecordingError, UsageError
from nri_scope.recording.temporary_files import temporary_folder
from nri_scope.runtime import RECORDED

from .compile import compile_scenario
from .document import parse_scenario, read_text
from .from_manifest import is_manifest, scenario_of_manifest
from .from_recording import read_recording
from .model import DEFAULT_PROFILE, RuntimeChoice, Scenario
from .source import is_text, source_name
from .text import apply_changes

_NOTES_MAX = 2
"""Maximum number of remarks that are passed on one by one."""
_NAME_MAX = 60
"""Maximum length of the name of a temporary recording."""


@contextmanager
def temporary_recording(
    path: Path,
    changes: Sequence[str],
    session: int | None,
    profile: str | None,
    on_note: Callable[[str], None],
) -> Iterator[Path]:
    """Yield the path of a recording of a scenario, a manifest, or a recording with changes.

    See `playable`. Raises UsageError and RecordingError.
    """
    if is_text(path):
        scenario, notes = read_scenario(path, profile or RECORDED)
    else:
        scenario, notes = read_recording(path, session)
    apply_changes(scenario, changes)
    if len(notes) > _NOTES_MAX:
        command = f"nri-scope scenario {'from-pod' if is_text(path) else 'from-recording'}"
        rest = f"{len(notes) - 1} more values are unknown or assumed; `{command}` lists them"
        notes = [notes[0], rest]
    for note in notes:
        on_note(f"{source_name(path)}: {note}")
    with _compiled(scenario) as recording:
        yield recording


def read_scenario(path: Path, profile: str = RECORDED) -> tuple[Scenario, list[str]]:
    """Return the scenario in a file, or that of the manifest in it, with remarks on the latter."""
    text, source = read_text(path), source_name(path)
    if not is_manifest(text):
        return parse_scenario(text, source), []
    runtime = RuntimeChoice(DEFAULT_PROFILE if profile == RECORDED else profile)
    return scenario_of_manifest(text, source, runtime)


@contextmanager
def _compiled(scenario: Scenario) -> Iterator[Path]:
    """Yield a temporary recording of a scenario. Raises UsageError."""
    with temporary_folder() as folder:
        # A view shows the name; a recording's own is not repeated.
        stem = Path(scenario.source).name.split(".")[0].replace(" ", "-")[:_NAME_MAX]
        path = folder / f"{stem or 'scenario'}.nriscope.db"
        compile_scenario(scenario, path)
        with _named(path, scenario.source):
            yield path


@contextmanager
def _named(path: Path, source: str) -> Iterator[None]:
    """Name the scenario in the errors of a block that knows only the temporary recording."""
    try:
        yield
    except RecordingError as error:
        if error.path != str(path):
            raise
        raise RecordingError(source, error.problem, error.hint) from error
    except UsageError as error:
        if str(path) not in error.problem or type(error) is not UsageError:
            raise
        raise UsageError(error.problem.replace(str(path), source), error.hint) from error
