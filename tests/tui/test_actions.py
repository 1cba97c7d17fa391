# SPDX-License-Identifier: Apache-2.0
"""No key without an action, and no action without a key in help."""

from __future__ import annotations

from textual.widget import Widget

from nri_scope.tui.actions import ACTIONS, Scope, actions_of
from nri_scope.tui.widgets.board import Board
from tests.tui.screen import showing


async def test_every_action_is_available_somewhere() -> None:
    async with showing() as screen:
        await screen.app.views.complete()
        missing = [
            action.name
            for action in ACTIONS
            if action.name not in screen.app.available() and action.scopes != (Scope.COMPARE,)
        ]
    assert missing == []


async def test_app_has_a_method_for_each_global_action() -> None:
    async with showing() as screen:
        for action in actions_of(Scope.APP):
            assert hasattr(screen.app, f"action_{action.name}"), action.name


async def test_each_view_has_a_method_for_each_of_its_keys() -> None:
    async with showing() as screen:
        for number, scope in enumerate(
            (Scope.EVENTS, Scope.CONTAINERS, Scope.TIMELINE, Scope.PLUGINS, Scope.SESSIONS), 1
        ):
            await screen.press(str(number))
            await screen.until(lambda scope=scope: f"{scope.value}]" in screen.text())  # type: ignore[misc]
            current = screen.app.views.current
            targets: list[Widget] = [current]
            targets += [current.body] if isinstance(current, Board) else []
            for action in actions_of(scope):
                has_method = [hasattr(one, f"action_{action.name}") for one in targets]
                assert any(has_method), (scope, action.name)


async def test_each_method_of_a_command_has_an_action() -> None:
    async with showing() as screen:
        methods = {name for name in vars(screen.app) if name.startswith("action_")}
    assert methods and {name.removeprefix("action_") for name in methods} <= {
        action.name for action in ACTIONS
    }
