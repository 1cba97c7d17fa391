# SPDX-License-Identifier: Apache-2.0
"""Fast key presses for an app under test.

Textual's `Pilot.press` and `Pilot.pause` wait until the process is idle: at least 20 ms per key,
and a second for an app that polls its recording.
"""

from __future__ import annotations

import unicodedata
from typing import Any

from textual import events
from textual.keys import KEY_NAME_REPLACEMENTS, REPLACED_KEYS
from textual.pilot import Pilot

_ROUNDS = 8
"""Rounds of message handling: from the app to the focused widget, and back with its messages."""


async def press(pilot: Pilot[Any], *keys: str) -> None:
    """Press keys by name (``down``, ``ctrl+p``) or character, and wait until they are handled."""
    for key in keys:
        pilot.app.post_message(_event(key))
    await wait_until_handled(pilot)


async def wait_until_handled(pilot: Pilot[Any]) -> None:
    """Wait until all messages to widgets, and those sent in handling them, have been handled.

    Work in threads may not have ended.
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
