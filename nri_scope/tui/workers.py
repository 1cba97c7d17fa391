# SPDX-License-Identifier: Apache-2.0
"""Work in the background, which may be given up before it has begun."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from textual.dom import DOMNode
from textual.worker import Worker


def begin(
    node: DOMNode,
    work: Callable[[], Coroutine[Any, Any, None]],
    group: str,
    *,
    exclusive: bool = False,
    exit_on_error: bool = True,
) -> Worker[None]:
    """Have Textual do it for as long as ``node`` is there; ``exclusive``: in the place of older
    work of the group.

    It is called when its turn comes: a coroutine that was made before, and then is given up as the
    next key came at once, would complain that nobody awaited it.
    """
    worker: Worker[None] = node.run_worker(
        work, group=group, exclusive=exclusive, exit_on_error=exit_on_error
    )
    return worker
