# SPDX-License-Identifier: Apache-2.0
"""Files of the examined machine, below a root folder."""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO

FILE_MAX = 1 << 20
"""Maximum size of a file in bytes; configuration files have a few thousand."""
LISTING_MAX = 1000
"""Maximum number of entries of a folder that are examined."""
LINKS_MAX = 40
"""Maximum number of symbolic links followed for one path, as in the kernel."""


@dataclass(frozen=True, slots=True)
class Host:
    """A machine's file system, mounted at ``root``.

    Paths are those of that machine. Symbolic links are followed inside ``root``, absolute ones too:
    a node's /var/run is a link to /run, and in a debug container both are below /host.
    """

    root: Path = Path("/")

    def resolve(self, path: str) -> Path:
        """Return ``path`` on this machine, without links; missing parts are appended unchanged.

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
                # Opening the path later raises the same error.
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
        """Return the status of ``path``, following links. Raises OSError."""
        return self.resolve(path).stat()

    def exists(self, path: str) -> bool:
        """Return whether ``path`` exists; False without permission to see it."""
        try:
            self.status(path)
        except OSError:
            return False
        return True

    def read(self, path: str, limit: int = FILE_MAX) -> bytes:
        """Return the content of a regular file of at most ``limit`` bytes. Raises OSError."""
        with self._open(path) as file:
            content = file.read(limit + 1)
        if len(content) > limit:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)
        return content

    def tail(self, path: str, limit: int) -> bytes:
        """Return the last ``limit`` bytes of a regular file. Raises OSError."""
        with self._open(path) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - limit))
            return file.read(limit)

    def _open(self, path: str) -> BinaryIO:
        # Without O_NONBLOCK, opening a named pipe would wait for a writer.
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
        file = os.fdopen(os.open(self.resolve(path), flags), "rb")
        mode = os.fstat(file.fileno()).st_mode
        if stat.S_ISREG(mode):
            return file
        file.close()
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        raise OSError(errno.EINVAL, "not a regular file", path)

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, sorted by bytes as in Go. Raises OSError."""
        with os.scandir(self.resolve(folder)) as entries:
            return sorted((entry.name for entry in islice(entries, LISTING_MAX)), key=os.fsencode)


def words(error: OSError) -> str:
    """Return an OSError's reason, without number and path."""
    return (error.strerror or str(error)).lower()


def _parts(path: str) -> list[str]:
    """Return the components of ``path``, last first."""
    return [part for part in reversed(path.split("/")) if part not in ("", ".")]
