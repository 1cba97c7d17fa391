# SPDX-License-Identifier: Apache-2.0
"""Keys for an app under test, as fast as it takes them.

Textual's own `Pilot.press` and `Pilot.pause` wait until the process is idle: 20 ms for each key at
the least, and a second for an app that looks at its recording again and again.
"""

from __future__ import annotations

import unicodedata
from typing import Any

from textual import events
from textual.keys import KEY_NAME_REPLACEMENTS, REPLACED_KEYS
from textual.pilot import Pilot

_ROUNDS = 8
"""From the app to the widget with the focus, and with what that one tells up to the app again."""


async def press(pilot: Pilot[Any], *keys: str) -> None:
    """Press keys by their names (``down``, ``ctrl+p``) or characters, and have them taken."""
    for key in keys:
        pilot.app.post_message(_event(key))
    await taken(pilot)


async def taken(pilot: Pilot[Any]) -> None:
    """Wait until all that was sent to widgets was taken, and what they sent each other for it.

    What goes on in threads may still be going on.
    """
    for _ in range(_ROUNDS):
        await pilot.pause(0)


def _event(key: str) -> events.Key:
    if len(key) == 1:
        return events.Key(_name(key), key)
    try:
        name = REPLACED_KEYS.get(key, key).replace("_", " ").upper()
        return events.Key(key, unicodedata.lookup(name))
    except KeyError:
        return events.Key(key, None)


def _name(character: str) -> str:
    if character.isalnum():
        return character
    name = unicodedata.name(character).lower().replace("-", "_").replace(" ", "_")
    return KEY_NAME_REPLACEMENTS.get(name, name)
