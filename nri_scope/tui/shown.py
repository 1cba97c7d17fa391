# SPDX-License-Identifier: Apache-2.0
"""Which events are taken where several are: the marked ones, else all that are shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nri_scope.errors import UsageError

if TYPE_CHECKING:
    from nri_scope.recorder.rebuild import Selection
    from nri_scope.tui.app import ScopeApp


@dataclass(frozen=True, slots=True)
class Shown:
    """Events, and what to call them."""

    selection: Selection
    numbers: Sequence[int]
    words: str
    """``3 marked events``."""


async def shown_events(app: ScopeApp) -> Shown:
    """Those that there are now. Raises RecordingError, UsageError where there is none."""
    # Not before somebody wants some: there is much to import.
    from nri_scope.recorder.rebuild import Selection

    marked = [event.id for event in await app.marker.marked()]
    if marked:
        return Shown(Selection(numbers=marked), marked, _counted(len(marked), "marked "))
    view = app.events.view
    if not view.complete:
        raise UsageError("the filter is still at work", "wait until it is done")
    if not view.events:
        raise UsageError("no event is shown", "show some first")
    numbers = view.numbers_between(0, view.length)
    if view.is_everything:
        return Shown(Selection(), numbers, f"all {_counted(view.events)}")
    return Shown(Selection(numbers=numbers), numbers, _counted(view.events, "shown "))


def _counted(count: int, what: str = "") -> str:
    return f"{count:,} {what}event{'' if count == 1 else 's'}"
