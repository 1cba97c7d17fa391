# SPDX-License-Identifier: Apache-2.0
"""Write a report's text."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path


def write(path: Path, parts: Iterable[str]) -> int:
    """Write a new UTF-8 file with mode 0600; return its size in bytes. Raises OSError."""
    # 0600, regardless of the umask.
    with open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as stream:
        for part in parts:
            # A recording may contain lone surrogates.
            stream.write(part.encode("utf-8", "replace"))
        return stream.tell()
