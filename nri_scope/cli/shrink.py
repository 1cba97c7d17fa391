# SPDX-License-Identifier: Apache-2.0
"""``nri-scope shrink``: the smallest part of a recording with which a plugin still fails."""

from __future__ import annotations

from pathlib import Path

import click

from nri_scope.cli.params import ANY_PATH, Duration, FilePath, Index, PluginName

EXIT_INTERRUPTED = 130


@click.command()
@click.argument("file", type=ANY_PATH)
@click.argument("command_line", metavar="[-- COMMAND...]", nargs=-1, type=click.UNPROCESSED)
@click.option("-o", "--output", type=FilePath(), metavar="SMALL", help="Recording to make.")
@click.option(
    "--pytest",
    "folder",
    type=ANY_PATH,
    metavar="DIR",
    help="Write it as a test case for pytest, into this folder.",
)
@click.option("--golden", type=FilePath(), metavar="FILE", help="What replies have to be.")
@click.option(
    "--check",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="Which of the failing checks has to go on failing, in their order.",
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
@click.option(
    "--plugin",
    "plugins",
    multiple=True,
    metavar="NN=COMMAND",
    help="A plugin of the chain, with its index. Several make a chain.",
)
@click.option("--index", type=Index(), help="Index of COMMAND.  [default: 10, or its file's]")
@click.option("--name", type=PluginName(), help="Name of COMMAND.  [default: its file's]")
@click.option(
    "--config",
    "configs",
    multiple=True,
    metavar="[NN=]FILE",
    help="Configuration that Configure brings to plugins, or to the one with this index.",
)
@click.option(
    "--env",
    "variables",
    multiple=True,
    metavar="NAME=VALUE",
    help="One more variable for plugins.",
)
@click.option("--session", type=click.IntRange(min=1), metavar="N", help="Session to replay.")
@click.option(
    "--profile",
    default="recorded",
    show_default=True,
    metavar="NAME",
    help="Behave like this runtime, see `replay`.",
)
@click.option("--no-effects", is_flag=True, help="Send every request as it was recorded.")
@click.option(
    "--fault",
    "faults",
    multiple=True,
    metavar="FAULT",
    help="Something that goes wrong on purpose, see `replay`.",
)
def command(
    file: Path,
    command_line: tuple[str, ...],
    output: Path | None,
    folder: Path | None,
    golden: Path | None,
    check: int,
    max_replays: int,
    max_time: float,
    plugins: tuple[str, ...],
    index: str | None,
    name: str | None,
    configs: tuple[str, ...],
    variables: tuple[str, ...],
    session: int | None,
    profile: str,
    no_effects: bool,
    faults: tuple[str, ...],
) -> None:
    """Reduce a recording to the fewest events that still fail.

    Replays FILE to COMMAND, takes the first check that fails (a reply that is an error, late, a
    conflict or, with --golden, not as wanted), and leaves out pods, containers and events as long
    as that same check goes on failing. What is left is a recording of its own, to be replayed, or
    a test that fails until the plugin is corrected.

    It holds what FILE held about what is left, secrets too.

    ^C ends the search with the smallest part so far. Exit status: 0 it was made; 130 it was made,
    but the search was interrupted; 2 nothing fails, or it could not be done.
    """
    from nri_scope.cli.replay_options import understood
    from nri_scope.cli.shrinking import Destination, perform
    from nri_scope.replay.shrink import Limits

    job, wishes = understood(
        {
            "file": file,
            "command_line": command_line,
            "plugins": plugins,
            "index": index,
            "name": name,
            "configs": configs,
            "variables": variables,
            "listen": None,
            "expect": None,
            "session": session,
            "where": None,
            "begin": None,
            "end": None,
            "only": "",
            "profile": profile,
            "no_effects": no_effects,
            "speed": None,
            "max_idle": None,
            "step": False,
            "rounds": 1,
            "faults": faults,
            "output": output,
            "golden": golden,
            "golden_from": None,
            "update_golden": False,
            "others": (),
            "junit": None,
            "output_format": "text",
        }
    )
    to = Destination(output, folder, faults)
    if not perform(job, wishes.golden, check, Limits(max_replays, max_time), to):
        click.get_current_context().exit(EXIT_INTERRUPTED)
