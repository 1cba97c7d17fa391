# SPDX-License-Identifier: Apache-2.0
"""Run ``export`` once its options are parsed."""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import nri_scope
from nri_scope.errors import UsageError
from nri_scope.process.signals import interrupted_by_signals
from nri_scope.recording.file.temporary_files import standing_for, temporary_folder, writing_to
from nri_scope.recording.marks import sidecar
from nri_scope.recording.reading.reader import Recording
from nri_scope.share.bundle import redactor_for
from nri_scope.share.extract import Selection
from nri_scope.share.formats import FORMATS
from nri_scope.share.formats.jsonl import is_json_lines, read_back
from nri_scope.share.output_files import Outputs
from nri_scope.share.redacted_copy import convert, preview, selected_numbers
from nri_scope.share.redaction import ELSEWHERE, REPEATED, Rules
from nri_scope.survey.foreground import analysed
from nri_scope.text.quantities import many, size

from .output import Output, table
from .params import say
from .recording_views import progress, replacement_counts, values_remark

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from nri_scope.api import Exported, OpenRecording
    from nri_scope.filter import Filter
    from nri_scope.share.redaction import Redactor, ReplacementCounts


class ExportOptions(TypedDict):
    """The options of ``export`` as click passes them."""

    file: Path
    output: Path | None
    where: Filter | None
    since: str | None
    until: str | None
    pod: str | None
    redact: Rules | None
    preview: bool
    stable_tokens: bool
    replace_everywhere: bool
    note: str
    max_size: int | None
    force: bool
    output_format: str | None


@contextmanager
def _opened(options: ExportOptions) -> Iterator[OpenRecording]:
    """Open the file during a block; JSON lines as a temporary recording, which errors do not name.

    Signals interrupt the block.
    """
    file, output = options["file"], options["output"]
    with interrupted_by_signals():
        if not is_json_lines(file):
            with nri_scope.open(file) as recording:
                yield recording
            return
        if output is not None:
            Outputs(output, file, force=options["force"]).check(output)
        with temporary_folder() as folder:
            draft = folder / f"{file.name}.db"
            with writing_to(folder):
                read_back(file, draft)
            with standing_for(draft, str(file)), nri_scope.open(draft) as recording:
                yield recording


def write_file(options: ExportOptions, output: Path) -> None:
    """Write a bundle, a recording or another format, and report it."""
    with _opened(options) as recording:
        selection = _selection(recording, options)
        redactor = _redactor(recording, options, selection)
        with progress(recording.reader, "writing") as on_progress:
            written = recording.export(
                output,
                selection,
                redactor=redactor,
                form=options["output_format"] or "",
                note=options["note"],
                max_bytes=options["max_size"],
                force=options["force"],
                on_progress=on_progress,
            )
        say(f"{written.path}: {_described(written)}; {values_remark(recording, redactor)}")
        _note_unreplaced(recording.reader, redactor, selection)
    if written.damage:
        say(f"{written.path}: data after the original's damage is missing: {written.damage}")
    if options["output_format"] is None:
        _warn_unreadable_marks(options["file"])


def show_preview(options: ExportOptions) -> None:
    """Print how many values a redaction replaces, and where."""
    options["redact"] = options["redact"] or Rules.DEFAULT
    with Output() as output, _opened(options) as recording:
        selection = _selection(recording, options)
        redactor = _redactor(recording, options, selection)
        assert redactor is not None
        redactor.tally.has_tokens = options["stable_tokens"]
        tally = _preview(recording.reader, redactor, selection)
        _print_tally(output, tally, before=recording.is_redacted)
        _note_unreplaced(recording.reader, redactor, selection)


def _print_tally(output: Output, tally: ReplacementCounts, *, before: bool) -> None:
    if tally.total:
        names = ("token", "rule", "values", "place", "of")
        rows = [(one.token, one.rule, f"{one.values:,}", one.place, one.subject) for one in tally]
        first = int(not tally.has_tokens)
        shown = (row[first:] for row in rows)
        for line in table(names[first:], shown, output.width, right=(2 - first,)):
            output.line(line)
        if any(count.place == ELSEWHERE for count in tally):
            output.line("the rest is not listed: select fewer events with --pod or --where")
        output.line("")
    counts = replacement_counts(tally.by_rule(), before=before)
    output.line(f"{counts}; nothing was written")


