# SPDX-License-Identifier: Apache-2.0
"""``nri-scope import``: write the recording in a bundle as a file of its own."""

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
_MOST = 20
"""Maximum number of shown runtimes, plugins and lines of a note; an untrusted bundle may have
thousands."""


@click.command()
@click.argument("file", metavar="BUNDLE", type=ANY_PATH)
@click.option(
    "-o",
    "--output",
    type=NewRecording(),
    metavar="X.nriscope.db",
    help="The recording to write.  [default: the bundle's name, in the current folder]",
)
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
def command(file: Path, output: Path | None, force: bool) -> None:
    """Take the recording out of a bundle.

    Prints the bundle's description of itself. Every command takes a bundle as it is; this writes
    the recording as a file, for sqlite3 or to keep. Bundles may be untrusted: a file that is not
    exactly a bundle is refused, and only the recording is written.
    """
    from nri_scope.share.bundle.import_recording import import_bundle

    target = output if output is not None else Path(_stem(file) + ".nriscope.db")
    with Output() as out, interrupted_by_signals():
        manifest = import_bundle(file, target, force=force)
        for line in _lines(manifest):
            out.line(safe(line, out.width))
    say(f"{target}: written")


def _stem(file: Path) -> str:
    return file.name.removesuffix(_SUFFIX) if file.name.endswith(_SUFFIX) else file.stem


def _lines(manifest: Manifest) -> list[str]:
    from nri_scope.recording.display import many, moment

    from .share_options import replaced

    counts = manifest.counts
    lines: list[str] = []
    if manifest.part is not None:
        lines.append(f"part       {manifest.part.number} of {manifest.part.of}")
    for one in manifest.runtimes[:_MOST]:
        nri = f", NRI {one.nri_version}" if one.nri_version else ""
        lines.append(f"runtime    {one.name} {one.version}{nri}")
    if manifest.chain:
        more = len(manifest.chain) - _MOST
        others = f" and {more:,} more" if more > 0 else ""
        lines.append(f"plugins    {', '.join(manifest.chain[:_MOST])}{others}")
    context = f" and {counts.context:,} that they need" if counts.context else ""
    lines.append(
        f"events     {counts.events:,}{context}, of {many(counts.pods, 'pod')} and "
        f"{many(counts.containers, 'container')}; {many(counts.gaps, 'gap')}"
    )
    if manifest.first_ns is not None and manifest.last_ns is not None:
        lines.append(f"time       {moment(manifest.first_ns)} to {moment(manifest.last_ns)}")
    if manifest.redaction is None:
        lines.append("redaction  none when it was packed: secrets in the original are in it too")
    else:
        lines.append(f"redaction  {replaced(manifest.redaction.by_rule())}")
    if manifest.damage:
        lines.append(f"damage     the original was damaged: {manifest.damage}")
    lines += [f"note       {line}" for line in manifest.note.splitlines()[:_MOST]]
    return lines
