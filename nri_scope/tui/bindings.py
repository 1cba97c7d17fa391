# SPDX-License-Identifier: Apache-2.0
"""The table of actions as Textual's bindings."""

from __future__ import annotations

from textual.binding import Binding, BindingType

from nri_scope.tui.model.actions import DEFAULT
from nri_scope.tui.model.keys import Keymap, Scope


def bindings(*scopes: Scope) -> list[BindingType]:
    """For ``BINDINGS`` of a widget: all actions of ``scopes``; their ids are the actions' names.

    The widget, or what it is in, has ``action_<name>`` for each. Rebinding goes through the app's
    keymap (`as_keymap`), so the keys here are the usual ones.
    """
    return [
        Binding(",".join(action.keys), action.name, action.help, show=False, id=action.name)
        for action in DEFAULT.of(*scopes)
        if action.keys
    ]


def as_keymap(keymap: Keymap) -> dict[str, str]:
    """For ``App.set_keymap``: the actions whose keys are not the usual ones."""
    return {
        # Textual takes an empty text for "as usual".
        action.name: ",".join(action.keys) or "unbound"
        for action in keymap
        if action.keys != DEFAULT[action.name].keys
    }
