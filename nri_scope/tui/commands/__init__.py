# SPDX-License-Identifier: Apache-2.0
"""Implement the commands of keys: filter, find, mark, copy, save, export.

In: the parts of the screen that a command uses, as arguments (`KeyCommands`). Out: a changed view,
a message, or a file. A command never uses the app, except for background work and screens.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from textual.app import App

from nri_scope.recording.marks.user_marks import UserMarks

from ..frame import Frame
from ..store.context import Context
from ..store.store import Store
from ..views import Views


@dataclass
class KeyCommands:
    """Commands of a few keys. They use the app only for background work and screens."""

    app: App[Any]
    frame: Frame
    views: Views
    store: Store
    context: Context
    marks: UserMarks
    path: Path
    """The recording."""

    def report_problem(self, words: str) -> None:
        """Say why a command does nothing."""
        self.frame.say(words, problem=True)
