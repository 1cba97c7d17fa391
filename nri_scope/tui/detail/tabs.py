# SPDX-License-Identifier: Apache-2.0
"""The tabs of the detail pane, and what is asked for when one is shown."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from nri_scope.tui.store.rows import Row


class Tab(StrEnum):
    """The tabs, in their order."""

    SUMMARY = "Summary"
    CONTAINER = "Container"
    CHANGES = "Changes"
    BLAME = "Blame"
    RAW = "Raw"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be shown."""

    row: Row
    tab: Tab
    width: int
    """Columns there are; longer lines are broken where the renderer can."""
    full: bool = False
    """Of the blame tab: every line, not only what was changed."""
    comment: str = ""
    """What the user wrote about the event."""
