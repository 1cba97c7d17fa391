# SPDX-License-Identifier: Apache-2.0
"""``nri-scope export``: make a bundle of a recording, or convert it for other programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

import click

from nri_scope.errors import UsageError
from nri_scope.share.formats import FORMATS

from .params import (
    ANY_PATH,
    SIZE,
    FilePath,
    check_tokens,
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


@click.command(epilog=_EPILOG)
@click.argument("file", type=ANY_PATH)
@click.option(
    "-o",
    "--output",
    type=FilePath(),
    metavar="X.nriscope.zip",
    help="File to write. With --format, the default is standard output.",
)
@where_option
@since_option
@until_option
@click.option("--pod", metavar="NS/POD", help="Only events of this pod.")
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
    """Raise UsageError for options that exclude each other."""
    output = options["output"]
    # Possibly an unset variable of a script, which must not export everything.
    if options["pod"] == "":
        raise UsageError("--pod is empty", "write NS/POD, or leave it out")
    if options["where"] is not None and not str(options["where"]).strip():
        raise UsageError("--where is empty", "write a filter, or leave it out")
    if options["output_format"] is None:
        if output is None:
            raise UsageError("-o is missing", "add -o X.nriscope.zip")
        if output.suffix.lower() != ".zip":
            raise UsageError(
                f"{output}: the name of a bundle must end in .zip",
                f"name it {output.name.removesuffix('.nriscope.db')}.nriscope.zip",
            )
    else:
        if output is not None and output.suffix.lower() == ".zip":
            raise UsageError(
                f"{output}: --format does not write zip files",
                "choose another suffix, or leave out --format",
            )
        for name in ("split", "max_size", "note"):
            if options[name]:
                option = f"--{name.replace('_', '-')}"
                raise UsageError(f"{option} is only valid for bundles", "leave out it or --format")
    check_tokens(stable=options["stable_tokens"], unlinked=options["unlinked"])
    if options["redact"] is None and (options["stable_tokens"] or options["unlinked"]):
        raise UsageError("--stable-tokens and --unlinked need --redact", "add --redact")
