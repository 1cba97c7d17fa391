# SPDX-License-Identifier: Apache-2.0
"""Extract the recording from an untrusted bundle."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

from nri_scope.errors import RecordingError
from nri_scope.text.quantities import size as in_bytes

from ..file.file_errors import error_words, reading_hint
from .manifest import (
    MANIFEST,
    MAX_MANIFEST,
    README,
    RECORDING,
    Manifest,
    ManifestError,
    NewerBundle,
    from_bytes,
)
from .zip_reader import LOCAL_SIGNATURE, ArchiveError, Entry, entries, unpacked

MAX_BUNDLE = 1 << 30
"""Maximum size of a bundle, in bytes. Issue trackers accept 25 million."""
MAX_RECORDING = (2 << 30) - 1
"""Maximum size of a recording in a bundle, in bytes. A larger one would require Zip64."""
_MAX_README = 1 << 20
LARGE_BYTES = 64 << 20
"""Size in bytes above which free space is checked; as much must remain free."""

_SQLITE = b"SQLite format 3\0"
_GIVE = "give a *.nriscope.zip that `nri-scope export` wrote"
_ASK = "ask for it again, or do not trust it"


class OpenedBundle(NamedTuple):
    """Bundle with a checked directory and manifest."""

    file: BinaryIO
    entries: dict[str, Entry]
    manifest: Manifest


def unpack(path: Path, folder: Path) -> Path:
    """Write the recording of the bundle ``path`` to a new file in ``folder``; return its path.

    ``folder`` must be private to the caller. The file is readable by its owner only. Its content
    matches the manifest's hash, but is not checked to be a recording. No file is left after an
    error. Raises RecordingError for errors in the bundle, and OSError for errors in the folder.
    """
    target = folder / RECORDING
    try:
        with opened(path) as bundle:
            _check_others(bundle)
            _check_room(path, bundle.entries[RECORDING].size, folder)
            with _new(target) as write:
                for piece in _checked(bundle, RECORDING):
                    write(piece)
    except _Unwritable as error:
        raise error.reason from error
    return target


def _check_room(path: Path, size: int, folder: Path) -> None:
    """Refuse a recording that would fill the disk (or the memory, for a tmpfs)."""
    if size < LARGE_BYTES:
        return
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise _Unwritable(error) from error
    if free < size + LARGE_BYTES:
        raise RecordingError(
            path,
            f"it takes {in_bytes(size)} unpacked, and {folder.parent} has {in_bytes(free)} free",
            "free some space there, or set TMPDIR to another folder",
        )


class _Unwritable(Exception):
    """Error of writing a file, as opposed to reading one."""

    def __init__(self, reason: OSError) -> None:
        super().__init__(str(reason))
        self.reason = reason


@contextmanager
def _new(target: Path) -> Iterator[Callable[[bytes], None]]:
    """Create a file and yield a function that writes to it; remove the file if the block fails.

    Raises `_Unwritable`.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        descriptor = os.open(target, flags, 0o600)
    except OSError as error:
        raise _Unwritable(error) from error

    def write(piece: bytes) -> None:
        try:
            while piece:
                piece = piece[os.write(descriptor, piece) :]
        except OSError as error:
            raise _Unwritable(error) from error

    try:
        yield write
    except BaseException:
        target.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)


def read_manifest(path: Path) -> Manifest:
    """Return the manifest of the bundle ``path``. Raises RecordingError."""
    with opened(path) as bundle:
        return bundle.manifest


def check(path: Path) -> None:
    """Check that the bundle ``path`` can be opened, without reading its recording.

    Raises RecordingError.
    """
    with opened(path) as bundle:
        _check_others(bundle)


@contextmanager
def opened(path: Path) -> Iterator[OpenedBundle]:
    """Open the bundle ``path``. Raises RecordingError, also for errors inside the block."""
    try:
        with _file(path) as file:
            length = os.fstat(file.fileno()).st_size
            if length > MAX_BUNDLE:
                raise RecordingError(
                    path, f"it has {length:,} bytes, and a bundle has at most {MAX_BUNDLE:,}", _ASK
                )
            _check_kind(path, file)
            members = entries(file, length, MAX_RECORDING)
            manifest = _manifest(file, members)
            yield OpenedBundle(file, members, manifest)
    except ArchiveError as error:
        raise RecordingError(path, f"not a bundle, or damaged: {error}", _ASK) from error
    except NewerBundle as error:
        raise RecordingError(path, str(error), "upgrade nri-scope") from error
    except ManifestError as error:
        raise RecordingError(path, f"not a bundle, or damaged: {error}", _ASK) from error
    except FileNotFoundError as error:
        raise RecordingError(path, "no such file", _GIVE) from error
    except OSError as error:
        problem = error_words(error)
        raise RecordingError(path, problem, reading_hint(problem)) from error


def _file(path: Path) -> BinaryIO:
    # Non-blocking, as opening a pipe would wait forever.
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise ArchiveError("it is not a regular file")
    return file


def _check_kind(path: Path, file: BinaryIO) -> None:
    start = file.read(len(_SQLITE))
    if start == _SQLITE:
        raise RecordingError(path, "a recording, not a bundle", "use it as it is")
    if not start.startswith(LOCAL_SIGNATURE):
        raise RecordingError(path, "not a bundle", _GIVE)


def _manifest(file: BinaryIO, files: dict[str, Entry]) -> Manifest:
    entry = files.get(MANIFEST)
    if entry is None:
        raise ManifestError(f"it has no {MANIFEST}")
    if entry.size > MAX_MANIFEST:
        raise ManifestError("its manifest is too large")
    manifest = from_bytes(b"".join(unpacked(file, entry)))
    # A later version may add files, but must list them in its manifest.
    for name in files.keys() - {MANIFEST} - manifest.files.keys():
        raise ManifestError(f"it has a file {name} that its manifest does not list")
    for name in sorted(manifest.files.keys() - files.keys()):
        raise ManifestError(f"it has no {name[:60]}, which its manifest lists")
    for name, entry in files.items():
        if name != MANIFEST and manifest.files[name].size != entry.size:
            raise ManifestError(f"the size of {name} is not the one in its manifest")
    if RECORDING not in files:
        raise ManifestError(f"it has no {RECORDING}")
    return manifest


def _check_others(bundle: OpenedBundle) -> None:
    readme = bundle.entries.get(README)
    if readme is not None:
        if readme.size > _MAX_README:
            raise ManifestError(f"its {README} is too large")
        for _ in _checked(bundle, README):
            pass


def _checked(bundle: OpenedBundle, name: str) -> Iterator[bytes]:
    """Yield the content of a file. Raises ManifestError at the end if its hash is not that in the
    manifest.
    """
    digest = hashlib.sha256()
    for piece in unpacked(bundle.file, bundle.entries[name]):
        digest.update(piece)
        yield piece
    if digest.hexdigest() != bundle.manifest.files[name].sha256:
        raise ManifestError(f"{name} is not the file that its manifest describes")
