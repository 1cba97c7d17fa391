# SPDX-License-Identifier: Apache-2.0
"""Export events to new files: as a bundle, or as a recording."""

from __future__ import annotations

import asyncio
import os
import shlex
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from nri_scope.errors import UsageError
from nri_scope.events import Pod
from nri_scope.recording.query.lookup import subject_name
from nri_scope.recording.reading.reader import Recording
from nri_scope.recording.reading.work_budget import OnShare
from nri_scope.text.escape import safe
from nri_scope.text.quantities import many, size

from ..store.context import Context
from ..store.event_numbers import RowEvents
from ..store.view import View
from ..text.styled_line import Span, Style, StyledLine, line
from ..widgets.filter_bar import FormField
from ..widgets.screens import ReadingScreen
from . import KeyCommands
from .job import Jobs
from .mark import Chooser, Marker

if TYPE_CHECKING:
    from nri_scope.share.bundle import Bundle
    from nri_scope.share.extract import Extracted, Selection

_PLACE_COLUMNS = 60
"""Maximum columns of the place of a replaced value, which contains keys of containers."""
_DEFAULT_RULES, _NO_RULES = _REDACTIONS = "default rules", "none"
"""Valid texts of the form's field for the redaction."""
_RECORDING, _BUNDLE = ".db", ".zip"


@dataclass(frozen=True, slots=True)
class ShownEvents:
    """Selected events, with their description."""

    rows: RowEvents | None
    """None for all events."""
    words: str
    """For example ``3 marked events``."""
    criteria: Mapping[str, str] = field(default_factory=dict[str, str])
    """How they were chosen, as `Selection.numbers_from`."""

    def selection(self) -> Selection:
        """Return the selection; in a thread, as this takes a second for a million events."""
        # Imported late, because importing it takes long.
        from nri_scope.share.extract import Selection

        if self.rows is None:
            return Selection()
        return Selection(numbers=self.rows.all(), numbers_from=self.criteria)


async def shown_events(
    marker: Marker, view: View, context: Context, *, marked: bool
) -> ShownEvents:
    """Return all marked events, or all of a view, whose restriction is ``context``.

    Raises RecordingError, and UsageError if there is none.
    """
    if marked:
        marked_numbers = [event.id for event in await marker.marked()]
        if not marked_numbers:
            raise UsageError("the marked events have been removed from the recording")
        rows = view.rows_of(marked_numbers)
        return ShownEvents(rows, many(len(rows.rows), f"marked {view.noun}"))
    if not view.complete:
        raise UsageError("the filter is still running", "wait until it has finished")
    if not view.events:
        raise UsageError("no event is shown", "change the filter")
    if view.is_everything:
        return ShownEvents(None, f"all {many(view.events, view.noun)}")
    words = many(view.events, f"shown {view.noun}")
    return ShownEvents(view.row_events(), words, _criteria(view, context))


def _criteria(view: View, context: Context) -> dict[str, str]:
    """Return the criteria of a view's events, as those of `Selection`."""
    criteria: dict[str, str] = {}
    if context.about is not None:
        name = "pod" if isinstance(context.about, Pod) else "container"
        criteria[name] = subject_name(context.about) or context.about.id
    if (where := context.where()) is not None:
        criteria["--where"] = str(where)
    if context.only_marked:
        criteria["marks"] = "marked"
    if context.shown() is not None and view.noun == "operation":
        criteria["events"] = "all of each operation that matches"
    return criteria


async def _count(view: View) -> int:
    """Return the number of all events in the rows of a view."""
    if view.groups is None:
        return view.events
    if view.is_everything:
        return view.groups.event_count
    return await asyncio.to_thread(view.row_events().count)


@dataclass
class Saver(KeyCommands):
    """Commands that create new files."""

    marker: Marker
    jobs: Jobs
    chooser: Chooser
    fill: Callable[[str, Sequence[FormField], Callable[[Sequence[str]], object]], None]
    """`FilterBar.fill`."""

    async def export(self) -> None:
        """Export the marked events or the shown ones to a new file, after a form."""
        if self.jobs.is_free():
            shown = await _count(self.views.events.view)
            await self.chooser.marked_or_shown(partial(self._show_form, shown))

    def _show_form(self, shown: int, marked: bool) -> None:
        view, numbers = self.views.events.view, self.marker.numbers()
        count = len(numbers) if marked else view.events
        events = count if marked else shown
        try:
            if not count:
                raise UsageError("no event is shown", "change the filter")
            if not marked:
                numbers = list(view.numbers_between(0, view.length if count == 1 else 0))
            # The name contains the number of a single event, else the count.
            path = new_path(numbers if events == 1 else range(events), f".nriscope{_BUNDLE}")
        except UsageError as error:
            self.frame.say(str(error), problem=True)
            return
        words = f"exports {many(count, 'marked event' if marked else f'shown {view.noun}')}"
        fields = [
            FormField("name, .zip or .db", shown_path(path)),
            FormField("redaction", _DEFAULT_RULES, _REDACTIONS),
            FormField("note", ""),
        ]
        self.fill(
            words, fields, lambda texts: self.jobs.begin(partial(self._export, marked, *texts))
        )

    async def _export(self, marked: bool, name: str, redaction: str, note: str) -> None:
        shown = await shown_events(self.marker, self.views.events.view, self.context, marked=marked)
        path, is_redacted = _named(name), redaction != _NO_RULES
        marks = await self.marker.all()

        def work(recording: Recording, progress: OnShare) -> Bundle | Extracted:
            from nri_scope.share import bundle
            from nri_scope.share.redacted_copy import copy_recording
            from nri_scope.share.redaction import Rules

            redactor = bundle.redactor_for(recording, Rules.DEFAULT) if is_redacted else None
            selection = shown.selection()
            made: Bundle | Extracted
            if path.suffix.lower() == _BUNDLE:
                content = bundle.BundleContent(selection, redactor, note, marks)
                made = bundle.export(recording, path, content, on_progress=progress)
            else:
                made = copy_recording(
                    recording,
                    path,
                    redactor,
                    selection,
                    marks=marks,
                    note=note,
                    on_progress=progress,
                )
            self.jobs.made.append(path)
            return made

        made = await self.jobs.run(f"exporting {shown.words}", work)
        words = f"exported {shown_path(path)}"
        # Imported late, as above.
        from nri_scope.share import bundle

        if not isinstance(made, bundle.Bundle):
            content = f"{'redacted' if is_redacted else 'not redacted'}, {shown.words}"
            words = exported_words(words, content, made)
            self.frame.say(words, problem=bool(made.damage))
            return
        lines = exported_lines(made, was_redacted=self.marker.store.facts.redacted)
        damaged = bool(made.manifest.damage)
        await self.app.push_screen(
            ReadingScreen("bundle", lines, wrap=True),
            lambda _: self.frame.say(words, problem=damaged),
        )


