# SPDX-License-Identifier: Apache-2.0
"""``nri-scope export``: make a bundle of a recording, or convert it for other programs."""

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
    TOKENS_RULE,
    NewFile,
    redact_option,
    tokens_options,
    where_option,
)
from .time_arguments import since_option, until_option

if TYPE_CHECKING:
    # Importing it at run time would slow down --help.
    from .export_job import Options

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
        Exclude(("--format",), ("--split", "--max-size", "--note")),
        TOKENS_RULE,
        Need(("--stable-tokens", "--unlinked"), ("--redact",)),
        NeedOneOf(("-o", "--format"), hint="add -o X.nriscope.zip, or --format"),
    ),
)
@click.argument("file", type=ANY_PATH)
@click.option(
    "-o",
    "--output",
    type=NewFile("a bundle", is_text=True),
    metavar="X.nriscope.zip",
    help="File to write. With --format, the default is standard output, as with -.",
)
@where_option
@since_option
@until_option
@click.option("--pod", type=NOT_EMPTY, metavar="NS/POD", help="Only events of this pod.")
@redact_option
@tokens_options
@click.option("--note", default="", metavar="TEXT", help="Note for the recipient of the bundle.")
@click.option(
    "--split", is_flag=True, help="Write several bundles, split by time, if one would be too large."
)
@click.option(
    "--max-size",
    type=SIZE,
    help="Fail if the bundle exceeds this size; with --split, write several instead.  [default: "
    "25000000, a common limit of issue trackers]",
)
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@click.option(
    "--format",
    "output_format",
    type=click.Choice(list(FORMATS)),
    help="Write this format for other programs instead of a bundle; see below.",
)
def command(**options: Unpack[Options]) -> None:
    """Pack a recording, or a part of it, into a bundle for sharing.

    A bundle is a zip file with the recording, a README.md and a manifest. Every command accepts it
    in place of a recording. The recording in it is a new file with the selected events and the
    events needed to replay them: the initial state, and the creation of their pods and containers.

    With --redact, all output is searched for each replaced value, except short and ordinary ones;
    if one is found, no file is kept. Without --redact, the bundle contains everything that the
    runtime sent, secrets included.
    """
    _check(options)
    from .export_job import write_bundle, write_format

    if options["output_format"] is not None:
        write_format(options["output_format"], options)
    else:
        write_bundle(options)


def _check(options: Options) -> None:
    """Raise UsageError for unsuitable values."""
    output = options["output"]
    # Possibly an unset variable of a script, which must not export everything.
    if options["where"] is not None and not str(options["where"]).strip():
        raise UsageError("--where is empty", "write a filter, or leave it out")
    if output is None:
        if options["output_format"] is None:
            raise UsageError(
                "--output: a bundle cannot be written to standard output", "name it X.nriscope.zip"
            )
        return
    is_zip = output.suffix.lower() == ".zip"
    if options["output_format"] is not None and is_zip:
        raise UsageError(
            f"{output}: --format does not write zip files",
            "choose another suffix, or leave out --format",
        )
    if options["output_format"] is None and not is_zip:
        raise UsageError(
            f"{output}: the name of a bundle must end in .zip",
            f"name it {output.name.removesuffix('.nriscope.db')}.nriscope.zip",
        )
