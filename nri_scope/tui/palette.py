# SPDX-License-Identifier: Apache-2.0
"""The actions in Textual's command palette."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import cast

from textual.command import DiscoveryHit, Hit, Hits, Provider

from .actions import Action, Scope
from .key_order import KeyOrderApp
from .views import SCOPES
from .widgets.board import Board

_WORDS = {
    "mode_events": "log list",
    "mode_containers": "containers tree",
    "mode_plugins": "stats chain latency",
    "mode_sessions": "runtimes gaps",
    "mode_findings": "diagnose diagnosis report",
    "filter": "where query",
    "clear_filter": "reset all",
    "view_errors": "errors failures",
    "view_changed": "changes adjustments",
    "view_slow": "slow timeouts",
    "search": "find grep",
    "narrow_container": "container",
    "narrow_pod": "pod",
    "follow": "tail live",
    "comment": "note annotate",
    "compare": "diff difference",
    "blame": "owner who",
    "toggle_detail": "show details",
    "copy": "clipboard yank",
    "copy_command": "cli shell",
    "save_text": "write yaml",
    "save_recording": "extract",
    "export_bundle": "export share zip redact redaction",
    "theme": "colors",
    "suspend": "background",
}
"""Other words that people type to find an action, such as names of commands."""


class PaletteActions(Provider):
    """Provider of the actions of the app and all views.

    Running an action of another view shows that view first.
    """

    async def discover(self) -> Hits:
        """Yield all actions: of the app and the current view, then of other views."""
        for action, label in self._labels():
            yield DiscoveryHit(label, partial(self._run, action), text=label)

    async def search(self, query: str) -> Hits:
        """Yield the actions that match ``query``."""
        matcher = self.matcher(query)
        for action, label in self._labels():
            # Also match the name used in the configuration.
            words = _WORDS.get(action.name, "").split()
            names = (label, action.name.replace("_", " "), *words)
            score = max(map(matcher.match, names))
            if score > 0:
                # An exact word is meant, not a part of another one.
                score += query.strip().lower() in (*words, action.name)
                yield Hit(score, matcher.highlight(label), partial(self._run, action), label)

    @property
    def _app(self) -> KeyOrderApp:
        return cast("KeyOrderApp", self.app)

    def _labels(self) -> Iterator[tuple[Action, str]]:
        """Yield actions with labels: of the app and the current view, then of other places."""
        app = self._app
        here, available = (Scope.APP, app.views.scope), app.available()
        actions = [
            action for action in app.keymap if action.in_palette and action.name in available
        ]
        near = [action for action in actions if not set(here).isdisjoint(action.scopes)]
        far = [action for action in actions if action not in near and _places(action)]
        for action in (*near, *far):
            keys = app.keymap.shown(action.name)
            where = "" if action in near else f"{_places(action)[0].value}: "
            label = f"{where}{action.help}"
            yield action, f"{label}   ({keys})" if keys else label

    async def _run(self, action: Action) -> None:
        """Run an action, showing its view first if needed."""
        app, views = self._app, self._app.views
        if hasattr(app, f"action_{action.name}"):
            await app.run_action(action.name, app)
            return
        if views.scope not in action.scopes:
            place = _places(action)[0]
            if place is Scope.DETAIL:
                views.open_detail()
                await app.run_action(action.name, views.detail.body)
                return
            views.show(next(name for name, scope in SCOPES.items() if scope is place))
        current = views.current
        if isinstance(current, Board) and not hasattr(current, f"action_{action.name}"):
            await app.run_action(action.name, current.body)
        else:
            await app.run_action(action.name, current)


def _places(action: Action) -> list[Scope]:
    """Return the views, and the detail pane, in which an action is available."""
    return [scope for scope in (*SCOPES.values(), Scope.DETAIL) if scope in action.scopes]
