# SPDX-License-Identifier: Apache-2.0
"""Every action by its name, for Textual's palette."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, cast

from textual.command import DiscoveryHit, Hit, Hits, Provider

from nri_scope.tui.model.keys import Action, Scope
from nri_scope.tui.widgets.board import Board

if TYPE_CHECKING:
    from nri_scope.tui.app import ScopeApp


class Actions(Provider):
    """What can be done now."""

    async def discover(self) -> Hits:
        """All of them, in the order of the table."""
        for action, label in self._labels():
            yield DiscoveryHit(label, partial(self._do, action), text=label)

    async def search(self, query: str) -> Hits:
        """Those that are like ``query``."""
        matcher = self.matcher(query)
        for action, label in self._labels():
            # Its name, too: that is what the configuration calls it.
            score = max(matcher.match(label), matcher.match(action.name.replace("_", " ")))
            if score > 0:
                yield Hit(score, matcher.highlight(label), partial(self._do, action), label)

    @property
    def _app(self) -> ScopeApp:
        return cast("ScopeApp", self.app)

    def _labels(self) -> Iterator[tuple[Action, str]]:
        """What the view that is shown can do, or the app."""
        app = self._app
        available = app.available()
        for action in app.keymap.of(Scope.APP, app.scope):
            if action.in_palette and action.name in available:
                keys = app.keymap.shown(action.name)
                yield action, f"{action.help}   ({keys})" if keys else action.help

    async def _do(self, action: Action) -> None:
        """What a key would."""
        app, current = self._app, self._app.current
        focused = current.body if isinstance(current, Board) else current
        target = app if hasattr(app, f"action_{action.name}") else focused
        await app.run_action(action.name, target)
