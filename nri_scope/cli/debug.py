# SPDX-License-Identifier: Apache-2.0
"""``nri-scope debug``: replay to a plugin, event by event, on a screen."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Unpack

import click

from nri_scope.errors import UsageError

from .chain_options import (
    FORMER_OPTIONS,
    PLAY_RULES,
    VERBATIM,
    PlayOptions,
    play_options,
    played,
)
from .option_rules import RuledCommand
from .params import WHERE, say
from .tui import terminal_colors, tui_obstacle

if TYPE_CHECKING:
    from nri_scope.filter import Filter


class DebugOptions(PlayOptions):
    """The options as click passes them."""

    breaks: tuple[Filter, ...]
    go_to: int | None


@click.command(
    cls=RuledCommand,
    rules=PLAY_RULES,
    former=FORMER_OPTIONS,
    described=("nri-scope replay", PlayOptions.__annotations__),
)
@click.option(
    "--break",
    "breaks",
    type=WHERE,
    multiple=True,
    metavar="FILTER",
    help="Stop before events that match, first at the first of them. Can be repeated.",
)
@click.option("--go-to", type=click.IntRange(min=1), metavar="N", help="Stop first before event N.")
@play_options
def command(**options: Unpack[DebugOptions]) -> None:
    """Replay to a plugin, and stop before events.

    On a screen, the next event's request is shown before it is sent: n sends it, e edits it first,
    c goes on to a breakpoint, p goes back, ? shows all keys. Requests have no deadline, unless
    --timeout sets one, so that another debugger can stop the plugin. FILE may also be a scenario or
    a manifest of Kubernetes.

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


def _debug(options: DebugOptions, title: str) -> None:
    import asyncio

    from nri_scope.debugger.app import DebuggerApp
    from nri_scope.debugger.debugger import Debugger

    from .recording_views import resolved_where
    from .replay_options import selected_job

    if options["profile"].startswith(VERBATIM):
        raise UsageError(f"debug and --profile {VERBATIM} exclude each other", "leave it out")
    job = selected_job(options)
    # A plugin may be stopped in another debugger.
    timeout = math.inf if options["timeout"] is None else options["timeout"]
    job = replace(job, playback=replace(job.playback, timeout_s=timeout), keep=False)
    resolved = (resolved_where(options["file"], where) for where in options["breaks"])
    app = DebuggerApp(
        Debugger(job, [where for where in resolved if where is not None], options["go_to"] or 0),
        title=title,
        colors=terminal_colors(),
    )
    for note in job.notes:
        say(note)
    asyncio.run(app.run_async())
    if app.return_code:
        # Textual has printed the traceback of a bug.
        click.get_current_context().exit(app.return_code)
