# SPDX-License-Identifier: Apache-2.0
"""The default path of a recording."""

from __future__ import annotations

import re
import socket
from datetime import UTC, datetime
from pathlib import Path

SUFFIX = ".nriscope.db"

LAUNCHED_FOLDER = Path("/var/lib/nri-scope")
"""Folder of recordings of launched plugins, whose working directory is the runtime's."""

V01_SPOOL = LAUNCHED_FOLDER / "v01"
"""Spool of the requests of NRI 0.1."""

DEFAULT_MAX_SIZE = 256 << 20
"""Default size limit in bytes of a recording that is written unattended, as a ring."""


def host_name() -> str:
    """Return the name of the host, reduced to characters that are safe in a file name."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", socket.gethostname()).strip(".-")[:64] or "host"


def default_path(folder: Path, now: datetime | None = None, *, with_host: bool = True) -> Path:
    """Return an unused path ``nri-<host>-<UTC time>.nriscope.db`` in ``folder``."""
    host = f"{host_name()}-" if with_host else ""
    stem = f"nri-{host}{(now or datetime.now(UTC)):%Y%m%dT%H%M%SZ}"
    path = folder / f"{stem}{SUFFIX}"
    number = 2
    while path.exists() or path.is_symlink():
        path = folder / f"{stem}-{number}{SUFFIX}"
        number += 1
    return path
