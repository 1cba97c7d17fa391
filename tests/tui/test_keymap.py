# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from nri_scope.errors import UsageError
from nri_scope.tui.actions import ACTIONS, DEFAULT, Action, Keymap, Scope, shown


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


def test_one_key_for_two_actions_of_one_view_is_rejected() -> None:
    with pytest.raises(UsageError, match=r"the key F is both follow and pause"):
        DEFAULT.rebound({"pause": ("F",)})


def test_view_key_must_not_hide_a_global_key() -> None:
    with pytest.raises(UsageError, match=r"the key q is both quit and follow"):
        DEFAULT.rebound({"follow": ("q",)})


def test_keys_of_two_views_do_not_clash() -> None:
    actions = [
        Action("one", ("a",), "one", (Scope.EVENTS,)),
        Action("other", ("a",), "other", (Scope.TIMELINE,)),
    ]
    assert [action.name for action in Keymap(actions)] == ["one", "other"]


def test_input_keys_may_equal_global_keys() -> None:
    assert DEFAULT.rebound({"accept": ("ctrl+p",)}).shown("accept") == "^P"


def test_two_actions_can_swap_their_keys() -> None:
    keymap = DEFAULT.rebound({"follow": ("space",), "pause": ("F",)})
    assert (keymap.shown("follow"), keymap.shown("pause")) == ("Space", "F")


def test_unknown_action_is_rejected_with_a_suggestion() -> None:
    with pytest.raises(UsageError, match=r"no action 'folow'; did you mean follow\?"):
        DEFAULT.rebound({"folow": ("x",)})


def test_action_may_have_no_keys() -> None:
    keymap = DEFAULT.rebound({"theme": ()})
    assert keymap.first("theme") == ""
    assert DEFAULT.first("theme") == "T"
