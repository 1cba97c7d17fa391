# SPDX-License-Identifier: Apache-2.0
"""Actions and the keys that call them: for bindings, help, palette, docs and rebinding alike."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from nri_scope.errors import UsageError


class Scope(Enum):
    """Where a key counts; the text names it in help and docs."""

    APP = "Everywhere"
    """Counts wherever no text is typed, whatever has the focus."""
    EVENTS = "Events"
    CONTAINERS = "Containers"
    TIMELINE = "Timeline"
    PLUGINS = "Plugins"
    SESSIONS = "Sessions"
    DETAIL = "Detail pane"
    COMPARE = "Comparison"
    FILTER = "Filter bar and search"


@dataclass(frozen=True, slots=True)
class Action:
    """Something that a key does: ``action_<name>`` of the app or of the widget with the focus."""

    name: str
    keys: tuple[str, ...]
    """As Textual names them (``ctrl+p``, ``space``), a character as itself."""
    help: str
    """What it does, in a few words; begins in lower case."""
    scopes: tuple[Scope, ...]
    in_palette: bool = True
    """False for what needs a key to make sense, such as moving by a line."""
    in_footer: str = ""
    """The word for it in the line of the most important keys; "" leaves it out there."""


_SHOWN = {
    "up": "↑",
    "down": "↓",
    "left": "←",
    "right": "→",
    "pageup": "PgUp",
    "pagedown": "PgDn",
    "home": "Home",
    "end": "End",
    "enter": "Enter",
    "escape": "Esc",
    "tab": "Tab",
    "space": "Space",
    "backspace": "Backspace",
    "delete": "Del",
}


def shown(key: str) -> str:
    """Return a key as people read it: ``^P`` for ``ctrl+p``, ``Space``, ``F``."""
    *modifiers, last = key.split("+") if len(key) > 1 else [key]
    name = _SHOWN.get(last, last if len(last) == 1 else last.capitalize())
    for modifier in reversed(modifiers):
        name = f"^{name.upper()}" if modifier == "ctrl" else f"{modifier.capitalize()}-{name}"
    return name


class Keymap:
    """The table of actions with the keys they have now.

    Raises UsageError where one key would call two actions in one place.
    """

    def __init__(self, actions: Iterable[Action]) -> None:
        self._actions = {action.name: action for action in actions}
        self._check()

    def __iter__(self) -> Iterator[Action]:
        return iter(self._actions.values())

    def __getitem__(self, name: str) -> Action:
        return self._actions[name]

    def of(self, *scopes: Scope) -> list[Action]:
        """Return the actions of any of ``scopes``, in the order of the table."""
        return [action for action in self if not set(scopes).isdisjoint(action.scopes)]

    def shown(self, name: str) -> str:
        """Return the keys of an action as people read them; "" where it has none."""
        return " ".join(map(shown, self._actions[name].keys))

    def first(self, name: str) -> str:
        """Return the first key of an action as people read it; "" where it has none."""
        keys = self._actions[name].keys
        return shown(keys[0]) if keys else ""

    def rebound(self, keys: Mapping[str, tuple[str, ...]]) -> Keymap:
        """With other keys for some actions; an empty tuple takes an action's keys away.

        Raises UsageError for an unknown action, and where keys clash.
        """
        for name in keys:
            if name not in self._actions:
                near = difflib.get_close_matches(name[:64], self._actions, n=1)
                raise UsageError(
                    f"there is no action {name!r}",
                    f"did you mean {near[0]}?" if near else "`nri-scope tui --keys` lists them",
                )
        return Keymap(replace(action, keys=keys.get(action.name, action.keys)) for action in self)

    def _check(self) -> None:
        taken: dict[tuple[Scope, str], str] = {}
        for action in self:
            for scope in action.scopes:
                for key in action.keys:
                    other = taken.setdefault((scope, key), action.name)
                    if other != action.name:
                        raise _clash(key, other, action.name)
        # What counts everywhere would be hidden by what has the focus. Text is typed in one place:
        # there only what the place itself takes counts.
        for (scope, key), name in taken.items():
            everywhere = taken.get((Scope.APP, key), name)
            if scope is not Scope.FILTER and everywhere != name:
                raise _clash(key, everywhere, name)


def _clash(key: str, one: str, other: str) -> UsageError:
    return UsageError(
        f"the key {shown(key)} is both {one} and {other}", "give one of them another key"
    )
