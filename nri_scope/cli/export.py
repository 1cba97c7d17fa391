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
from .time_arguments import check_interval, since_option, until_option

if TYPE_CHECKING:
    # Importing it takes longer than showing the help.
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
    help="The file to write. With --format it may be left out: standard output.",
)
@where_option
@since_option
@until_option
@click.option("--pod", metavar="NS/POD", help="Only events of this pod.")
@redact_option
@tokens_options
@click.option("--note", default="", metavar="TEXT", help="Words for the recipient of the bundle.")
@click.option(
    "--split", is_flag=True, help="Make several bundles, by time, where one would be too large."
)
@click.option(
    "--max-size",
    type=Size(),
    help="Refuse a larger bundle, or split it.  [default: 25000000, what issue trackers take]",
)
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@click.option(
    "--format",
    "output_format",
    type=click.Choice(list(FORMATS)),
    help="Write a format for other programs instead of a bundle; see below.",
)
@click.option(
    "--verify",
    is_flag=True,
    help="With --redact: replay both the original and the bundle to COMMAND, and compare.",
)
@click.pass_context
def command(context: click.Context, **options: Unpack[Options]) -> None:
    """Pack a recording, or a part of it, to share it.

    A bundle is a zip with the recording, a README.md and a manifest. Every command takes it in
    place of a recording. The recording in it is a new file, with the selected events and those
    needed to replay them: what existed when they began, and how their pods and containers were
    made.

    With --redact everything that was written is searched for each replaced value, except for short
    and ordinary ones, and if one is found no file is kept. Without it the bundle has all that the
    runtime sent, secrets included.

    Exit status: 0 done, 1 --verify found a difference, 2 it could not be done.
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
    """Return the file to export. Raise UsageError for options that contradict each other."""
    file, output = options["file"], options["output"]
    if file is None:
        raise UsageError("no FILE to export was named", "see `nri-scope export --help`")
    check_interval(options["since"], options["until"])
    # Possibly an unset variable of a script: exporting everything was not intended.
    if options["pod"] == "":
        raise UsageError("--pod is empty", "write NS/POD, or leave it out")
    if options["where"] is not None and not str(options["where"]).strip():
        raise UsageError("--where is empty", "write a filter, or leave it out")
    if options["output_format"] is None:
        if output is None:
            raise UsageError("no file to write was named", "add -o X.nriscope.zip")
        if output.suffix.lower() != ".zip":
            raise UsageError(
                f"{output}: a bundle is a zip, and its name does not say so",
                f"name it {output.name.removesuffix('.nriscope.db')}.nriscope.zip",
            )
    else:
        if output is not None and output.suffix.lower() == ".zip":
            raise UsageError(
                f"{output}: that is the name of a zip file, which --format does not write",
                "choose another ending, or leave --format out",
            )
        for name in ("split", "max_size", "note", "verify"):
            if options[name]:
                option = f"--{name.replace('_', '-')}"
                raise UsageError(f"{option} is for bundles", "leave it or --format out")
    check_tokens(stable=options["stable_tokens"], unlinked=options["unlinked"])
    if options["redact"] is None and (options["stable_tokens"] or options["unlinked"]):
        raise UsageError("--stable-tokens and --unlinked are for --redact", "add it")
    if options["verify"]:
        _check_verify(options)
    elif options["command_line"]:
        raise UsageError("COMMAND is for --verify", "add it, or leave COMMAND out")
    return file


def _check_verify(options: Options) -> None:
    if not options["command_line"]:
        raise UsageError("--verify needs a plugin to replay to", "write its command after --")
    if options["redact"] is None:
        raise UsageError("--verify compares before and after redaction", "add --redact")
    if options["split"]:
        raise UsageError("--verify looks at one bundle", "leave out --split")
