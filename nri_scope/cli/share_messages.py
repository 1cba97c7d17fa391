# SPDX-License-Identifier: Apache-2.0
"""Code shared by commands that make files for others: progress, warnings, wording."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from nri_scope.recording.display import many

from .params import say

if TYPE_CHECKING:
    from nri_scope.recording.reader import Recording

_MANY = 20_000
"""Number of events above which progress is shown."""


@contextmanager
def progress(recording: Recording, doing: str) -> Iterator[Callable[[float], None] | None]:
    """Yield a function to call with the share done; None for a short recording."""
    from nri_scope.recording import lookup

    first, last = lookup.event_range(recording)
    if last - first < _MANY or sys.stderr is None or not sys.stderr.isatty():
        yield None
        return

    def tell(share: float) -> None:
        click.echo(f"\r{doing}: {share:4.0%}", nl=False, err=True)

    try:
        yield tell
    finally:
        click.echo("\r\x1b[K", nl=False, err=True)


def tell_lost_marks(recording: Recording) -> None:
    """Warn if the marks beside a recording cannot be read, and so are not copied."""
    from nri_scope.recording.marks import sidecar

    try:
        sidecar.read(sidecar.path_of(recording.path))
    except sidecar.Unusable as error:
        say(f"{error}; the marks in it do not come along")


def replaced(by_rule: Mapping[str, int]) -> str:
    """Return the counts in words, as in ``63 values replaced (42 env-values, …)``."""
    total = sum(by_rule.values())
    if not total:
        return "nothing to replace was found"
    rules = sorted(by_rule.items(), key=lambda one: (-one[1], one[0]))
    listed = ", ".join(f"{values:,} {rule}" for rule, values in rules)
    return f"{many(total, 'value')} replaced ({listed})"
