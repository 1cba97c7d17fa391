# SPDX-License-Identifier: Apache-2.0
"""atheris target: a recording with arbitrary companion files, owners, modes and folders.

Run by ``make fuzz``. Reading, marking and recording must end and raise only RecordingError.
Recording may change the recording and its companions, marking only the file of marks, and reading
nothing but an index of the log. Owners vary only when run as root.
Usage: ``python -m tests.fuzz.fuzz_companions``.
"""

from __future__ import annotations

import faulthandler
import random
import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(
    include=[
        "nri_scope.recording.file.reserved_names",
        "nri_scope.recording.reading.opening",
        "nri_scope.recording.file.trusted_location",
    ]
):
    from tests.recording.companions import RecordingFacts, impatient, one_scene


_TIMEOUT_S = 20
_FOLDER = tempfile.TemporaryDirectory()


def one_input(data: bytes) -> None:
    """Check `one_scene` with facts derived from ``data``; exit if it hangs."""
    faulthandler.dump_traceback_later(_TIMEOUT_S, exit=True)
    try:
        with impatient():
            # Expand the input: libFuzzer begins with few bytes, and a scene takes 0.1 s.
            facts = random.Random(data).randbytes(16)
            one_scene(Path(_FOLDER.name), RecordingFacts.of(facts))
    finally:
        faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()
