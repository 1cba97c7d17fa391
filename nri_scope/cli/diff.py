# SPDX-License-Identifier: Apache-2.0
"""``nri-scope diff``: show changes of containers with their owners."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from nri_scope.errors import UsageError
from nri_scope.nri.identity import check_index

from .params import (
    PLUGIN_NAME,
    Duration,
    FilePath,
    NewRecording,
    complete_path,
    format_option,
    given,
    redact_option,
    socket_option,
    where_option,
)
from .time_arguments import check_interval, since_option, until_option

if TYPE_CHECKING:
    # Importing it takes longer than showing the help.
    from .diff_files import Options

_PROBES = "00,50,99"
_AUTO = "auto"

_LIVE_ONLY = (
    *("socket", "name", "probes", "validate", "cri"),
    *("output", "duration", "once", "wait"),
)
_RECORDING_ONLY = ("since", "until")
_EVENTS_ONLY = ("where", "quiet_unchanged")
_EPILOG = """
\b
Glyphs: + added, - removed, ~ changed, > moved, where order matters.
Owners: "one of 01–29" is a plugin between two connections that we saw.
"""


@click.command(epilog=_EPILOG)
@click.argument("things", nargs=-1, metavar="[FILE [WHAT|OTHER]]", shell_complete=complete_path)
@click.option("--live", is_flag=True, help="Watch a runtime with passive connections.")
@click.option("--json-spec", is_flag=True, help="FILE and OTHER are OCI specs, as config.json is.")
@socket_option
@click.option(
    "--probes",
    default=_PROBES,
    show_default=True,
    metavar="LIST",
    help="--live: indices at which to connect, or auto: around the plugins of the chain, which "
    "only --validate shows.",
)
@click.option(
    "--name",
    type=PLUGIN_NAME,
    default="nri-scope",
    show_default=True,
    help="--live: plugin name to register.",
)
@click.option(
    "--validate",
    is_flag=True,
    help="--live: also subscribe to ValidateContainerAdjustment, which shows which plugin owns "
    "which change (NRI 0.10 and later). RISK: if this process dies or stalls while it is asked, "
    "the runtime fails the creation of that container.",
)
@click.option(
    "--cri",
    type=FilePath(),
    metavar="SOCKET",
    help="--live: ask the runtime over CRI which spec it really used, and show what was applied.",
)
@click.option(
    "-o", "--output", type=NewRecording(), metavar="REC", help="--live: keep the recording, as REC."
)
@click.option("--duration", type=Duration(), help="--live: stop after this time, e.g. 10m.")
@click.option("--once", is_flag=True, help="--live: stop when the runtime goes away.")
@click.option("--wait", is_flag=True, help="--live: wait for the socket if it is not there yet.")
@redact_option
@where_option
@since_option
@until_option
@click.option("--quiet-unchanged", is_flag=True, help="Leave out events that changed nothing.")
@format_option(
    "text|json|markdown",
    "Lines for people; one JSON object, with --live one a line; or Markdown for an issue.",
)
@click.pass_context
def command(context: click.Context, **options: Unpack[Options]) -> None:
    """Show which plugin changed what in a container's OCI spec.

    \b
    diff FILE            every event of a recording that changed something
    diff FILE WHAT       the same for an event, pod or container
    diff FILE OTHER      what differs in another recording
    diff --live          as it happens, on this machine
    diff --json-spec X.json Y.json   what differs between two OCI specs

    WHAT is an event's number (the first column of `log`), a pod as NAMESPACE/POD, a container as
    NAMESPACE/POD/CONTAINER, or the beginning of an id. The second argument is OTHER if it is the
    name of an existing file, or ends in .nriscope.db or .nriscope.zip.

    Each change comes with its owner and with the evidence for it. Without --redact values are shown
    as they are, secrets included; with --live --redact secrets are not recorded either.

    Exit status: 0 nothing changed; 1 something changed, or differs; 2 it could not be done.
    """
    context.exit(_perform(context, options))


def _perform(context: click.Context, options: Options) -> int:
    told = given(context)
    things = options["things"]
    if options["live"]:
        return _live(options, told)
    _refuse(told, _LIVE_ONLY, "for --live", "add it, or leave this out")
    if options["json_spec"]:
        return _specs(options, told)
    if not things:
        raise UsageError("there is nothing to show", "name a recording, or say --live")
    file, *more = things
    if len(more) > 1:
        raise UsageError(f"{len(things)} things are too many", "name FILE and WHAT, or two files")

    if more and all(name.endswith(".json") for name in things):
        raise UsageError(
            f"{file} and {more[0]} look like OCI specs", "say --json-spec to compare them"
        )

    from . import diff_files

    if more and diff_files.is_recording(more[0]):
        _refuse(told, _RECORDING_ONLY + _EVENTS_ONLY, "for one recording", "leave it out")
        return diff_files.two_recordings(
            Path(things[0]), Path(things[1]), options["redact"], options["output_format"]
        )
    check_interval(options["since"], options["until"])
    return int(diff_files.one_recording(Path(file), more[0] if more else None, options))


def _specs(options: Options, told: dict[str, str]) -> int:
    from .diff_files import two_specs

    _refuse(told, _RECORDING_ONLY + _EVENTS_ONLY, "for recordings", "leave it out")
    if options["redact"] is not None:
        raise UsageError("--redact is for recordings", "leave it out")
    if len(options["things"]) != 2:
        raise UsageError("--json-spec compares two files", "name them: X.json Y.json")
    before, after = options["things"]
    return int(two_specs(before, after, options["output_format"]))


def _live(options: Options, told: dict[str, str]) -> int:
    if options["json_spec"]:
        raise UsageError("--live and --json-spec are two things to do", "leave one of them out")
    if options["things"]:
        raise UsageError(
            "--live shows what happens on this machine", "leave out the file, or --live"
        )
    _refuse(told, _RECORDING_ONLY, "for recordings", "leave it out")
    probes = _probes(options["probes"])

    from .diff_live import live
    from .diff_recorder import ProbeOptions

    probing = ProbeOptions(
        output=options["output"],
        socket=options["socket"],
        name=options["name"],
        probes=probes,
        validate=options["validate"],
        cri=options["cri"],
        duration=options["duration"],
        once=options["once"],
        wait=options["wait"],
        redact=options["redact"],
    )
    return live(probing, options)


def _probes(text: str) -> tuple[str, ...] | None:
    """Return the indices in ascending order; None for ``auto``."""
    if text == _AUTO:
        return None
    found = [check_index(index.strip()) for index in text.split(",")]
    if len(set(found)) < len(found):
        raise UsageError(f"--probes {text}: an index comes twice", "each gives one probe")
    if len(found) < 2:
        raise UsageError(
            f"--probes {text}: a difference needs two probes at least", f"write {_PROBES}"
        )
    return tuple(sorted(found))


def _refuse(told: dict[str, str], options: tuple[str, ...], what: str, hint: str) -> None:
    for name in options:
        if name in told:
            raise UsageError(f"{told[name]} is {what}", hint)
