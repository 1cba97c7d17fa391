# SPDX-License-Identifier: Apache-2.0
"""What Textual does and has no public name for. All of it that we need is here.

Each of these has a test that fails with a Textual that has dropped it.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from rich.text import Text
from textual.app import App
from textual.widgets import Input


async def do_bound(app: App[Any], key: str) -> bool:
    """Do at once what a key is bound to, for the widget with the focus or what that is in; whether
    it is bound to anything.

    `App.simulate_key` sends the key and returns before anything is done. `App.active_bindings`
    looks through all bindings for each key, and knows no next one where an action is skipped.
    """
    return await app._check_bindings(key)


class ShownInput(Input):
    """An `Input` that shows something else than its value, which Textual draws as it is."""

    @abstractmethod
    def shown_value(self) -> Text:
        """What is shown: as many characters as the value has."""

    @property
    def _value(self) -> Text:
        return self.shown_value()
