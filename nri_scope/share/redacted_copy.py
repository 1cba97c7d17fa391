# SPDX-License-Identifier: Apache-2.0
"""Copy recordings without packing them, also redacted, or count the values to be replaced."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from nri_scope.events import UserMark
from nri_scope.recording.file.temporary_files import temporary_folder, writing_to
from nri_scope.recording.reading.reader import Recording
from nri_scope.recording.reading.work_budget import OnShare

from .bundle.leak_scan import Scan
from .extract import Extracted, Selection, extract
from .extract.selected_events import choose
from .formats import Analysed, Format
from .output_files import Outputs, create_private
from .redaction import Redactor, ReplacementCounts

_ALL = Selection()


def copy_recording(
    source: Recording,
    output: Path,
    redactor: Redactor | None,
    selection: Selection = _ALL,
    *,
    force: bool = False,
    marks: Sequence[UserMark] | None = None,
    note: str = "",
    on_progress: OnShare | None = None,
) -> Extracted:
    """Write ``source`` to the new recording ``output``.

    With ``redactor``, it is redacted, and scanned for leaks before it is placed. ``selection``,
    ``marks`` and ``note`` are as for `extract`.
    On UsageError, RedactionLeak or RecordingError, ``output`` is not created.
    """
    with Outputs(output, source.path, force=force) as outputs:
        draft = outputs.new(".db")
        rebuilt = extract(
            source,
            draft,
            selection,
            redactor=redactor,
            marks=marks,
            note=note,
            on_progress=on_progress,
        )
        if redactor is not None:
            scan = Scan(redactor.replaced_words, output)
            scan.recording(draft)
            scan.name(output.name)
        outputs.place(draft)
    return replace(rebuilt, path=output)


def redact_for_comparison(
    sources: Sequence[Recording],
    folder: Path,
    redactor: Redactor,
    on_progress: OnShare | None = None,
) -> list[Extracted]:
    """Redact several recordings with common tokens; write them to new files in ``folder``.

    Raises as `copy_recording`.
    """
    outputs = (folder / f"{number}.nriscope.db" for number in range(len(sources)))
    copy = partial(copy_recording, redactor=redactor, on_progress=on_progress)
    return list(map(copy, sources, outputs))


def preview(
    source: Recording,
    redactor: Redactor,
    selection: Selection = _ALL,
    on_progress: OnShare | None = None,
) -> ReplacementCounts:
    """Return the counts of values that `copy_recording` would replace in the selected events.

    Raises UsageError and RecordingError.

    The counts are exact: the recording is redacted in a private temporary folder.
    """
    with temporary_folder() as folder, writing_to(folder):
        extract(source, folder / "r.db", selection, redactor=redactor, on_progress=on_progress)
    return redactor.tally


def convert(
    source: Recording,
    form: Format,
    draft: Path,
    target: Path,
    selection: Selection = _ALL,
    redactor: Redactor | None = None,
    analysed: Analysed | None = None,
    on_progress: OnShare | None = None,
) -> int:
    """Write the selected events to the new file ``draft`` in another format; return their number.

    ``target`` is the final path, to which the caller moves the draft. With ``redactor``, a redacted
    recording is written first, in the folder of the draft, and both are scanned for values that
    should have been replaced. Raises as `copy_recording`, and OSError.
    """
    numbers = selected_numbers(source, selection)
    if redactor is None:
        with create_private(draft) as stream:
            return form.write(source, numbers, stream, analysed)
    redacted = draft.with_suffix(".redacted.db")
    extract(source, redacted, selection, redactor=redactor, on_progress=on_progress)
    with Recording.open(redacted) as recording, create_private(draft) as stream:
        count = form.write(recording, numbers, stream, analysed)
    scan = Scan(redactor.replaced_words, target)
    scan.recording(redacted)
    scan.file(draft, "the written file")
    scan.name(target.name)
    redacted.unlink()
    return count


def selected_numbers(source: Recording, selection: Selection) -> array[int] | None:
    """Return the numbers of the selected events; None: all. Raises UsageError if there are none."""
    return None if selection.is_all else choose(source, selection).events
