# SPDX-License-Identifier: Apache-2.0
"""Copy events as YAML to the terminal's clipboard."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from nri_scope.errors import NriScopeError, UsageError
from nri_scope.recording.documents import document
from nri_scope.recording.reader import Recording
from nri_scope.text.yaml_text import shell_safe, to_yaml

from ..actions import key_of
from ..textual_workarounds import begin
from . import KeyCommands
from .mark import Chooser, Marker

CLIPBOARD_MAX = 48 << 10
"""Maximum bytes of text. Some terminals silently drop more than 74,994 bytes of base64."""


@dataclass
class Copier(KeyCommands):
    """Commands that copy to the terminal's clipboard."""

    marker: Marker
    chooser: Chooser

    async def copy(self) -> None:
        """Copy the marked events or the selected one as YAML."""
        await self.chooser.marked_or_selected(self._begin)

    def _begin(self, marked: bool) -> None:
        selected = None if marked else self.views.selected_events
        begin(self.app, partial(self._copy, selected), "copy", exclusive=True)

    async def _copy(self, selected: Sequence[int] | None) -> None:
        try:
            numbers = selected
            if numbers is None:
                marked = [event.id for event in await self.marker.marked()]
                numbers = self.views.events.view.rows_of(marked).all()
            if not numbers:
                raise UsageError("no event is selected", "move the cursor to one")
            text = await self.store.run(
                lambda recording: joined_for_clipboard(_as_yaml(recording, numbers))
            )
        except NriScopeError as error:
            self.frame.say(str(error), problem=True)
            return
        if text is None:
            key = key_of("save_recording")
            words = f"too long for the terminal's clipboard; {key} saves it as a recording"
            self.frame.say(words, problem=True)
            return
        what = f"event {numbers[0]}"
        if len(numbers) > 1:
            kind = "marked events" if selected is None else "events of an operation"
            what = f"{len(numbers):,} {kind}"
        self.app.copy_to_clipboard(text)
        self.frame.say(f"copied {what}, if your terminal allows it (OSC 52)")


def _as_yaml(recording: Recording, numbers: Sequence[int]) -> Iterator[str]:
    """Yield events in full, as `show` prints them, harmless if pasted into a shell."""
    separator = ""
    for number in numbers:
        event = recording.event(number)
        if event is not None:
            yield separator + to_yaml(shell_safe(document(recording, event)))
            separator = "---\n"


def joined_for_clipboard(texts: Iterable[str]) -> str | None:
    """Join texts; return None if they exceed `CLIPBOARD_MAX`."""
    parts: list[str] = []
    size = 0
    for text in texts:
        size += len(text.encode(errors="surrogatepass"))
        if size > CLIPBOARD_MAX:
            return None
        parts.append(text)
    return "".join(parts)
