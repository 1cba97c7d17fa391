# SPDX-License-Identifier: Apache-2.0
"""Writes a report's text."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path


def write(path: Path, parts: Iterable[str]) -> int:
    """Write a new UTF-8 file that only its owner can read; return its size. Raises OSError."""
    # 0600, regardless of the umask.
    with open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as stream:
        for part in parts:
            # A recording may contain text that UTF-8 cannot represent.
            stream.write(part.encode("utf-8", "replace"))
        return stream.tell()
