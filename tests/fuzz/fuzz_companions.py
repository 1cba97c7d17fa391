# SPDX-License-Identifier: Apache-2.0
"""atheris target: a recording with anything beside it, of any owner and mode, in any folder.

Run by ``make fuzz``; what is read, marked and recorded to comes to an end, raises nothing but
RecordingError (Refused for marks), and changes no file but the recording and its companions.
Owners are given away as root only. Usage: ``python -m tests.fuzz.fuzz_companions``.
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
        "nri_scope.recording.private_copy",
        "nri_scope.recording.reserved_names",
        "nri_scope.recording.opening",
        "nri_scope.recording.trusted_location",
    ]
):
    from tests.recording.companions import RecordingFacts, impatient, one_scene


_SECONDS = 20
_FOLDER = tempfile.TemporaryDirectory()


def one_input(data: bytes) -> None:
    """The fuzz law: `one_scene`, and no waiting."""
    faulthandler.dump_traceback_later(_SECONDS, exit=True)
    try:
        with impatient():
            # All facts from any input: libFuzzer begins with few bytes, and a scene takes 0.1 s.
            facts = random.Random(data).randbytes(16)
            one_scene(Path(_FOLDER.name), RecordingFacts.of(facts))
    finally:
        faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()
