# SPDX-License-Identifier: Apache-2.0
"""Detect the plugins of a chain from the requests to validators (NRI 0.10 and later)."""

from __future__ import annotations

from nri_scope.errors import UsageError
from nri_scope.events import Event
from nri_scope.nri.identity import check_index
from nri_scope.nri.validation import consulted_plugins

from ..attribution.rounds import VALIDATE


class ChainWatch:
    """Detector of the plugins other than nri-scope's own connections."""

    def __init__(self, own_name: str) -> None:
        self._own_name = own_name
        self._known: tuple[str, ...] | None = None

    def look(self, event: Event, request: bytes) -> tuple[str, ...] | None:
        """Return the indices of all other plugins, ascending; None if unchanged or unknown."""
        if event.event != VALIDATE or event.mark:
            return None
        plugins = consulted_plugins(request)
        if plugins is None:
            return None
        found = tuple(sorted(index for index, name in plugins if name != self._own_name))
        if found == self._known:
            return None
        try:
            for index in found:
                check_index(index)
        except UsageError:
            return None
        self._known = found
        return found
