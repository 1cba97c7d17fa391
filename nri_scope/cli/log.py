# SPDX-License-Identifier: Apache-2.0
"""``nri-scope log``: one line per event, newest last."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nri_scope.errors import UsageError
from nri_scope.filter.fields import epilog

from .output import Output
from .params import ANY_PATH, format_option, say, where_option
from .time_arguments import since_option, until_option

if TYPE_CHECKING:
    from nri_scope.filter import Filter
    from nri_scope.recording.log_rows import Log


_POLL_SECONDS = 0.1
_FEW_OPERATIONS = 1_000
"""Maximum number of operations whose changes are found without reading the whole recording."""


@click.command(epilog=epilog())
@click.argument("file", type=ANY_PATH)
@click.option("-f", "--follow", is_flag=True, help="Print new events as they are recorded.")
@where_option
@since_option
@until_option
@click.option(
    "-n",
    "--last",
    type=click.IntRange(min=0),
    metavar="COUNT",
    help="Start with the newest COUNT events, or operations.",
)
@click.option(
    "--operations",
    is_flag=True,
    help="Print one line per operation: the same event at all connections, with its changes. "
    "With --follow, changes inferred from several connections are shown only for operations that "
    "were recorded before the command started; later ones show the changes that an event contains "
    "by itself.",
)
@click.option("--printed", is_flag=True, help="Also show the output of tapped plugins.")
@format_option(
    "text|jsonl", "text: for people, in local time. jsonl: one JSON object per line, in UTC."
)
def command(
    file: Path,
    follow: bool,
    where: Filter | None,
    since: str | None,
    until: str | None,
    last: int | None,
    operations: bool,
    printed: bool,
    output_format: str,
) -> None:
    """Show a recording's events, one line each, newest last.

    A line shows the event's number (for `show`), its time, the response time of nri-scope or the
    recorded plugin, that plugin if the recording has several, the event's name, and its pod or
    container. With --operations, the time is that in the whole chain of plugins. A ! marks errors,
    late replies, and gaps, which are intervals that were not observed.

    A line has the changes that its event contains by itself, such as the reply of a tapped plugin.
    Changes that only several connections show are included with --operations, or with a filter for
    changes: --where 'changed:*'.
    """
    from nri_scope.cluster.pod_events import PodEvents
    from nri_scope.differ.operations import OperationMerger
    from nri_scope.recording.attribution_file import delay_of
    from nri_scope.recording.coverage import range_words
    from nri_scope.recording.event_times import times_of, within
    from nri_scope.recording.log_rows import Log
    from nri_scope.recording.reader import Recording
    from nri_scope.recording.stats import GapStats
    from nri_scope.survey.foreground import attributed, surveyed

    from .log_lines import LogPrinter, time_of_line
    from .recording_views import progress

    with Output() as output, Recording.open(file) as recording:
        if follow and recording.is_copy:
            raise UsageError(
                f"{file}: other users can write to its folder, so an unchanging copy is read",
                "leave out --follow, or run this as the recording's owner",
            )
        where = within(recording, where)
        since_ns, until_ns = _limits(where, times_of(recording, since, until))
        printer = LogPrinter(
            output,
            jsonl=output_format == "jsonl",
            operations=operations,
            delay_of=partial(delay_of, recording),
        )
        needs_survey = operations and _needs_survey(where, last)
        if operations:
            log = Log(recording, printed=printed)
            attribute = None if needs_survey else partial(attributed, recording)
            merger = OperationMerger(recording, where, last, (since_ns, until_ns), attribute)
        else:
            log = Log(
                recording,
                where=where,
                since_ns=since_ns,
                until_ns=until_ns,
                last=last,
                printed=printed,
            )
            merger = None
        given = click.get_current_context().find_object(PodEvents)
        pod_events = [] if given is None else [given]
        printer.begin(GapStats.of(recording.gaps()).left_out)

        def print_new(*, ended: bool = False) -> int:
            items = log.read() if merger is None else merger.merge(log.read(), ended=ended)
            # The Events that occurred before the command are printed once.
            events = pod_events.pop() if pod_events else PodEvents("")
            times = since_ns, until_ns
            lines = events.merged(items, time_of_line, times, is_end=last is not None)
            return printer.print_new(lines, recording.sessions())

        with (
            progress(recording, "analysing") as on_share,
            surveyed(recording, where, on_share, needed=needs_survey),
        ):
            if follow:
                _follow(log, print_new, output, until_ns)
                return
            events = print_new(ended=True)
            if not events and last != 0 and (where, since, until) != (None, None, None):
                times = since_ns, until_ns
                say(f"no event matches; {range_words(recording, times, where)}")


def _needs_survey(where: Filter | None, last: int | None) -> bool:
    """Return whether changes of operations need a survey, which reads all messages.

    For a few operations, the messages of their containers are enough.
    """
    from nri_scope.survey.foreground import ATTRIBUTED

    is_few = last is not None and last <= _FEW_OPERATIONS
    return not is_few or (where is not None and bool(ATTRIBUTED & where.fields))


def _follow(
    log: Log, print_new: Callable[..., object], output: Output, until_ns: int | None
) -> None:
    """Print new items until a time in ns, until ^C, or until the output has no reader."""
    with suppress(KeyboardInterrupt):
        while until_ns is None or time.time_ns() <= until_ns:
            if log.has_new_rows():
                print_new()
            if output.wait(_POLL_SECONDS):
                return
        print_new(ended=True)


def _limits(
    where: Filter | None, times: tuple[int | None, int | None]
) -> tuple[int | None, int | None]:
    """Return the times, also limited by a filter, so that gaps and output are limited, too."""
    since_ns, until_ns = times
    low, high = where.times if where is not None else (None, None)
    if low is not None:
        since_ns = max(low, since_ns or 0)
    if high is not None:
        until_ns = min(high + 1, high + 1 if until_ns is None else until_ns)
    return since_ns, until_ns