def _named(name: str) -> Path:
    """Return the path of the new file: a recording if its name ends in .db, else a bundle.

    Raises UsageError.
    """
    name = name.strip()
    if not name or name.endswith("/"):
        raise UsageError("the file needs a name")
    if not name.lower().endswith((_RECORDING, _BUNDLE)):
        name += f".nriscope{_BUNDLE}"
    try:
        path = Path(name).expanduser()
    except RuntimeError as error:
        raise UsageError(f"{name}: there is no such home folder") from error
    return _default_folder() / path if path.parent == Path() else path


def exported_words(words: str, content: str, made: Extracted) -> str:
    """Return ``exported ./nri-3-events.nriscope.db: redacted, 3 marked events, plus 5 for
    context``.
    """
    context = f", plus {made.counts.context:,} for context" if made.counts.context else ""
    damage = "; it ends where the original is damaged" if made.damage else ""
    return f"{words}: {content}{context}{damage}"


def exported_lines(made: Bundle, *, was_redacted: bool) -> list[StyledLine]:
    """Describe a bundle: path, content, and the places, but not the values, of replaced values.

    ``was_redacted``: the original had been redacted before.
    """
    manifest = made.manifest
    counts, redaction = manifest.counts, manifest.redaction
    context = f", plus {counts.context:,} for context" if counts.context else ""
    context += made.other_pods_words
    of = f" of {manifest.subject}" if manifest.subject else ""
    lines = [
        line(safe(str(made.path)), Style.STRONG),
        line(safe(f"{size(made.size)}, {many(counts.events, 'event')}{of}{context}")),
        line(),
    ]
    if manifest.damage:
        lines += [
            line(f"incomplete, the original is damaged: {safe(manifest.damage)}", Style.BAD),
            line(),
        ]
    if was_redacted and not (redaction and redaction.replaced):
        lines.append(line("The recording was already redacted; nothing else was replaced."))
    elif redaction is None:
        lines.append(line("Nothing was redacted: secrets are included.", Style.WARN))
    elif not redaction.replaced:
        lines.append(line("The default rules matched no value; nothing was replaced.", Style.WARN))
    else:
        lines.append(line(f"{many(redaction.total, 'value')} replaced by the default rules:"))
        for rule, total in redaction.by_rule().items():
            lines.append((Span(f"  {total:>7,}  ", Style.KEY), Span(safe(rule), Style.STRONG)))
            lines += [
                line(f"  {each.values:>7,}    {safe(each.place, _PLACE_COLUMNS)}", Style.DIM)
                for each in redaction.replaced
                if each.rule == rule
            ]
    searched = "The bundle was searched for the replaced words, and contains none of them. "
    note = "Names of pods, containers and namespaces are kept. Review the bundle before sharing it:"
    if redaction is not None and redaction.replaced:
        note = searched + note
    return [
        *lines,
        line(),
        line(note),
        line(f"nri-scope tui {safe(shlex.quote(str(made.path)))}", Style.KEY),
    ]


# -- new files ----------------------------------------------------------------------------------


def new_path(numbers: Sequence[int], suffix: str) -> Path:
    """Return the path of a new file for these events, in a writable folder.

    Raises UsageError.
    """
    name = f"nri-event-{numbers[0]}" if len(numbers) == 1 else f"nri-{len(numbers)}-events"
    stem = f"{name}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    for attempt in range(1, 100):
        more = f"-{attempt}" if attempt > 1 else ""
        path = _default_folder() / f"{stem}{more}{suffix}"
        if not os.path.lexists(path):
            return path
    raise UsageError(f"{stem}{suffix}: too many files with this name", "remove some")


def shown_path(path: Path) -> str:
    """Return a path for display: ``./a.db`` in the current folder, else in full."""
    with suppress(OSError):
        if path.parent == Path.cwd():
            return f"./{path.name}"
    return str(path)


def _default_folder() -> Path:
    try:
        current = Path.cwd()
    except OSError as error:
        raise UsageError(
            "the current folder no longer exists", "start in another folder"
        ) from error
    if _is_writable(current):
        return current
    # The current folder is not writable, for example in a container with a read-only root.
    with suppress(OSError, RuntimeError):
        if _is_writable(home := Path.home()):
            return home
    with suppress(OSError):
        # Not the temporary folder itself, where other users could plant a link to another file.
        return Path(tempfile.mkdtemp(prefix="nri-scope-"))
    return current


def _is_writable(folder: Path) -> bool:
    return os.access(folder, os.W_OK | os.X_OK)
