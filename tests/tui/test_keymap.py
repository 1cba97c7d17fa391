# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from nri_scope.tui.actions import ACTIONS, Scope, shown


def test_key_names_are_abbreviated_for_display() -> None:
    assert [shown(key) for key in ("ctrl+p", "space", "F", "pageup", "+", "f1", "shift+tab")] == [
        "^P",
        "Space",
        "F",
        "PgUp",
        "+",
        "F1",
        "Shift-Tab",
    ]


def test_every_action_has_a_key_and_help_in_lower_case() -> None:
    for action in ACTIONS:
        assert action.keys, action.name
        assert action.help[0].islower(), action.name


def test_no_key_has_two_actions_in_one_place() -> None:
    used: dict[tuple[Scope, str], str] = {}
    for action in ACTIONS:
        for scope in action.scopes:
            for key in action.keys:
                assert used.setdefault((scope, key), action.name) == action.name
    # A key of a view would hide the same key of the app, except in the filter bar: keys of the app
    # do not work there.
    for (scope, key), name in used.items():
        assert scope is Scope.FILTER or used.get((Scope.APP, key), name) == name


def test_keys_can_be_told_apart_by_terminals() -> None:
    # Terminals send the same bytes for these as for Tab, Enter, Backspace and Escape.
    alike = {"ctrl+i", "ctrl+m", "ctrl+h", "ctrl+["}
    assert not alike & {key for action in ACTIONS for key in action.keys}
