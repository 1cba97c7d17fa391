# SPDX-License-Identifier: Apache-2.0
"""``nri-scope record``: the passive logger, from the command line."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from nri_scope.errors import UsageError
from nri_scope.nri.events import DEFAULT_SOCKET

from .output import Output
from .params import (
    CRI_SOCKET,
    DURATION,
    EVENTS,
    FILE_PATH,
    INDEX,
    PLUGIN_NAME,
    SIZE,
    WHERE,
    output_option,
    redact_option,
    say,
)

if TYPE_CHECKING:
    from nri_scope.filter import Filter
    from nri_scope.logger.run import RecordOptions
    from nri_scope.nri.events import EventKind
    from nri_scope.share.redaction.rules import Rules

_PRINTER = "nri_scope.cli.log_lines"
"""Module of a writer that also prints."""


class RecorderOptions(TypedDict):
    """Options shared by `record` and ``tui --live``, as click passes them."""

    output: Path | None
    socket: Path
    index: str
    name: str
    events: frozenset[EventKind] | None
    max_size: int | None
    max_age: float | None
    duration: float | None
    once: bool
    wait: bool
    validate: bool
    cri: Path | None
    redact: Rules | None
    spool: str | None


@click.command()
@output_option("Recording to create or continue.  [default: nri-<host>-<UTC time>.nriscope.db]")
@click.option(
    "--socket",
    type=FILE_PATH,
    default=Path(DEFAULT_SOCKET),
    show_default=True,
    help="The runtime's NRI socket.",
)
@click.option(
    "--index",
    type=INDEX,
    default="00",
    show_default=True,
    help="Two-digit index, the place in the chain: 00 observes containers before the changes of "
    "other plugins, 99 after them.",
)
@click.option(
    "--name",
    type=PLUGIN_NAME,
    default="nri-scope",
    show_default=True,
    help="Plugin name to register.",
)
@click.option(
    "--events",
    type=EVENTS,
    metavar="LIST",
    help="Subscribe to these events only: names, or pod, container, all; -NAME excludes one.  "
    "[default: all]",
)
@click.option("--where", type=WHERE, help="Record only events that match this filter.")
@click.option(
    "--max-size",
    type=SIZE,
    help="Keep the file below this size, e.g. 500M, by deleting the oldest events.",
)
@click.option("--max-age", type=DURATION, help="Delete events older than this, e.g. 24h.")
@click.option(
    "--max-folder-size",
    type=SIZE,
    help="Keep all recordings in the folder of FILE below this size, by deleting the oldest "
    "finished ones, those of other recorders too, and FILE itself below half of it, or --max-size.",
)
@click.option("--duration", type=DURATION, help="Stop after this time, e.g. 10m.")
@click.option(
    "--once",
    is_flag=True,
    help="Stop when the runtime disconnects, instead of waiting for it to restart.",
)
@click.option("--wait", is_flag=True, help="Wait for the socket if it does not exist yet.")
@click.option(
    "--spool",
    metavar="FOLDER",
    help="Also record the requests of NRI 0.1 in this spool, which `tap --wrap` makes; "
    "'' for none.  [default for `record`: /var/lib/nri-scope/v01 if it exists]",
)
@click.option(
    "--print",
    "print_format",
    type=click.Choice(["text", "jsonl"]),
    help="Also print each event, as `log` does.",
)
@click.option(
    "--validate",
    is_flag=True,
    help="Also subscribe to ValidateContainerAdjustment, which shows which plugin owns which "
    "change (NRI 0.10 and later). RISK: the runtime fails the creation of a container if this "
    "process stalls during such a request and, up to NRI 0.12.4, the next creation after it was "
    "killed (kill -9). If stopped, it first registers once more, passively, so that none fails.",
)
@click.option(
    "--keep-connected",
    is_flag=True,
    help="Stay connected after a late reply (NRI 0.12.4 and later). RISK: if this process stalls, "
    "the runtime waits for the whole deadline (2 s by default) at every event until it ends, "
    "instead of disconnecting it once.",
)
@click.option(
    "--metrics",
    metavar="URL",
    help="Also record containerd's own metrics about each plugin (2.3 and later), e.g. "
    "http://127.0.0.1:1338/v1/metrics, every ten seconds, for `report`. containerd serves them if "
    "`address` is set in [metrics] of its configuration.",
)
@click.option(
    "--cri",
    type=CRI_SOCKET,
    is_flag=False,
    flag_value="",
    metavar="[SOCKET]",
    help="Also ask the runtime, by its CRI, for the specs of containers after they changed, and "
    "read their cgroups and config.json on this node, to show what took effect. No reply waits for "
    "that.  [default socket: that of containerd, CRI-O, k3s or iSulad]",
)
@redact_option
def command(
    where: Filter | None,
    print_format: str | None,
    keep_connected: bool,
    metrics: str | None,
    max_folder_size: int | None,
    **options: Unpack[RecorderOptions],
) -> None:
    """Record every NRI event of a container runtime.

    Passive: each event is answered immediately with "no change", and no container is modified. ^C
    stops recording and prints a summary. The file contains everything that the runtime sends about
    its containers, environment variables included, and is readable only by you. With --redact, it
    contains tokens in place of secrets.
    """
    from nri_scope.logger.run import record
    from nri_scope.writer.background_output import V01_SPOOL, Background

    if print_format:
        # Raise an error for a closed standard output before recording begins.
        Output()
    # In the background: a stopped terminal must not delay replies to the runtime.
    notices = Background(say, waiting_max=200)
    try:
        chosen = replace(
            record_options(options, where), keep_connected=keep_connected, metrics=metrics
        )
        if max_folder_size is not None:
            chosen = _with_folder_size(chosen, max_folder_size)
        if options["spool"] is None and os.path.isdir(V01_SPOOL):  # noqa: PTH112
            chosen = replace(chosen, spool=V01_SPOOL, is_spool_default=True)
        record(chosen, notices.put, (_PRINTER, print_format) if print_format else ())
    finally:
        notices.close()


def shared_options(names: Collection[str]) -> list[click.Parameter]:
    """Return the options with these parameters, for other commands that record."""
    return [each for each in command.params if each.name in names]


def _with_folder_size(options: RecordOptions, max_bytes: int) -> RecordOptions:
    chosen = options.file.max_size
    max_size = max_bytes // 2 if chosen is None else chosen
    if max_size > max_bytes:
        raise UsageError("--max-size is above --max-folder-size", "make --max-folder-size larger")
    file = replace(options.file, max_size=max_size, max_folder_size=max_bytes)
    return replace(options, file=file)


def record_options(options: RecorderOptions, where: Filter | None = None) -> RecordOptions:
    """Convert command-line options to those of the recorder."""
    from nri_scope.logger.run import RecordOptions
    from nri_scope.plugin import Identity
    from nri_scope.writer.background_output import default_path
    from nri_scope.writer.messages import CriSource, RecordingOptions

    redact, cri = options["redact"], options["cri"]
    path = options["output"] or default_path(Path(), with_host=redact is None)
    file = RecordingOptions(
        path,
        os.path.lexists(path),
        options["max_size"],
        options["max_age"],
        None if where is None else str(where),
        redact,
        cri=None if cri is None else CriSource(cri, options["wait"]),
    )
    return RecordOptions(
        file,
        options["socket"],
        Identity(index=options["index"], name=options["name"]),
        events=options["events"],
        duration=options["duration"],
        once=options["once"],
        wait=options["wait"],
        validate=options["validate"],
        spool=Path(options["spool"]) if options["spool"] else None,
    )
