# SPDX-License-Identifier: Apache-2.0
"""The files of the examined machine, below a given root folder."""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

FILE_MAX = 1 << 20
"""Maximum size of a configuration file in bytes; real ones have a few thousand."""
LISTING_MAX = 1000
"""Maximum number of entries of a folder that are examined."""
LINKS_MAX = 40
"""Maximum number of symbolic links followed for one path; the kernel's own limit."""


@dataclass(frozen=True, slots=True)
class Host:
    """A machine's file system, mounted at ``root``.

    Paths are given as that machine sees them. Symbolic links, absolute ones too, are followed
    inside ``root``: a node's /var/run is a link to /run, and seen from a debug container both are
    below /host.
    """

    root: Path = Path("/")

    def resolve(self, path: str) -> Path:
        """Return the real place of ``path``; a part that does not exist is appended unchanged.

        Raises OSError for a loop of links.
        """
        pending = _parts(path)
        real: list[str] = []
        links = 0
        while pending:
            part = pending.pop()
            if part == "..":
                del real[-1:]
                continue
            here = self.root.joinpath(*real, part)
            try:
                is_link = stat.S_ISLNK(here.lstat().st_mode)
            except OSError:
                # Opening the path later fails with the same error and a better explanation.
                is_link = False
            if not is_link:
                real.append(part)
                continue
            links += 1
            if links > LINKS_MAX:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            target = here.readlink()
            if target.is_absolute():
                real.clear()
            pending.extend(_parts(str(target)))
        return self.root.joinpath(*real)

    def status(self, path: str) -> os.stat_result:
        """Return stat(2) of ``path``, links followed. Raises OSError."""
        return self.resolve(path).stat()

    def exists(self, path: str) -> bool:
        """Return whether something exists at ``path``, as far as permissions show."""
        try:
            self.status(path)
        except OSError:
            return False
        return True

    def read(self, path: str, limit: int = FILE_MAX) -> bytes:
        """Return the content of a regular file. Raises OSError, also for too large and other
        files.
        """
        # Without O_NONBLOCK, opening a named pipe would wait for a writer.
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
        descriptor = os.open(self.resolve(path), flags)
        with os.fdopen(descriptor, "rb") as file:
            mode = os.fstat(descriptor).st_mode
            if stat.S_ISDIR(mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
            if not stat.S_ISREG(mode):
                raise OSError(errno.EINVAL, "not a regular file", path)
            content = file.read(limit + 1)
        if len(content) > limit:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)
        return content

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, sorted by their bytes as Go does. Raises OSError."""
        with os.scandir(self.resolve(folder)) as entries:
            return sorted((entry.name for entry in islice(entries, LISTING_MAX)), key=os.fsencode)


def words(error: OSError) -> str:
    """Return an OSError's reason, without number and path."""
    return (error.strerror or str(error)).lower()


def _parts(path: str) -> list[str]:
    """Return the components of ``path``, last first."""
    return [part for part in reversed(path.split("/")) if part not in ("", ".")]
