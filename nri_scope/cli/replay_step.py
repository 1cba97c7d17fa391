# SPDX-License-Identifier: Apache-2.0
"""``replay --step``: the commands of a debugger as lines of standard input."""

from __future__ import annotations

import sys

import click

from nri_scope.debugger.line_debugger import LineDebugger
from nri_scope.debugger.line_reader import LineReader
from nri_scope.errors import UsageError
from nri_scope.replay.progress import ReplayListener
from nri_scope.replay.result import Replayed
from nri_scope.replay.run import Job


def check_input() -> None:
    """Raise UsageError if standard input is closed."""
    # Python has no stdin if it was started with a closed descriptor.
    if sys.stdin is None or sys.stdin.closed:  # pyright: ignore[reportUnnecessaryComparison]
        raise UsageError("--step needs standard input, which is closed", "run it in a terminal")


async def stepped(job: Job, audience: ReplayListener) -> Replayed | None:
    """Replay by lines of standard input; None if the user ended it early."""
    reader = LineReader(sys.stdin.fileno())
    if reader.is_terminal:
        click.echo("Enter sends the next event; help lists the commands", err=True)
    return await LineDebugger(job, audience, reader, _say).run()


def _say(text: str, ends_line: bool) -> None:
    click.echo(text, err=True, nl=ends_line)
