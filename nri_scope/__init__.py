# SPDX-License-Identifier: Apache-2.0
"""nri-scope: watch, record, compare and replay traffic between runtimes and NRI plugins.

`open` and `create` read and write recordings from Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    from nri_scope.api import OpenRecording
    from nri_scope.recorder.complete_recording import CompleteRecording

__all__ = ["create", "open"]
__version__ = "0.1.0"

# Imports are in the functions: every command and helper process imports this package.


def open(path: str | Path) -> OpenRecording:
    """Open a recording or a bundle for reading; a context manager. Raises RecordingError."""
    from nri_scope.api import OpenRecording

    return OpenRecording(path)


def create(path: str | Path) -> AbstractContextManager[CompleteRecording]:
    """Create a recording, to be filled inside the block, for tests and converters.

    After an exception, the file is removed. Raises RecordingError, also for an existing file.
    """
    from pathlib import Path

    from nri_scope.recorder.complete_recording import complete_recording

    return complete_recording(Path(path))
