# SPDX-License-Identifier: Apache-2.0
"""The recording in a bundle, as a file of its own."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from nri_scope.errors import RecordingError
from nri_scope.recording.bundle.manifest import Manifest
from nri_scope.recording.bundle.unpack import read_manifest, unpack
from nri_scope.recording.reader import Recording
from nri_scope.recording.rows import number_of
from nri_scope.recording.schema_check import recover

from ..output_files import Outputs


def import_bundle(path: Path, output: Path, *, force: bool = False) -> Manifest:
    """Write the recording of the bundle ``path`` to the new file ``output``.

    It is there as a whole, and a recording, or not at all. Raises RecordingError, UsageError.
    """
    manifest = read_manifest(path)
    with Outputs(output, path, force=force) as outputs:
        draft = unpack(path, outputs.folder)
        try:
            recording = Recording.open(draft)
        except RecordingError as error:
            hint = recover(path) if error.hint == recover(draft) else error.hint
            raise RecordingError(path, error.problem, hint) from error
        with closing(recording):
            events = number_of(recording.rows("SELECT count(*) FROM event")[0])
        told = manifest.counts.events + manifest.counts.context
        if events != told:
            raise RecordingError(
                path,
                f"its manifest tells of {told:,} events, and it has {events:,}",
                "ask for it again, or do not trust it",
            )
        outputs.place([draft])
    return manifest
