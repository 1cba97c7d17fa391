# SPDX-License-Identifier: Apache-2.0
"""atheris target: arbitrary bytes as a bundle, as changes to a sound one, and as a manifest.

Run by ``make fuzz``; any exception but RecordingError is a finding, and so is a file that is left
where a bundle was refused, or that is not the one that was packed. Usage: ``python -m
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
    from nri_scope.share.bundle.zip_writer import pack

from nri_scope.errors import RecordingError
from tests.share.bundle.bundles import TEXT, a_manifest

RECORDED = bytes(range(256)) * 4
_FOLDER = tempfile.TemporaryDirectory()
PATH = Path(_FOLDER.name) / "x.zip"
TARGET = Path(_FOLDER.name) / "private"
TARGET.mkdir()
pack(PATH, {MANIFEST: to_bytes(a_manifest(RECORDED)), README: TEXT, RECORDING: RECORDED})
SOUND = PATH.read_bytes()
# What comes out is larger than this only where the archive says so itself, and then it is refused.
_MOST = RATIO_FROM


def changed(data: bytes) -> bytes:
    """A sound bundle with a few of its bytes replaced, each by three of ``data``."""
    content = bytearray(SOUND)
    for at in range(0, len(data) - 2, 3):
        content[int.from_bytes(data[at : at + 2], "big") % len(content)] = data[at + 2]
    return bytes(content)


def with_manifest(data: bytes) -> bytes:
    """A sound archive whose manifest is ``data``."""
    PATH.unlink(missing_ok=True)
    pack(PATH, {MANIFEST: data, README: TEXT, RECORDING: RECORDED})
    return PATH.read_bytes()


def one_input(data: bytes) -> None:
    """The fuzz law: what was packed, or RecordingError."""
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
    assert len(unpacked) <= _MOST
    if make is changed:
        assert zlib.crc32(unpacked) == zlib.crc32(RECORDED)
    try:
        assert from_bytes(to_bytes(from_bytes(data[1:]))) == from_bytes(data[1:])
    except ManifestError:
        pass


if __name__ == "__main__":
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()
