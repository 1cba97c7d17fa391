# SPDX-License-Identifier: Apache-2.0
"""What the key for saving a recording does: the shown events, as a recording of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nri_scope.recorder.rebuild import Rebuilt, rebuild
from nri_scope.tui import taking
from nri_scope.tui.shown import shown_events

if TYPE_CHECKING:
    from nri_scope.tui.app import ScopeApp


class Saver:
    """Makes new files in the current folder."""

    def __init__(self, app: ScopeApp) -> None:
        self._app = app

    def save_recording(self) -> None:
        """Save the shown events as a recording."""
        self._app.jobs.begin(self._save)

    async def _save(self) -> None:
        app = self._app
        shown = await shown_events(app)
        path = taking.new_path(shown.numbers, ".nriscope.db")
        made = await app.jobs.run(
            f"saving {shown.words}",
            lambda recording, progress: rebuild(
                recording, path, shown.selection, on_progress=progress
            ),
        )
        app.made.append(made.path)
        app.say(saved_words(shown.words, made), problem=bool(made.damage))


def saved_words(words: str, made: Rebuilt) -> str:
    """``saved ./nri-3-events.nriscope.db: 3 marked events, +5 needed``."""
    more = f", +{made.context:,} needed" if made.context else ""
    damage = "; the original is damaged, this is what came before" if made.damage else ""
    return f"saved ./{made.path.name}: {words}{more}{damage}"
