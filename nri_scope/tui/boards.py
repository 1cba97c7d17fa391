# SPDX-License-Identifier: Apache-2.0
"""The views other than the list of events, imported only once that list is shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from .actions import Keymap
from .containers.container_board import ContainerBoard
from .findings.finding_board import FindingBoard
from .plugins.plugin_board import PluginBoard
from .sessions.session_board import SessionBoard
from .store.context import Context
from .store.store import Store
from .timeline.timeline_board import TimelineBoard
from .widgets.board import Board

BOARDS: Mapping[str, Callable[[Store, Context, Keymap], Board]] = MappingProxyType(
    {
        "containers": ContainerBoard,
        "timeline": TimelineBoard,
        "plugins": PluginBoard,
        "sessions": SessionBoard,
        "findings": FindingBoard,
    }
)
"""Boards by the names of their views."""
