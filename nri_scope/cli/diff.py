# SPDX-License-Identifier: Apache-2.0
"""``nri-scope diff``: show changes of containers with their owners."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from nri_scope.errors import UsageError

from . import record
from .option_rules import Exclude, Need, NeedOneOf, RuledCommand, used_parameters
from .params import complete_path, format_option, output_option, redact_option, where_option
from .time_arguments import since_option, until_option

if TYPE_CHECKING:
    # Importing it at run time would slow down --help.
    from .diff_files import DiffOptions

_OF_RECORD = {"socket", "name", "validate", "cri", "duration", "once", "wait"}
_LIVE_ONLY = ("--probes", "-o", *(each.opts[0] for each in record.shared_options(_OF_RECORD)))
_RECORDING_ONLY = ("--since", "--until")
_EVENTS_ONLY = ("--where", "--all")
_EPILOG = """
\b
Glyphs: + added, - removed, ~ changed, > moved, where order matters; of requests
that no evidence shows as changes: ? outcome not known, ^ superseded, ! refused or dropped.
Owners: "one of 01–29" is an unidentified plugin between two recorded connections.
"""


@click.command(
    epilog=_EPILOG,
    cls=RuledCommand,
    described=("nri-scope record", _OF_RECORD),
    rules=(
        Exclude(("--live",), ("FILE", *_RECORDING_ONLY)),
        Need(_LIVE_ONLY, ("--live",)),
        NeedOneOf(("FILE", "--live")),
    ),
)
@click.argument(
    "arguments", nargs=-1, metavar="[FILE [WHAT|OTHER|A B|A OTHER B]]", shell_complete=complete_path
)
@click.option(
    "--live",
    is_flag=True,
    help="Watch a runtime through passive connections, with options of `record`; see there for the "
    "RISK of --validate.",
)
@click.option(
    "--probes",
    default="00,50,99",
    show_default=True,
    metavar="LIST",
    help="--live: plugin indices of the passive connections, at least two.",
)
@output_option("--live: save the recording as REC.", "REC")
@redact_option
@where_option
@since_option
@until_option
@click.option(
    "--all",
    "show_all",
    is_flag=True,
    help="Also list operations without a change, failure or delay.",
)
@format_option(
    "text|json",
    "text: one line per change. json: one object; of changes as they happen, one per line.",
)
@click.pass_context
def command(context: click.Context, **options: Unpack[DiffOptions]) -> None:
    """Show which plugin changed what in containers.

    \b
    diff FILE            changes in a recording, event by event
    diff FILE WHAT       changes of one event, pod, container or path
    diff FILE OTHER      differences between two recordings
    diff FILE A B        differences between two containers of a recording
    diff FILE A OTHER B  differences between container A of FILE and container B of OTHER
    diff --live          changes on this machine, as they happen

    WHAT is an event's number, NAMESPACE/POD[/CONTAINER], an id or a path of the spec: see `help
    what`. Of two arguments, the second one is OTHER if it is the name of an existing file, or ends
    in .nriscope.db or .nriscope.zip. A and B are like WHAT of `blame`, never files.

    An operation is one event on its way through the chain. Those without a change, failure or delay
    are only counted.

    Each change is shown with its owner and the evidence for it. Without --redact, values are shown
    as recorded, secrets included; with --live --redact, secrets are not recorded either.

    Exit status: 0 no change or difference; 1 a change or difference was found; 2 an error occurred.
    """
    context.exit(_perform(context, options))


command.params += record.shared_options(_OF_RECORD)


def _perform(context: click.Context, options: DiffOptions) -> int:
    arguments = options["arguments"]
    if options["live"]:
        return _live(options)
    if "" in arguments[::2]:
        raise UsageError("an argument is empty", "see `nri-scope diff --help`")
    file, *more = arguments
    if len(more) > 3:
        raise UsageError(
            f"expected at most four arguments, got {len(arguments)}",
            "name FILE, a container, FILE, a container",
        )

    from . import diff_files

    if len(more) > 1:
        _reject_selection(context, "two containers")
        other, b = (file, more[1]) if len(more) == 2 else (more[1], more[2])
        return diff_files.two_containers(
            (Path(file), more[0]), (Path(other), b), options["redact"], options["output_format"]
        )
    if more and diff_files.is_recording(more[0]):
        _reject_selection(context, "two recordings")
        return diff_files.two_recordings(
            Path(file), more[0], options["redact"], options["output_format"]
        )
    return int(diff_files.one_recording(Path(file), more[0] if more else None, options))


def _live(options: DiffOptions) -> int:
    from nri_scope.logger.probe_recorder import ProbeOptions, check_indices

    from .diff_live import live

    probing = ProbeOptions(
        output=options["output"],
        socket=options["socket"],
        name=options["name"],
        probes=check_indices(index.strip() for index in options["probes"].split(",")),
        validate=options["validate"],
        cri=options["cri"],
        duration=options["duration"],
        once=options["once"],
        wait=options["wait"],
        redact=options["redact"],
    )
    return live(probing, options)


def _reject_selection(context: click.Context, compared: str) -> None:
    """Raise UsageError if an option selects events; ``compared`` names what is compared instead."""
    for name in _RECORDING_ONLY + _EVENTS_ONLY:
        if name in used_parameters(context):
            raise UsageError(f"{name} is not valid when comparing {compared}", "leave it out")
