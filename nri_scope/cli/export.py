# SPDX-License-Identifier: Apache-2.0
"""``nri-scope export``: make a bundle of a recording, or convert it for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from nri_scope.errors import UsageError
from nri_scope.share.formats import FORMATS

from .params import (
    ANY_PATH,
    FilePath,
    Size,
    check_tokens,
    command_line_argument,
    redact_option,
    tokens_options,
    where_option,
)
from .time_arguments import since_option, until_option

if TYPE_CHECKING:
    # Importing it at run time would slow down --help.
    from .export_job import Options

EXIT_DIFFERS = 1
_EPILOG = "\n".join(
    [
        "\b",
        "Formats for other programs:",
        *(f"  {one.name:<17} {one.help}" for one in FORMATS.values()),
    ]
)


@click.command(epilog=_EPILOG)
@click.argument("file", required=False, type=ANY_PATH)
@command_line_argument
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
    type=Size(),
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
@click.option(
    "--verify",
    is_flag=True,
    help="With --redact: replay the original and the bundle to COMMAND, and compare its replies.",
)
@click.pass_context
def command(context: click.Context, **options: Unpack[Options]) -> None:
    """Pack a recording, or a part of it, into a bundle for sharing.

    A bundle is a zip file with the recording, a README.md and a manifest. Every command accepts it
    in place of a recording. The recording in it is a new file with the selected events and the
    events needed to replay them: the initial state, and the creation of their pods and containers.

    With --redact, all output is searched for each replaced value, except short and ordinary ones;
    if one is found, no file is kept. Without --redact, the bundle contains everything that the
    runtime sent, secrets included.

    Exit status: 0 written, 1 --verify found a difference, 2 an error occurred.
    """
    file = _check(options)
    if options["output_format"] is not None:
        from .export_job import write_format

        write_format(file, options["output_format"], options)
        return
    from .export_job import write_bundle

    if not write_bundle(file, options):
        context.exit(EXIT_DIFFERS)


def _check(options: Options) -> Path:
    """Return the file to export. Raise UsageError for options that exclude each other."""
    file, output = options["file"], options["output"]
    if file is None:
        raise UsageError("FILE is missing", "see `nri-scope export --help`")
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
        for name in ("split", "max_size", "note", "verify"):
            if options[name]:
                option = f"--{name.replace('_', '-')}"
                raise UsageError(f"{option} is only valid for bundles", "leave out it or --format")
    check_tokens(stable=options["stable_tokens"], unlinked=options["unlinked"])
    if options["redact"] is None and (options["stable_tokens"] or options["unlinked"]):
        raise UsageError("--stable-tokens and --unlinked need --redact", "add --redact")
    if options["verify"]:
        _check_verify(options)
    elif options["command_line"]:
        raise UsageError("COMMAND is only valid with --verify", "add --verify or leave out COMMAND")
    return file


def _check_verify(options: Options) -> None:
    if not options["command_line"]:
        raise UsageError("--verify needs a plugin to replay to", "write its command after --")
    if options["redact"] is None:
        raise UsageError("--verify needs --redact", "add --redact")
    if options["split"]:
        raise UsageError("--verify and --split exclude each other", "leave one of them out")
