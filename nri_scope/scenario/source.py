# SPDX-License-Identifier: Apache-2.0
"""Paths of scenarios and manifests. Imports no other module of this room: the TUI needs it."""

from __future__ import annotations

import stat
from pathlib import Path

from nri_scope.recording.schema_check import SCENARIO_SUFFIXES
from nri_scope.text.escape import safe

STANDARD_INPUT = Path("-")
"""The path that stands for standard input."""


def is_text(path: Path) -> bool:
    """Return whether a path is that of a scenario or a manifest, by its name or as a pipe."""
    if path == STANDARD_INPUT or path.suffix.lower() in SCENARIO_SUFFIXES:
        return True
    try:
        return stat.S_ISFIFO(path.stat().st_mode)
    except (OSError, ValueError):
        return False


def source_name(path: Path) -> str:
    """Return how errors name a file."""
    return "standard input" if path == STANDARD_INPUT else safe(str(path))
