# SPDX-License-Identifier: Apache-2.0
"""What the keys for copying and saving do: with the marked events, else with the selected one."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from nri_scope.errors import NriScopeError
from nri_scope.tui import taking
from nri_scope.tui.workers import begin

if TYPE_CHECKING:
    from nri_scope.tui.app import ScopeApp

_GROUP = "taking"


class Copier:
    """Gives to the terminal's clipboard, or to a file."""

    def __init__(self, app: ScopeApp) -> None:
        self._app = app

    def copy(self) -> None:
        """Events as YAML, to the clipboard."""
        self._start(save=False)

    def save(self) -> None:
        """The same, to a new file."""
        self._start(save=True)

    def copy_command(self) -> None:
        """The command line that shows the same."""
        if self._app.marker.only:
            self._app.say("no command line can say which events are marked", problem=True)
            return
        where = self._app.context.filter()
        self._give(taking.command_line(self._app.path, where), "the command line")

    def _start(self, *, save: bool) -> None:
        selected = self._app.current.selected_event_id
        work = partial(self._take, selected, save=save)
        begin(self._app, work, _GROUP, exclusive=True)

    async def _take(self, selected: int | None, *, save: bool) -> None:
        app = self._app
        try:
            numbers = [event.id for event in await app.marker.marked()]
            if not numbers and selected is not None:
                numbers = [selected]
            if not numbers:
                app.say("no event is selected", problem=True)
                return
            text = await app.store.run(lambda recording: taking.as_yaml(recording, numbers))
            if save:
                path = await asyncio.to_thread(taking.save, text, numbers)
                app.made.append(path)
                app.say(f"saved to {path} (only you can read it)")
                return
        except NriScopeError as error:
            app.say(str(error), problem=True)
            return
        one = len(numbers) == 1
        self._give(text, f"event {numbers[0]}" if one else f"{len(numbers):,} marked events")

    def _give(self, text: str, what: str) -> None:
        try:
            size = len(text.encode())
        except UnicodeEncodeError:
            # The name of a file may be any bytes, and a clipboard has text.
            self._app.say(f"{what} is no text in UTF-8 and cannot be copied", problem=True)
            return
        if size > taking.CLIPBOARD_MAX:
            key = self._app.keymap.first("save_text")
            words = f"too long for the terminal's clipboard; {key} saves it to a file"
            self._app.say(words, problem=True)
            return
        self._app.copy_to_clipboard(text)
        self._app.say(f"copied {what}, if your terminal allows it (OSC 52)")
