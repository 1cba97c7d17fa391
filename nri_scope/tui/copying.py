# SPDX-License-Identifier: Apache-2.0
"""What the keys for copying and saving do: with the marked events, else with the selected one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from nri_scope.errors import NriScopeError, UsageError
from nri_scope.recorder.reader import Recording
from nri_scope.tui import taking
from nri_scope.tui.jobs import Progress
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
        selected = self._app.current.selected_event_id
        begin(self._app, partial(self._copy, selected), _GROUP, exclusive=True)

    def save(self) -> None:
        """The same, to a new file."""
        selected = self._app.current.selected_event_id
        self._app.jobs.begin(partial(self._save, selected))

    def copy_command(self) -> None:
        """The command line that shows the same."""
        if self._app.marker.only:
            self._app.say("no command line can say which events are marked", problem=True)
            return
        where = self._app.context.filter()
        try:
            line = taking.command_line(self._app.path, where)
        except UsageError as error:
            self._app.say(str(error), problem=True)
            return
        self._give(line, "the command line")

    async def _numbers(self, selected: int | None) -> list[int]:
        numbers = [event.id for event in await self._app.marker.marked()]
        if not numbers and selected is not None:
            numbers = [selected]
        if not numbers:
            raise UsageError("no event is selected", "move the cursor to one")
        return numbers

    async def _copy(self, selected: int | None) -> None:
        app = self._app
        try:
            numbers = await self._numbers(selected)
            text = await app.store.run(
                lambda recording: taking.fitting(taking.as_yaml(recording, numbers))
            )
        except NriScopeError as error:
            app.say(str(error), problem=True)
            return
        self._give(text, _words(numbers))

    async def _save(self, selected: int | None) -> None:
        app = self._app
        numbers = await self._numbers(selected)

        def work(recording: Recording, progress: Progress) -> Path:
            def told() -> Iterator[str]:
                for count, text in enumerate(taking.as_yaml(recording, numbers)):
                    progress(count / len(numbers))
                    yield text

            path = taking.save(told(), numbers)
            app.made.append(path)
            return path

        path = await app.jobs.run(f"saving {_words(numbers)}", work)
        app.say(f"saved to {path} (only you can read it)")

    def _give(self, text: str | None, what: str) -> None:
        if text is None or len(text.encode()) > taking.CLIPBOARD_MAX:
            key = self._app.keymap.first("save_text")
            words = f"too long for the terminal's clipboard; {key} saves it to a file"
            self._app.say(words, problem=True)
            return
        self._app.copy_to_clipboard(text)
        self._app.say(f"copied {what}, if your terminal allows it (OSC 52)")


def _words(numbers: Sequence[int]) -> str:
    one = len(numbers) == 1
    return f"event {numbers[0]}" if one else f"{len(numbers):,} marked events"
