# SPDX-License-Identifier: Apache-2.0
"""Functions that Textual has and does not make public, and workers that a key may cancel at once.

Each of these has a test that fails with a Textual that has dropped it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Coroutine
from typing import Any

from rich.text import Text
from textual.app import App
from textual.dom import DOMNode
from textual.widgets import Input
from textual.worker import Worker


async def do_bound(app: App[Any], key: str) -> bool:
    """Run at once the action that a key is bound to, for the widget with the focus or its parents;
    return whether there was one.

    `App.simulate_key` sends the key and returns before anything is done. `App.active_bindings`
    looks through all bindings for each key, and knows no next one where an action is skipped.
    """
    return await app._check_bindings(key)


class ShownInput(Input):
    """An `Input` that shows something else than its value, which Textual draws as it is."""

    @abstractmethod
    def shown_value(self) -> Text:
        """Return what is shown: as many characters as the value has."""

    @property
    def _value(self) -> Text:
        return self.shown_value()


def begin(
    node: DOMNode,
    work: Callable[[], Coroutine[Any, Any, None]],
    group: str,
    *,
    exclusive: bool = False,
    exit_on_error: bool = True,
) -> Worker[None]:
    """Start a worker that runs for as long as ``node`` is there; ``exclusive``: in place of older
    work of the group.

    It is called when its turn comes: a coroutine that was made before, and then is given up as the
    next key came at once, would complain that it was not awaited.
    """
    worker: Worker[None] = node.run_worker(
        work, group=group, exclusive=exclusive, exit_on_error=exit_on_error
    )
    return worker
