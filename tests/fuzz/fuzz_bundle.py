# SPDX-License-Identifier: Apache-2.0
"""atheris target: arbitrary bytes as a bundle, as changes to a valid one, and as a manifest.

Run by ``make fuzz``. Findings are exceptions other than RecordingError, files left behind by a
rejected bundle, and unpacked content that differs from the packed one. Usage: ``python -m
tests.fuzz.fuzz_bundle``.
"""

from __future__ import annotations

import sys
import tempfile
import zlib
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["nri_scope.share.bundle"]):
    from nri_scope.recording.bundle.manifest import (
        MANIFEST,
        README,
        RECORDING,
        ManifestError,
        from_bytes,
        to_bytes,
    )
    from nri_scope.recording.bundle.unpack import unpack
    from nri_scope.recording.bundle.zip_reader import RATIO_FROM
    from nri_scope.share.bundle.bundle_export import pack

from nri_scope.errors import RecordingError
from tests.share.bundle.bundles import TEXT, a_manifest

RECORDED = bytes(range(256)) * 4
_FOLDER = tempfile.TemporaryDirectory()
PATH = Path(_FOLDER.name) / "x.zip"
TARGET = Path(_FOLDER.name) / "private"
TARGET.mkdir()
pack(PATH, {MANIFEST: to_bytes(a_manifest(RECORDED)), README: TEXT, RECORDING: RECORDED})
VALID = PATH.read_bytes()
# Larger output requires a larger size in the archive's own headers, and such archives are rejected.
_MAX_UNPACKED = RATIO_FROM


def changed(data: bytes) -> bytes:
    """A valid bundle with one byte replaced for each three bytes of ``data``: offset and value."""
    content = bytearray(VALID)
    for at in range(0, len(data) - 2, 3):
        content[int.from_bytes(data[at : at + 2], "big") % len(content)] = data[at + 2]
    return bytes(content)


def with_manifest(data: bytes) -> bytes:
    """A valid archive whose manifest is ``data``."""
    PATH.unlink(missing_ok=True)
    pack(PATH, {MANIFEST: data, README: TEXT, RECORDING: RECORDED})
    return PATH.read_bytes()


def one_input(data: bytes) -> None:
    """Check that unpacking returns the packed content or raises RecordingError."""
    make = (bytes, changed, with_manifest)[data[0] % 3 if data else 0]
    content = make(data[1:])
    PATH.write_bytes(content)
    try:
        found = unpack(PATH, TARGET)
    except RecordingError:
        assert not any(TARGET.iterdir())
        return
    unpacked = found.read_bytes()
    found.unlink()
    assert len(unpacked) <= _MAX_UNPACKED
    if make is changed:
        assert zlib.crc32(unpacked) == zlib.crc32(RECORDED)
    try:
        assert from_bytes(to_bytes(from_bytes(data[1:]))) == from_bytes(data[1:])
    except ManifestError:
        pass


if __name__ == "__main__":
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()
