# SPDX-License-Identifier: Apache-2.0
"""Writes a report's text."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path


def write(path: Path, parts: Iterable[str]) -> int:
    """Write a new file as UTF-8, for its owner's eyes alone; returns its bytes. Raises OSError."""
    # 0600, whatever the umask is.
    with open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as stream:
        for part in parts:
            # A recording may hold what no file in UTF-8 can.
            stream.write(part.encode("utf-8", "replace"))
        return stream.tell()
