# SPDX-License-Identifier: Apache-2.0
"""Processes of a tap, looked for from outside."""

from __future__ import annotations

from pathlib import Path


def relayer_of(pid: int) -> int:
    """Return the relay process of ``pid``."""
    (found,) = (
        int(child)
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if b"nri_scope.tap.relayer" in Path(f"/proc/{child}/cmdline").read_bytes()
    )
    return found
