# SPDX-License-Identifier: Apache-2.0
"""``replay --step``: play one event each time Enter is pressed."""

from __future__ import annotations

import asyncio
import os
import sys

import click

from nri_scope.errors import UsageError
from nri_scope.replay.pace import Wait
from nri_scope.replay.script import ReplayStep
from nri_scope.text.escape import safe

_READ_SIZE = 4096
"""Maximum number of bytes per read of standard input."""


def stepped() -> Wait:
    """Return a `Wait` for Enter; it raises UsageError at the end of the input."""
    # Python has no stdin if it was started with a closed descriptor.
    if sys.stdin is None or sys.stdin.closed:  # pyright: ignore[reportUnnecessaryComparison]
        raise UsageError("--step needs standard input, which is closed", "run it in a terminal")
    return _Steps(sys.stdin.fileno()).wait


class _Steps:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._presses = 0
        self._ended = False

    async def wait(self, step: ReplayStep) -> None:
        """Return at the next Enter."""
        name = f"{step.recorded.id}  {step.recorded.event} {step.subject}".rstrip()
        click.echo(f"press Enter for {safe(name)} ", err=True, nl=False)
        while not self._presses and not self._ended:
            await self._readable()
            data = os.read(self._descriptor, _READ_SIZE)
            self._presses += data.count(b"\n")
            self._ended = not data
        if not self._presses:
            click.echo(err=True)
            raise UsageError("--step: standard input has ended", "press Enter for each event")
        self._presses -= 1
        if not os.isatty(self._descriptor):
            # On a terminal, Enter itself ends the line.
            click.echo(err=True)

    async def _readable(self) -> None:
        """Wait in the event loop, which keeps handling ^C and plugins."""
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        try:
            loop.add_reader(self._descriptor, ready.set)
        except OSError:
            # A regular file, which is always readable.
            return
        try:
            await ready.wait()
        finally:
            loop.remove_reader(self._descriptor)
