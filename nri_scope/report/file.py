# SPDX-License-Identifier: Apache-2.0
"""Writes a report: for its owner's eyes alone, and all of it or nothing."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from nri_scope.errors import UsageError


def check(path: Path, *, force: bool) -> None:
    """Say what speaks against writing there before any work is done. Raises UsageError."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder", "name a file")
    if not force and (path.is_symlink() or path.exists()):
        raise UsageError(f"{path} exists already", "name another file, or say --force")
    if not path.parent.is_dir():
        raise UsageError(f"{path.parent} is no folder", "make it first")


def write(path: Path, parts: Iterable[str], *, force: bool) -> int:
    """Write text as UTF-8, readable for its owner alone; returns its bytes. Raises UsageError."""
    temporary = ""
    try:
        # 0600, whatever the umask is.
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name[:40]}.", dir=path.parent)
        with os.fdopen(descriptor, "wb") as stream:
            for part in parts:
                # A recording may hold what no file in UTF-8 can.
                stream.write(part.encode("utf-8", "replace"))
            size = stream.tell()
        if force:
            Path(temporary).replace(path)
        else:
            _put(Path(temporary), path)
        return size
    except FileExistsError as error:
        raise UsageError(f"{path} exists already", "name another file, or say --force") from error
    except OSError as error:
        words = (error.strerror or str(error)).lower()
        raise UsageError(f"cannot write {path}: {words}", "name another place with -o") from error
    finally:
        if temporary:
            with suppress(OSError):
                Path(temporary).unlink()


def _put(temporary: Path, path: Path) -> None:
    """Rename, but over nothing that somebody put there meanwhile."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:
        # A file system without hard links.
        temporary.rename(path)
    else:
        temporary.unlink()
