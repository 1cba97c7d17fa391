# SPDX-License-Identifier: Apache-2.0
"""The keys of the current screen, in words."""

from __future__ import annotations

from nri_scope.tui.model.keys import Keymap, Scope
from nri_scope.tui.model.line import Line, Part, Style, line

_TEXTS = (
    "A * stands before a marked event. Took is the time of our own answer,",
    "Of the deadline that the runtime set.",
)


def help_lines(keymap: Keymap, scopes: tuple[Scope, ...], available: frozenset[str]) -> list[Line]:
    """All keys of ``scopes``; ``available``: the names of actions that there are."""
    width = max((len(keymap.shown(action.name)) for action in keymap), default=0)
    lines: list[Line] = []
    for scope in scopes:
        lines += [line(scope.value, Style.STRONG)]
        lines += [
            (
                Part(f"  {keymap.shown(action.name):<{width}}  ", Style.KEY),
                Part(action.help),
            )
            for action in keymap.of(scope)
            if action.keys and action.name in available
        ]
        lines.append(line())
    return [*lines, *(line(text, Style.DIM) for text in _TEXTS)]
