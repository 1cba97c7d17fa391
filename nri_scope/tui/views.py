# SPDX-License-Identifier: Apache-2.0
"""The views that there are beside the list of events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from nri_scope.tui.model.context import Context
from nri_scope.tui.model.keys import Keymap, Scope
from nri_scope.tui.model.store import Store
from nri_scope.tui.widgets.board import Board
from nri_scope.tui.widgets.chain import Chain
from nri_scope.tui.widgets.sessions import Sessions
from nri_scope.tui.widgets.timeline import Timeline
from nri_scope.tui.widgets.tree import Tree

EVENTS = "events"
"""The name of the first view."""


@dataclass(frozen=True, slots=True)
class ViewKind:
    """One of them; ``mode_<name>`` is the action that shows it."""

    name: str
    scope: Scope
    make: Callable[[Store, Context, Keymap], Board]


BOARDS: tuple[ViewKind, ...] = (
    ViewKind("containers", Scope.CONTAINERS, Tree),
    ViewKind("timeline", Scope.TIMELINE, Timeline),
    ViewKind("plugins", Scope.PLUGINS, Chain),
    ViewKind("sessions", Scope.SESSIONS, Sessions),
)
"""In the order of their keys."""
