# SPDX-License-Identifier: Apache-2.0
"""Bundles for tests: valid ones, and arbitrary zip files."""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path

from nri_scope.nri.plain import Plain
from nri_scope.recording.bundle.manifest import (
    MANIFEST,
    README,
    RECORDING,
    Counts,
    File,
    Manifest,
    to_bytes,
)
from nri_scope.share.bundle.bundle_export import pack

SAMPLE = Path(__file__).parents[3] / "recordings" / "containerd-2.1.nriscope.db"
TEXT = b"# A recording\n"


def a_file(content: bytes) -> File:
    return File(len(content), hashlib.sha256(content).hexdigest())


def a_manifest(recording: bytes, readme: bytes = TEXT) -> Manifest:
    return Manifest(
        tool_version="0.1.0",
        recording_version=1,
        counts=Counts(31, 0, 0, 1, 3, 5, 0),
        first_ns=1,
        last_ns=2,
        files={README: a_file(readme), RECORDING: a_file(recording)},
    )


def a_bundle(path: Path, recording: bytes | None = None) -> Path:
    """Write a valid bundle of ``recording``, by default the bytes of `SAMPLE`."""
    content = SAMPLE.read_bytes() if recording is None else recording
    files = {MANIFEST: to_bytes(a_manifest(content)), README: TEXT, RECORDING: content}
    pack(path, dict(files))
    return path


def with_manifest(path: Path, change: dict[str, Plain], recording: bytes = b"x" * 100) -> Path:
    """Write a bundle with changed top-level members of the manifest."""
    document = json.loads(to_bytes(a_manifest(recording))) | change
    pack(path, {MANIFEST: json.dumps(document).encode(), README: TEXT, RECORDING: recording})
    return path


def a_zip(path: Path, *files: tuple[str | zipfile.ZipInfo, bytes]) -> Path:
    """Write a zip file with any members."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files:
            archive.writestr(name, content)
    return path
