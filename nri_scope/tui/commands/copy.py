# SPDX-License-Identifier: Apache-2.0
"""What the keys for copying and saving do: with the marked events, else with the selected one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from textual.app import App

from nri_scope.errors import NriScopeError, UsageError
from nri_scope.recorder.reader import Recording
from nri_scope.tui.actions import Keymap
from nri_scope.tui.commands import output_files as taking
from nri_scope.tui.commands.job import Jobs, Progress
from nri_scope.tui.commands.mark import Marker
from nri_scope.tui.frame import Frame
from nri_scope.tui.store.context import Context
from nri_scope.tui.store.store import Store
from nri_scope.tui.textual_gaps import begin
from nri_scope.tui.views import Views

_GROUP = "taking"


@dataclass
class Copier:
    """Gives to the terminal's clipboard, or to a file."""

    app: App[Any]
    frame: Frame
    views: Views
    store: Store
    keymap: Keymap
    context: Context
    marker: Marker
    jobs: Jobs

    def copy(self) -> None:
        """Events as YAML, to the clipboard."""
        selected = self.views.current.selected_event_id
        begin(self.app, partial(self._copy, selected), _GROUP, exclusive=True)

    def save(self) -> None:
        """Save events as YAML to a new file."""
        selected = self.views.current.selected_event_id
        self.jobs.begin(partial(self._save, selected))

    def copy_command(self) -> None:
        """Copy the command line that shows the same."""
        if self.context.only_marked:
            self.frame.say("no command line can say which events are marked", problem=True)
            return
        where = self.context.filter()
        try:
            line = taking.command_line(self.jobs.path, where)
        except UsageError as error:
            self.frame.say(str(error), problem=True)
            return
        self._give(line, "the command line")

    async def _numbers(self, selected: int | None) -> list[int]:
        numbers = [event.id for event in await self.marker.marked()]
        if not numbers and selected is not None:
            numbers = [selected]
        if not numbers:
            raise UsageError("no event is selected", "move the cursor to one")
        return numbers

    async def _copy(self, selected: int | None) -> None:
        try:
            numbers = await self._numbers(selected)
            text = await self.store.run(
                lambda recording: taking.fitting(taking.as_yaml(recording, numbers))
            )
        except NriScopeError as error:
            self.frame.say(str(error), problem=True)
            return
        self._give(text, _words(numbers))

    async def _save(self, selected: int | None) -> None:
        numbers = await self._numbers(selected)

        def work(recording: Recording, progress: Progress) -> Path:
            def told() -> Iterator[str]:
                for count, text in enumerate(taking.as_yaml(recording, numbers)):
                    progress(count / len(numbers))
                    yield text

            path = taking.save(told(), numbers)
            self.jobs.made.append(path)
            return path

        path = await self.jobs.run(f"saving {_words(numbers)}", work)
        self.frame.say(f"saved to {path} (only you can read it)")

    def _give(self, text: str | None, what: str) -> None:
        if text is None or len(text.encode()) > taking.CLIPBOARD_MAX:
            key = self.keymap.first("save_text")
            words = f"too long for the terminal's clipboard; {key} saves it to a file"
            self.frame.say(words, problem=True)
            return
        self.app.copy_to_clipboard(text)
        self.frame.say(f"copied {what}, if your terminal allows it (OSC 52)")


def _words(numbers: Sequence[int]) -> str:
    one = len(numbers) == 1
    return f"event {numbers[0]}" if one else f"{len(numbers):,} marked events"
