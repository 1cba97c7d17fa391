# SPDX-License-Identifier: Apache-2.0
"""Copy events, changes or lines of a container as YAML to the terminal's clipboard."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

from nri_scope.errors import NriScopeError, UsageError
from nri_scope.nri.plain import Plain
from nri_scope.recording.documents import document
from nri_scope.recording.query.subject_queries import container_of_event
from nri_scope.recording.reading.reader import Recording
from nri_scope.recording.reading.records import to_json
from nri_scope.text.escape import safe
from nri_scope.text.quantities import many
from nri_scope.text.yaml_text import shell_safe, to_yaml

from ..actions import key_of
from ..detail.tab_lines import Tab
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
        """Copy the marked events or the selected one as YAML; in Changes and Blame, changes."""
        tab, event = self.views.detail.tab, self.views.current.selected_event_id
        if self.views.in_detail and tab in (Tab.CHANGES, Tab.BLAME) and event is not None:
            search = self.views.detail.body.highlight
            begin(self.app, partial(self._copy_lines, tab, event, search), "copy", exclusive=True)
        else:
            await self.chooser.marked_or_selected(self._begin)

    async def _copy_lines(self, tab: Tab, event: int, search: str) -> None:
        try:
            records = await self.store.run(lambda recording: _lines_of(recording, tab, event))
        except NriScopeError as error:
            self.frame.say(str(error), problem=True)
            return
        chosen = [each for each in records if search.lower() in to_json(each).lower()]
        which = f"{many(len(chosen), 'change')}{f' with {safe(search)}' if search else ''}"
        self._put(joined_for_clipboard([to_yaml(shell_safe([*chosen]))]), which)

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
        what = f"event {numbers[0]}"
        if len(numbers) > 1:
            kind = "marked events" if selected is None else "events of an operation"
            what = f"{len(numbers):,} {kind}"
        self._put(text, what)

    def _put(self, text: str | None, what: str) -> None:
        if text is None:
            words = (
                f"too long for the terminal's clipboard; {key_of('export')} exports it to a file"
            )
            self.frame.say(words, problem=True)
            return
        self.app.copy_to_clipboard(text)
        self.frame.say(f"copied {what}, if your terminal allows it (OSC 52)")


def _lines_of(recording: Recording, tab: Tab, number: int) -> list[dict[str, Plain]]:
    """Return the changes of an event, or the changed lines of its container, with their paths."""
    # Imported late, because importing the differ takes long.
    from nri_scope.differ.blame.document import document as blame_of
    from nri_scope.differ.recording_differ import excerpt_of_events, history_of
    from nri_scope.differ.render.document import step_record

    event, container = recording.event(number), container_of_event(recording, number)
    if tab is Tab.BLAME and container is not None:
        lines = blame_of(history_of(recording, container))["lines"]
        return [line for line in cast(Iterable[dict[str, Plain]], lines) if line["changed"]]
    excerpt = excerpt_of_events(recording, [event] if event is not None else [])
    diff = excerpt.round_of(number)
    return [] if diff is None else [step_record(step, excerpt.name_of) for step in diff.steps]


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
