# SPDX-License-Identifier: Apache-2.0
"""Make a recording of a bundle or of JSON lines."""

from __future__ import annotations

import warnings
from contextlib import closing
from pathlib import Path

from nri_scope.errors import RecordingCut, RecordingError
from nri_scope.recorder.complete_recording import complete_recording
from nri_scope.recording.bundle.manifest import Manifest
from nri_scope.recording.bundle.unpack import read_manifest, unpack
from nri_scope.recording.reader import Recording
from nri_scope.recording.rows import number_of
from nri_scope.recording.schema_check import repair_hint

from .formats.jsonl import JsonLines
from .output_files import Outputs


def import_bundle(path: Path, output: Path, *, force: bool = False) -> Manifest:
    """Write the recording of the bundle ``path`` to the new file ``output``.

    The file is a complete and valid recording, or is not created. Raises RecordingError and
    UsageError.
    """
    manifest = read_manifest(path)
    with Outputs(output, path, force=force) as outputs:
        draft = unpack(path, outputs.folder)
        try:
            with warnings.catch_warnings():
                # The limits are those of a display; the import copies everything.
                warnings.simplefilter("ignore", RecordingCut)
                recording = Recording.open(draft)
        except RecordingError as error:
            hint = repair_hint(path) if error.hint == repair_hint(draft) else error.hint
            raise RecordingError(path, error.problem, hint) from error
        with closing(recording):
            events = number_of(recording.rows("SELECT count(*) FROM event")[0])
        listed = manifest.counts.events + manifest.counts.context
        if events != listed:
            raise RecordingError(
                path,
                f"its manifest lists {listed:,} events, but its recording has {events:,}",
                "ask for it again, or do not trust it",
            )
        outputs.place([draft])
    return manifest


def is_json_lines(path: Path) -> bool:
    """Return whether a file begins as JSON lines do; False if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(64).lstrip().startswith(b"{")
    except (OSError, ValueError):
        return False


def import_json_lines(path: Path, output: Path, *, force: bool = False) -> int:
    """Write the recording in the JSON lines ``path`` to the new file ``output``.

    Returns the number of events. The file is complete, or is not created. Raises UsageError and
    RecordingError.
    """
    lines = JsonLines(path)
    with Outputs(output, path, force=force) as outputs:
        draft = outputs.new(output.suffix)
        with complete_recording(draft, is_draft=True) as recording:
            for entry in lines.entries():
                recording.put(entry)
        outputs.place([draft])
    return lines.events
