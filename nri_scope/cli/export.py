# SPDX-License-Identifier: Apache-2.0
"""``nri-scope export``: pack, unpack, redact or convert a recording, or a part of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

import click

from nri_scope.errors import UsageError
from nri_scope.share.formats import FORMATS, format_of

from .option_rules import Exclude, Need, NeedOneOf, RuledCommand
from .params import ANY_PATH, NOT_EMPTY, SIZE, NewFile, force_option, redact_option, where_option
from .time_arguments import since_option, until_option

if TYPE_CHECKING:
    from pathlib import Path

    # Importing it at run time would slow down --help.
    from .export_job import ExportOptions

_OF_BUNDLES = ("--max-size", "--note")
_EPILOG = "\n".join(
    [
        "\b",
        "Formats for other programs, and the endings of their files:",
        *(f"  {each.name:<16} {each.suffix:<12} {each.help}" for each in FORMATS.values()),
    ]
)


@click.command(
    epilog=_EPILOG,
    cls=RuledCommand,
    rules=(
        Exclude(("--preview",), ("-o", "--format", "--force", *_OF_BUNDLES)),
        Exclude(("--format",), _OF_BUNDLES),
        Need(("--stable-tokens", "--replace-everywhere"), ("--redact", "--keep", "--preview")),
        NeedOneOf(("-o", "--format", "--preview"), hint="add -o X.nriscope.zip, or --format"),
    ),
)
@click.argument("file", type=ANY_PATH)
@click.option(
    "-o",
    "--output",
    type=NewFile("a bundle", is_text=True),
    metavar="OUTPUT",
    help="File to write: a bundle, X.nriscope.zip, a recording, X.nriscope.db, or a file for other "
    "programs, by its ending or --format.  [default with --format: standard output, as with -]",
)
@where_option
@since_option
@until_option
@click.option("--pod", type=NOT_EMPTY, metavar="NS/POD", help="Only events of this pod.")
@redact_option
@click.option(
    "--preview",
    is_flag=True,
    help="Show what --redact replaces, by rule, place and container, and with --stable-tokens by "
    "token; write nothing.",
)
@click.option(
    "--stable-tokens",
    is_flag=True,
    help="Make tokens with this user's key, so that a recording gets the same ones each time. Not "
    "for recordings made by others.",
)
@click.option(
    "--replace-everywhere",
    is_flag=True,
    help="Replace a value that follows a key wherever else it stands, also if it consists of known "
    "words, and in other pods. RISK: a user who planted a guess in a pod learns if it was right.",
)
@click.option("--note", default="", metavar="TEXT", help="Note for the recipient of the bundle.")
@click.option(
    "--max-size",
    type=SIZE,
    help="Fail if the bundle exceeds this size.  [default: "
    "25000000, a common limit of issue trackers]",
)
@force_option
@click.option(
    "--format",
    "output_format",
    type=click.Choice([*FORMATS]),
    metavar="FORMAT",
    help="Write this format for other programs, whatever the ending of OUTPUT; see below.",
)
def command(**options: Unpack[ExportOptions]) -> None:
    """Pack, redact or convert a recording, or a part.

    A bundle is a zip file with a README.md and a recording, which every command accepts in its
    place. It has the selected events and those needed to replay them: the initial state, and the
    creation of their pods and containers.

    The ending of OUTPUT chooses the form. FILE may be a bundle, of which -o X.nriscope.db writes
    the recording, or the JSON lines that this command writes.

    With --redact, secret and personal values are replaced with tokens, and the output is searched
    for the replaced words; if one is found, no file is kept. Without it, the output contains
    everything that the runtime sent, secrets included.
    """
    if options["output"] is not None and options["output_format"] is None:
        named = format_of(options["output"])
        options["output_format"] = None if named is None else named.name
    _check(options)
    from .export_job import print_format, show_preview, write_file

    output, form = options["output"], options["output_format"]
    if options["preview"]:
        show_preview(options)
    elif output is not None:
        write_file(options, output)
    elif form is not None:
        print_format(form, options)


def _check(options: ExportOptions) -> None:
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
    elif output.suffix.lower() not in (".zip", ".db"):
        raise UsageError(
            f"{output}: the name of a bundle must end in .zip, that of a recording in .db",
            f"name it {output.name}.nriscope.zip",
        )
    if output is not None and not _is_zip(output) and (options["max_size"] or options["note"]):
        raise UsageError(
            f"{output}: only bundles have --max-size and --note",
            f"name it {output.name.removesuffix('.nriscope.db')}.nriscope.zip",
        )


def _is_zip(output: Path) -> bool:
    return output.suffix.lower() == ".zip"
