# SPDX-License-Identifier: Apache-2.0
"""``nri-scope shrink``: find a small part of a recording with which a plugin still fails."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

import click

from .chain_options import CHAIN_RULES, ChainOptions, chain_options, emulation_options, played
from .option_rules import NeedOneOf, RuledCommand
from .params import ANY_PATH, DURATION, FilePath, NewRecording

EXIT_INTERRUPTED = 130


class Options(ChainOptions):
    """The options as click passes them."""

    output: Path | None
    folder: Path | None
    golden: Path | None
    check: int
    max_replays: int
    max_time: float
    force: bool


@click.command(
    cls=RuledCommand,
    rules=(
        *CHAIN_RULES,
        NeedOneOf(("COMMAND", "--plugin"), hint="write the plugin's command after --"),
        NeedOneOf(("-o", "--pytest"), hint="name a recording with -o, or a folder with --pytest"),
    ),
)
@chain_options
@click.option("-o", "--output", type=NewRecording(), metavar="SMALL", help="Recording to write.")
@click.option(
    "--pytest",
    "folder",
    type=ANY_PATH,
    metavar="DIR",
    help="Write the result as a pytest test case to this folder.",
)
@click.option("--golden", type=FilePath(), metavar="FILE", help="Golden with the expected replies.")
@click.option(
    "--check",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="Reduce for the Nth failing check.",
)
@click.option(
    "--max-replays",
    type=click.IntRange(1, 100_000),
    default=500,
    show_default=True,
    metavar="N",
    help="End the search after N replays.",
)
@click.option(
    "--max-time",
    type=DURATION,
    default="5m",
    show_default=True,
    help="End the search after this time.",
)
@emulation_options
@click.option("--force", is_flag=True, help="Overwrite existing files.")
@click.pass_context
def command(context: click.Context, **options: Unpack[Options]) -> None:
    """Reduce a recording to the fewest events that still fail.

    Replays FILE to COMMAND, selects the first failing check (an error, a crash, a malformed or late
    reply, a conflict or, with --golden, an unexpected reply), and removes pods, containers and
    events while the same check keeps failing. The result is a new recording for `replay`, or a test
    that fails until the plugin is fixed.

    The result contains everything that FILE has about the remaining events, secrets included.

    ^C ends the search and writes the smallest part so far. Exit status: 0 written; 130
    interrupted (written, unless nothing had been removed yet); 2 no check fails, or an error
    occurred.
    """
    from nri_scope.replay.shrink import Limits

    from .replay_options import chain_job, check_files
    from .shrink_job import Destination, perform

    output, golden = options["output"], options["golden"]
    check_files({"FILE": options["file"], "-o": output, "--golden": golden})
    to = Destination(output, options["folder"], options["faults"], force=options["force"])
    limits = Limits(options["max_replays"], options["max_time"])
    with played(options):
        is_complete = perform(chain_job(options), golden, options["check"], limits, to)
    if not is_complete:
        context.exit(EXIT_INTERRUPTED)
