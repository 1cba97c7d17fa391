# SPDX-License-Identifier: Apache-2.0
"""Run ``export`` once its options are parsed."""

from __future__ import annotations

import io
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from nri_scope.errors import UsageError
from nri_scope.process.signals import interrupted_by_signals
from nri_scope.recording.display import many, size
from nri_scope.recording.event_times import is_redacted
from nri_scope.recording.marks import sidecar
from nri_scope.recording.reader import Recording
from nri_scope.recording.records import SCHEMA_VERSION, to_json
from nri_scope.recording.temporary_files import temporary_folder, writing_to
from nri_scope.share.bundle import MAX_BYTES, export, redactor_for
from nri_scope.share.extract import Selection
from nri_scope.share.formats import FORMATS, Format
from nri_scope.share.output_files import Outputs
from nri_scope.share.redacted_copy import convert, copy_recording, preview, selected_numbers
from nri_scope.share.redaction import Rules
from nri_scope.survey.foreground import analysed

from .output import Output, table
from .params import say
from .recording_views import (
    as_recorded,
    progress,
    replacement_counts,
    resolved_where,
)
from .time_arguments import times_of

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from nri_scope.filter import Filter
    from nri_scope.share.bundle import Bundle
    from nri_scope.share.redaction import Redactor, Tally

_SECRETS = "nothing was replaced: secrets in the recording are in the bundle; --redact removes them"
_REDACTED_BEFORE = "the recording was already redacted, and nothing else was replaced"


class Options(TypedDict):
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


def write_bundle(options: Options, output: Path) -> None:
    """Write the bundle and report it."""
    with interrupted_by_signals(), Recording.open(options["file"]) as recording:
        redactor = _redactor(recording, options)
        with progress(recording, "packing") as on_progress:
            bundle = export(
                recording,
                output,
                _selection(recording, options),
                redactor=redactor,
                note=options["note"],
                max_bytes=options["max_size"] or MAX_BYTES,
                force=options["force"],
                on_progress=on_progress,
            )
        redacted = is_redacted(recording)
    say(f"{bundle.path}: {_described(bundle)}")
    if damage := bundle.manifest.damage:
        say(f"the original is damaged, and only the data before the damage was packed: {damage}")
    _warn_unreadable_marks(recording)
    if redactor is None:
        say(_REDACTED_BEFORE if redacted else _SECRETS)


def write_recording(options: Options, output: Path) -> None:
    """Write a recording and report it."""
    with interrupted_by_signals(), Recording.open(options["file"]) as recording:
        redactor = _redactor(recording, options)
        with progress(recording, "writing") as on_progress:
            rebuilt = copy_recording(
                recording,
                output,
                redactor,
                _selection(recording, options),
                force=options["force"],
                on_progress=on_progress,
            )
        values = _values(recording, redactor)
    say(f"{output}: {many(rebuilt.counts.events, 'event')}; {values}")
    _warn_unreadable_marks(recording)
    if rebuilt.damage:
        say(f"data after the damage is missing: {rebuilt.damage}")


def show_preview(options: Options) -> None:
    """Print how many values a redaction replaces, and where."""
    with Output() as output:
        with interrupted_by_signals(), Recording.open(options["file"]) as recording:
            redactor = redactor_for(recording, options["redact"] or Rules.DEFAULT)
            selection = _selection(recording, options)
            with progress(recording, "reading") as on_progress:
                tally = preview(recording, redactor, selection, on_progress)
            before = is_redacted(recording)
        if options["output_format"] is None:
            _print_tally(output, tally, before=before)
            return
        output.line(
            to_json(
                {
                    "schema_version": SCHEMA_VERSION,
                    "total": tally.total,
                    "by_rule": dict(tally.by_rule()),
                    "replaced": [
                        {"rule": one.rule, "place": one.place, "values": one.values}
                        for one in tally
                    ],
                }
            )
        )


def _print_tally(output: Output, tally: Tally, *, before: bool) -> None:
    if tally.total:
        rows = [(one.rule, f"{one.values:,}", one.place) for one in tally]
        for line in table(("rule", "values", "place"), rows, output.width, right=(1,)):
            output.line(line)
        output.line("")
    counts = replacement_counts(tally.by_rule(), before=before)
    output.line(f"{counts}; nothing was written")


def write_format(name: str, options: Options) -> None:
    """Write the recording in a format for other programs."""
    form = FORMATS[name]
    with interrupted_by_signals(), Recording.open(options["file"]) as recording:
        redactor = _redactor(recording, options)
        if options["output"] is None:
            _print_format(recording, form, _selection(recording, options), redactor)
        else:
            _write_format(recording, form, options["output"], options, redactor)


def _print_format(
    recording: Recording, form: Format, selection: Selection, redactor: Redactor | None
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
                convert(
                    *(recording, form, draft, selection, redactor, analysed),
                    target=target,
                    on_progress=on_progress,
                )
            with draft.open("rb") as source:
                shutil.copyfileobj(source, stdout)


def _write_format(
    recording: Recording, form: Format, output: Path, options: Options, redactor: Redactor | None
) -> None:
    with (
        Outputs(output, recording.path, force=options["force"]) as outputs,
        progress(recording, "writing") as on_progress,
    ):
        draft = outputs.new(form.suffix)
        selection = _selection(recording, options)
        count = convert(
            *(recording, form, draft, selection, redactor, analysed),
            target=output,
            on_progress=on_progress,
        )
        written = draft.stat().st_size
        outputs.place([draft])
    values = _values(recording, redactor)
    say(f"{output}: {size(written)}, {many(count, 'event')}; {values}")


def _values(recording: Recording, redactor: Redactor | None) -> str:
    """Return a remark on the values of an output: which were replaced, or that none were."""
    before = is_redacted(recording)
    if redactor is None:
        return as_recorded(redacted=before)
    return replacement_counts(redactor.tally.by_rule(), before=before)


def _warn_unreadable_marks(recording: Recording) -> None:
    """Warn if the marks beside a recording cannot be read and were not copied."""
    try:
        sidecar.read(sidecar.path_of(recording.path))
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


def _redactor(recording: Recording, options: Options) -> Redactor | None:
    rules = options["redact"]
    if rules is None:
        return None
    return redactor_for(recording, rules, stable=options["stable_tokens"])


def _selection(recording: Recording, options: Options) -> Selection:
    since_ns, until_ns = times_of(recording, options["since"], options["until"])
    return Selection(
        where=resolved_where(recording.path, options["where"]),
        since_ns=since_ns,
        until_ns=until_ns,
        pod=options["pod"] or "",
    )


def _described(bundle: Bundle) -> str:
    manifest = bundle.manifest
    counts = manifest.counts
    context = f" and {counts.context:,} that they need" if counts.context else ""
    context += bundle.other_pods_words
    left_out = f", {counts.left_out:,} left out" if counts.left_out else ""
    of = f" of {manifest.subject}" if manifest.subject else ""
    text = f"{size(bundle.size)}, {many(counts.events, 'event')}{of}{context}{left_out}"
    if manifest.redaction is None:
        return text
    searched = "; a search found none of the replaced words" if manifest.redaction.total else ""
    redaction = manifest.redaction
    counted = replacement_counts(redaction.by_rule(), before=redaction.before)
    return f"{text}; {counted}{searched}"
