# SPDX-License-Identifier: Apache-2.0
"""Create folders that only their owner can enter."""

from __future__ import annotations

from pathlib import Path


def make_private_folder(path: Path) -> None:
    """Create a folder and its missing parents with mode 0700, whatever the umask. Raises OSError.

    ``Path.mkdir`` gives ``mode`` to the last folder only.
    """
    missing = [folder for folder in path.parents if not folder.exists()]
    for folder in (*reversed(missing), path):
        folder.mkdir(mode=0o700, exist_ok=True)
