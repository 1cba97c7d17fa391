# SPDX-License-Identifier: Apache-2.0
"""Where a recording goes when nobody names a file."""

from __future__ import annotations

import re
import socket
from datetime import UTC, datetime
from pathlib import Path

SUFFIX = ".nriscope.db"


def host_name() -> str:
    """The name of the host, as far as it can be part of a file's name."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", socket.gethostname()).strip(".-")[:64] or "host"


def default_path(folder: Path, now: datetime | None = None, *, with_host: bool = True) -> Path:
    """``nri-<host>-<UTC time>.nriscope.db`` in ``folder``, a name that is not taken."""
    host = f"{host_name()}-" if with_host else ""
    stem = f"nri-{host}{(now or datetime.now(UTC)):%Y%m%dT%H%M%SZ}"
    path = folder / f"{stem}{SUFFIX}"
    number = 2
    while path.exists() or path.is_symlink():
        path = folder / f"{stem}-{number}{SUFFIX}"
        number += 1
    return path
