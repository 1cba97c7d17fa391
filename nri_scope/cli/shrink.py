# SPDX-License-Identifier: Apache-2.0
"""``nri-scope shrink``: find the smallest part of a recording with which a plugin still fails."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

import click

from .chain_options import ChainOptions, chain_options, manner_options
from .params import ANY_PATH, Duration, FilePath, NewRecording

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


@click.command()
@chain_options
@click.option("-o", "--output", type=NewRecording(), metavar="SMALL", help="Recording to make.")
@click.option(
    "--pytest",
    "folder",
    type=ANY_PATH,
    metavar="DIR",
    help="Write it as a test case for pytest, into this folder.",
)
@click.option("--golden", type=FilePath(), metavar="FILE", help="The expected replies.")
@click.option(
    "--check",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="Which of the failing checks has to keep failing, in their order.",
)
@click.option(
    "--max-replays",
    type=click.IntRange(1, 100_000),
    default=500,
    show_default=True,
    metavar="N",
    help="Give up looking for a smaller part after so many replays.",
)
@click.option(
    "--max-time",
    type=Duration(),
    default="5m",
    show_default=True,
    help="The same after this time.",
)
@manner_options
@click.option("--force", is_flag=True, help="Overwrite existing files.")
@click.pass_context
def command(context: click.Context, **options: Unpack[Options]) -> None:
    """Reduce a recording to the fewest events that still fail.

    Replays FILE to COMMAND, takes the first check that fails (a reply that is an error, late, a
    conflict or, with --golden, not as expected), and leaves out pods, containers and events as long
    as that same check keeps failing. The result is a recording of its own, to be replayed, or a
    test that fails until the plugin is corrected.

    The result holds all that FILE has about the remaining events, secrets included.

    ^C ends the search with the smallest part so far. Exit status: 0 it was made; 130 it was made,
    but the search was interrupted; 2 nothing fails, or it could not be done.
    """
    from nri_scope.replay.shrink import Limits

    from .replay_options import chain_job, check_files
    from .shrink_job import Destination, perform

    output, golden = options["output"], options["golden"]
    check_files({"FILE": options["file"], "-o": output, "--golden": golden})
    job = chain_job(options)
    to = Destination(output, options["folder"], options["faults"], force=options["force"])
    limits = Limits(options["max_replays"], options["max_time"])
    if not perform(job, golden, options["check"], limits, to):
        context.exit(EXIT_INTERRUPTED)
