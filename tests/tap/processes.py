# SPDX-License-Identifier: Apache-2.0
"""Find the processes of a tap in /proc."""

from __future__ import annotations

from pathlib import Path


def relayer_of(pid: int) -> int:
    """Return the process id of the relay process whose parent is ``pid``."""
    (relayer,) = (
        int(child)
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if b"nri_scope.tap.relay_main" in Path(f"/proc/{child}/cmdline").read_bytes()
    )
    return relayer
