# SPDX-License-Identifier: Apache-2.0
"""Run ``export`` once its options are parsed."""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import nri_scope
from nri_scope.errors import UsageError
from nri_scope.process.signals import interrupted_by_signals
from nri_scope.recording.display import many, size
from nri_scope.recording.marks import sidecar
from nri_scope.recording.reader import Recording as Reader
from nri_scope.recording.temporary_files import standing_for, temporary_folder, writing_to
from nri_scope.share.bundle import redactor_for
from nri_scope.share.extract import Selection
from nri_scope.share.formats import FORMATS, Format
from nri_scope.share.formats.jsonl import is_json_lines, read_back
from nri_scope.share.output_files import Outputs
from nri_scope.share.redacted_copy import convert, preview, selected_numbers
from nri_scope.share.redaction import Rules
from nri_scope.survey.foreground import analysed

from .output import Output, table
from .params import say
from .recording_views import progress, replacement_counts, values_remark

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from nri_scope.api import Exported, Recording
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
    note: str
    max_size: int | None
    force: bool
    output_format: str | None


@contextmanager
def _opened(options: ExportOptions) -> Iterator[Recording]:
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
        redactor = _redactor(recording, options)
        with progress(recording.reader, "writing") as on_progress:
            written = recording.export(
                output,
                _selection(recording, options),
                redactor=redactor,
                form=options["output_format"] or "",
                note=options["note"],
                max_bytes=options["max_size"],
                force=options["force"],
                on_progress=on_progress,
            )
        values = values_remark(recording, redactor)
    say(f"{written.path}: {_described(written)}; {values}")
    if written.damage:
        say(f"{written.path}: data after the original's damage is missing: {written.damage}")
    if options["output_format"] is None:
        _warn_unreadable_marks(options["file"])


def show_preview(options: ExportOptions) -> None:
    """Print how many values a redaction replaces, and where."""
    with Output() as output:
        with _opened(options) as recording:
            redactor = redactor_for(recording.reader, options["redact"] or Rules.DEFAULT)
            selection = _selection(recording, options)
            with progress(recording.reader, "reading") as on_progress:
                tally = preview(recording.reader, redactor, selection, on_progress)
            before = recording.is_redacted
        _print_tally(output, tally, before=before)


def _print_tally(output: Output, tally: ReplacementCounts, *, before: bool) -> None:
    if tally.total:
        rows = [(replaced.rule, f"{replaced.values:,}", replaced.place) for replaced in tally]
        for line in table(("rule", "values", "place"), rows, output.width, right=(1,)):
            output.line(line)
        output.line("")
    counts = replacement_counts(tally.by_rule(), before=before)
    output.line(f"{counts}; nothing was written")


def print_format(name: str, options: ExportOptions) -> None:
    """Print the recording in a format for other programs."""
    with _opened(options) as recording:
        redactor = _redactor(recording, options)
        selection = _selection(recording, options)
        _print_format(recording.reader, FORMATS[name], selection, redactor)


def _print_format(
    recording: Reader, form: Format, selection: Selection, redactor: Redactor | None
) -> None:
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
            draft = folder / "draft"
            target = Path("standard output")
            with writing_to(folder), progress(recording, "redacting") as on_progress:
                convert(recording, form, draft, target, selection, redactor, analysed, on_progress)
            with draft.open("rb") as source:
                shutil.copyfileobj(source, stdout)


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


def _redactor(recording: Recording, options: ExportOptions) -> Redactor | None:
    rules = options["redact"]
    if rules is None:
        return None
    return redactor_for(recording.reader, rules, stable=options["stable_tokens"])


def _selection(recording: Recording, options: ExportOptions) -> Selection:
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
