# SPDX-License-Identifier: Apache-2.0
"""``nri-scope debug``: replay to a plugin, event by event, on a screen."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Unpack

import click

from nri_scope.errors import UsageError

from .chain_options import PLAY_RULES, PlayOptions, play_options, played
from .option_rules import Need, RuledCommand
from .params import NOT_EMPTY, WHERE, FilePath, say
from .tui import respect_no_color, tui_obstacle

if TYPE_CHECKING:
    from pathlib import Path

    from nri_scope.debugger.watch import Watch
    from nri_scope.filter import Filter


class Options(PlayOptions):
    """The options as click passes them."""

    breaks: tuple[Filter, ...]
    until: int | None
    watched: tuple[Path, ...]
    build: str | None


@click.command(
    cls=RuledCommand,
    rules=(
        Need(("--build",), ("--watch",), "add --watch PATH"),
        Need(("--watch",), ("--build",), "add --build COMMAND, such as 'go build .'"),
        *PLAY_RULES,
    ),
)
@play_options
@click.option(
    "--break",
    "breaks",
    type=WHERE,
    multiple=True,
    metavar="FILTER",
    help="Stop before events that match, first at the first of them. Can be repeated.",
)
@click.option("--until", type=click.IntRange(min=1), metavar="N", help="Stop first before event N.")
@click.option(
    "--watch",
    "watched",
    multiple=True,
    type=FilePath(),
    metavar="PATH",
    help="On every save of this file, or of a file in this folder, run --build, replay again and "
    "show what differs from the run before. Can be repeated.",
)
@click.option(
    "--build",
    type=NOT_EMPTY,
    metavar="COMMAND",
    help="Shell command that builds the plugin, for --watch.",
)
def command(**options: Unpack[Options]) -> None:
    """Replay to a plugin on a screen, and stop before events.

    The next event's request is shown before it is sent: n sends it, e edits it first, c goes on to
    a breakpoint, p goes back, ? shows all keys. Requests have no deadline, unless --timeout sets
    one, so that another debugger can stop the plugin. FILE may also be a scenario or a manifest of
    Kubernetes.

    Example: nri-scope debug FILE --break event:CreateContainer -- ./plugin
    """
    # First, as an interface cannot replace it: its keys are the point.
    if reason := tui_obstacle():
        raise UsageError(
            f"debug needs a terminal: {reason}",
            "`replay` sends the same events, and --set changes a pod or container on the way",
        )
    file = options["file"]
    with played(options):
        _debug(options, file.name)


def _watch(paths: tuple[Path, ...], build: str | None) -> Watch | None:
    """Return the watched files and their build; None if there are none."""
    from nri_scope.debugger.watch import Watch

    return Watch(paths, build) if build else None


def _debug(options: Options, title: str) -> None:
    import asyncio

    from nri_scope.debugger.app import DebuggerApp
    from nri_scope.debugger.debugger import Debugger
    from nri_scope.tui.config import config_path, load
    from nri_scope.tui.theme import NAMES, color_system

    from .recording_views import resolved_where
    from .replay_options import selected_job

    if options["no_effects"]:
        raise UsageError("debug and --no-effects exclude each other", "leave it out")
    job = selected_job(options)
    # A plugin may be stopped in another debugger.
    timeout = math.inf if options["timeout"] is None else options["timeout"]
    job = replace(job, playback=replace(job.playback, timeout_s=timeout), keep=False)
    resolved = (resolved_where(options["file"], one) for one in options["breaks"])
    app = DebuggerApp(
        Debugger(job, [one for one in resolved if one is not None], options["until"] or 0),
        title=title,
        theme=load(config_path(), NAMES).theme,
        colors=color_system(),
        watch=_watch(options["watched"], options["build"]),
    )
    for note in job.notes:
        say(note)
    respect_no_color()
    asyncio.run(app.run_async())
    if app.return_code:
        # Textual has printed the traceback of a bug.
        click.get_current_context().exit(app.return_code)