def _preview(recording: Recording, redactor: Redactor, selection: Selection) -> ReplacementCounts:
    redactor.tally.has_subjects = True
    with progress(recording, "reading") as on_progress:
        return preview(recording, redactor, selection, on_progress)


_MAX_LISTED = 3
"""Maximum number of places in a remark."""


def _note_unreplaced(recording: Recording, redactor: Redactor | None, selection: Selection) -> None:
    """Print where values stay that were replaced after a key, and consist of known words."""
    if redactor is None or not redactor.known_values or redactor.rules.repeated_values:
        return
    again = _repeating(recording, redactor)
    found = [count for count in _preview(recording, again, selection) if count.rule == REPEATED]
    if found:
        listed = [f"{count.place} of {count.subject}".removesuffix(" of ") for count in found]
        more = ", …" if len(found) > _MAX_LISTED else ""
        say(
            f"note: kept in {many(len(found), 'other place')}, as made of known words: "
            f"{many(len(again.repeated_values), 'value')} replaced after a key "
            f"({', '.join(listed[:_MAX_LISTED])}{more}); --replace-everywhere replaces them there, "
            "too, and `--preview --replace-everywhere` lists these places"
        )


def _repeating(recording: Recording, redactor: Redactor, *, stable: bool = False) -> Redactor:
    """Return a redactor that replaces the known values of another wherever they stand."""
    values = tuple(sorted(redactor.known_values))
    return redactor_for(recording, replace(redactor.rules, repeated_values=values), stable=stable)


def print_format(name: str, options: ExportOptions) -> None:
    """Print the recording in a format for other programs."""
    form = FORMATS[name]
    with _opened(options) as opened:
        recording, selection = opened.reader, _selection(opened, options)
        redactor = _redactor(opened, options, selection)
        with Output() as output, io.BufferedWriter(_Raw(output)) as stdout:
            if output.is_terminal and not form.is_text:
                raise UsageError(
                    f"--format {form.name} is binary, and the output is a terminal",
                    f"add -o FILE{form.suffix}",
                )
            if redactor is None:
                form.write(recording, selected_numbers(recording, selection), stdout, analysed)
                return
            # Nothing is printed until the whole output has been searched for replaced values.
            with temporary_folder() as folder:
                draft, to = folder / "draft", Path("standard output")
                with writing_to(folder), progress(recording, "redacting") as on_progress:
                    convert(recording, form, draft, to, selection, redactor, analysed, on_progress)
                with draft.open("rb") as source:
                    shutil.copyfileobj(source, stdout)
        _note_unreplaced(recording, redactor, selection)


def _warn_unreadable_marks(file: Path) -> None:
    """Warn if the marks beside a recording cannot be read and were not copied."""
    try:
        sidecar.read(sidecar.path_of(file))
    except sidecar.Unusable as error:
        say(f"{error}; its marks were not copied")


class _Raw(io.RawIOBase):
    """Standard output as a raw stream for writers of formats."""

    def __init__(self, output: Output) -> None:
        self._output = output

    def writable(self) -> bool:
        return True

    def write(self, data: Buffer, /) -> int:
        content = bytes(data)
        self._output.bytes(content)
        return len(content)


def _redactor(
    recording: OpenRecording, options: ExportOptions, selection: Selection
) -> Redactor | None:
    rules, reader, stable = options["redact"], recording.reader, options["stable_tokens"]
    redactor = None if rules is None else redactor_for(reader, rules, stable=stable)
    if redactor is not None and options["replace_everywhere"]:
        _preview(reader, redactor, selection)
        return _repeating(reader, redactor, stable=stable)
    return redactor


def _selection(recording: OpenRecording, options: ExportOptions) -> Selection:
    with progress(recording.reader, "analysing") as on_share:
        return recording.selection(
            options["where"], options["since"], options["until"], options["pod"], on_share
        )


def _described(written: Exported) -> str:
    """Return the size of a file and what is in it."""
    text = f"{size(written.size)}, {many(written.events, 'event')}"
    if written.bundle is None:
        return text
    manifest = written.bundle.manifest
    counts = manifest.counts
    context = f" and {counts.context:,} that they need" if counts.context else ""
    context += written.bundle.other_pods_words
    left_out = f", {counts.left_out:,} left out" if counts.left_out else ""
    of = f" of {manifest.subject}" if manifest.subject else ""
    return f"{text}{of}{context}{left_out}"
