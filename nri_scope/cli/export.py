# SPDX-License-Identifier: Apache-2.0
"""``nri-scope export``: pack, redact or convert a recording, or a part of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

import click

from nri_scope.errors import UsageError
from nri_scope.share.formats import FORMATS

from .option_rules import Exclude, Need, NeedOneOf, RuledCommand
from .params import (
    ANY_PATH,
    NOT_EMPTY,
    SIZE,
    NewFile,
    redact_option,
    where_option,
)
from .time_arguments import since_option, until_option

if TYPE_CHECKING:
    from pathlib import Path

    # Importing it at run time would slow down --help.
    from .export_job import Options

PREVIEW_FORMAT = "json"
"""Format of a preview for programs."""
_OF_BUNDLES = ("--max-size", "--note")
_EPILOG = "\n".join(
    [
        "\b",
        "Formats for other programs:",
        *(f"  {one.name:<17} {one.help}" for one in FORMATS.values()),
    ]
)


@click.command(
    epilog=_EPILOG,
    cls=RuledCommand,
    rules=(
        Exclude(("--preview",), ("-o", "--force", *_OF_BUNDLES, "--stable-tokens")),
        Exclude(("--preview",), tuple(f"--format {name}" for name in FORMATS)),
        Need((f"--format {PREVIEW_FORMAT}",), ("--preview",)),
        Exclude(("--format",), _OF_BUNDLES),
        Need(("--stable-tokens",), ("--redact",)),
        NeedOneOf(("-o", "--format", "--preview"), hint="add -o X.nriscope.zip, or --format"),
    ),
)
@click.argument("file", type=ANY_PATH)
@click.option(
    "-o",
    "--output",
    type=NewFile("a bundle", is_text=True),
    metavar="X.nriscope.zip",
    help="Bundle to write, or recording, X.nriscope.db. With --format, the default is standard "
    "output, as with -.",
)
@where_option
@since_option
@until_option
@click.option("--pod", type=NOT_EMPTY, metavar="NS/POD", help="Only events of this pod.")
@redact_option
@click.option(
    "--preview",
    is_flag=True,
    help="Show how many values --redact replaces, and where; write nothing.",
)
@click.option(
    "--stable-tokens",
    is_flag=True,
    help="Make tokens with this user's key, so that a recording gets the same tokens each time. Do "
    "not use it for recordings made by others.",
)
@click.option("--note", default="", metavar="TEXT", help="Note for the recipient of the bundle.")
@click.option(
    "--max-size",
    type=SIZE,
    help="Fail if the bundle exceeds this size.  [default: "
    "25000000, a common limit of issue trackers]",
)
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@click.option(
    "--format",
    "output_format",
    type=click.Choice([*FORMATS, PREVIEW_FORMAT]),
    help="Write this format for other programs instead of a bundle; see below. json: with "
    "--preview, one JSON object.",
)
def command(**options: Unpack[Options]) -> None:
    """Pack a recording, or a part of it, into a bundle for sharing.

    A bundle is a zip file with the recording, a README.md and a manifest. Every command accepts it
    in place of a recording. The recording in it is a new file with the selected events and the
    events needed to replay them: the initial state, and the creation of their pods and containers.
    -o X.nriscope.db writes this recording without a package.

    With --redact, secret and personal values are replaced with tokens: within one container, equal
    values get equal tokens. All output is then searched for the replaced words; if one is found, no
    file is kept. Without --redact, the output contains
    everything that the runtime sent, secrets included.
    """
    _check(options)
    from .export_job import show_preview, write_bundle, write_format, write_recording

    output = options["output"]
    if options["preview"]:
        show_preview(options)
    elif options["output_format"] is not None:
        write_format(options["output_format"], options)
    elif output is not None and _is_zip(output):
        write_bundle(options, output)
    elif output is not None:
        write_recording(options, output)


def _check(options: Options) -> None:
    """Raise UsageError for unsuitable values."""
    # Possibly an unset variable of a script, which must not export everything.
    if options["where"] is not None and not str(options["where"]).strip():
        raise UsageError("--where is empty", "write a filter, or leave it out")
    if options["preview"]:
        return
    output, form = options["output"], options["output_format"]
    if form is not None:
        if output is not None and _is_zip(output):
            raise UsageError(
                f"{output}: --format does not write zip files",
                "choose another suffix, or leave out --format",
            )
    elif output is None:
        raise UsageError(
            "--output: a bundle cannot be written to standard output", "name it X.nriscope.zip"
        )
    elif output.suffix.lower() == ".db":
        if options["max_size"] or options["note"]:
            raise UsageError(
                f"{output}: only bundles have --max-size and --note",
                f"name it {output.name.removesuffix('.nriscope.db')}.nriscope.zip",
            )
    elif not _is_zip(output):
        raise UsageError(
            f"{output}: the name of a bundle must end in .zip, that of a recording in .db",
            f"name it {output.name}.nriscope.zip",
        )


def _is_zip(output: Path) -> bool:
    return output.suffix.lower() == ".zip"
