# SPDX-License-Identifier: Apache-2.0
"""``nri-scope import``: write the recording in a bundle, or in JSON lines, as a file of its own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from nri_scope.process.signals import interrupted_by_signals
from nri_scope.text.escape import safe

from .output import Output
from .params import ANY_PATH, NewRecording, say

if TYPE_CHECKING:
    from nri_scope.recording.bundle.manifest import Manifest

_SUFFIX = ".nriscope.zip"
_LISTED = 20
"""Maximum number of runtimes, plugins and note lines to print; an untrusted bundle may have
thousands."""


@click.command()
@click.argument("file", type=ANY_PATH)
@click.option(
    "-o",
    "--output",
    type=NewRecording(),
    metavar="X.nriscope.db",
    help="Recording to write.  [default: X.nriscope.db in the current folder, for the bundle "
    "X.nriscope.zip]",
)
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
def command(file: Path, output: Path | None, force: bool) -> None:
    """Extract the recording from a bundle, or from JSON lines.

    Prints a bundle's manifest. Every command accepts a bundle directly; use import to get the
    recording as a file, for example for sqlite3. FILE may be untrusted: a file that is not exactly
    a bundle is rejected, and only the recording is written.

    JSON lines are those of `export --format jsonl`. Times are rounded to microseconds in them.
    """
    from nri_scope.share.import_recording import import_bundle, import_json_lines, is_json_lines

    target = output if output is not None else Path(_stem(file) + ".nriscope.db")
    if is_json_lines(file):
        with interrupted_by_signals():
            count = import_json_lines(file, target, force=force)
        say(f"{target}: written, with {count:,} events")
        return
    with Output() as out, interrupted_by_signals():
        manifest = import_bundle(file, target, force=force)
        for line in _lines(manifest):
            out.line(safe(line, out.width))
    say(f"{target}: written")


def _stem(file: Path) -> str:
    return file.name.removesuffix(_SUFFIX) if file.name.endswith(_SUFFIX) else file.stem


def _lines(manifest: Manifest) -> list[str]:
    from nri_scope.recording.display import many, moment

    from .recording_views import replacement_counts

    counts = manifest.counts
    lines: list[str] = []
    for one in manifest.runtimes[:_LISTED]:
        nri = f", NRI {one.nri_version}" if one.nri_version else ""
        lines.append(f"runtime    {one.name} {one.version}{nri}")
    if manifest.chain:
        more = len(manifest.chain) - _LISTED
        others = f" and {more:,} more" if more > 0 else ""
        lines.append(f"plugins    {', '.join(manifest.chain[:_LISTED])}{others}")
    context = f" and {counts.context:,} that they need" if counts.context else ""
    lines.append(
        f"events     {counts.events:,}{context}, of {many(counts.pods, 'pod')} and "
        f"{many(counts.containers, 'container')}; {many(counts.gaps, 'gap')}"
    )
    lines += [f"selected   {name} {value}" for name, value in manifest.selection.items()][:_LISTED]
    if manifest.first_ns is not None and manifest.last_ns is not None:
        lines.append(f"time       {moment(manifest.first_ns)} to {moment(manifest.last_ns)}")
    if manifest.redaction is None:
        lines.append("redaction  none when packed: secrets in the original are in the bundle")
    else:
        redaction = manifest.redaction
        counted = replacement_counts(redaction.by_rule(), before=redaction.before)
        lines.append(f"redaction  {counted}")
    if manifest.damage:
        lines.append(f"damage     the original was damaged: {manifest.damage}")
    lines += [f"note       {line}" for line in manifest.note.splitlines()[:_LISTED]]
    return lines
