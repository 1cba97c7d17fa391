# SPDX-License-Identifier: Apache-2.0
"""Make a recording of JSON lines."""

from __future__ import annotations

from pathlib import Path

from nri_scope.recorder.complete_recording import complete_recording

from .json_lines import JsonLines
from .output_files import Outputs


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
        with complete_recording(draft) as recording:
            for entry in lines.entries():
                recording.put(entry)
        outputs.place([draft])
    return lines.events
