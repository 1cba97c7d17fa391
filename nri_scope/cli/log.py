# SPDX-License-Identifier: Apache-2.0
"""``nri-scope log``: one line per event, newest last."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nri_scope.errors import UsageError

from .output import Output
from .params import ANY_PATH, format_option, say, where_option
from .time_arguments import limited, since_option, until_option

if TYPE_CHECKING:
    from nri_scope.cluster.pod_events import PodEvents
    from nri_scope.differ.operations import OperationMerger
    from nri_scope.filter import Filter
    from nri_scope.recording.query.log_rows import Log
    from nri_scope.recording.reading.reader import Recording

    from .log_lines import LogPrinter


_POLL_SECONDS = 0.1
_FEW_OPERATIONS = 1_000
"""Maximum number of operations whose changes are found without reading the whole recording."""


@click.command()
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
    help="Print one line per operation: the same event at all connections, with its changes. Those "
    "that --follow adds have only the changes that an event contains by itself.",
)
@click.option("--printed", is_flag=True, help="Also show the output of tapped plugins.")
@format_option(
    "text|jsonl", "text: a line per event, in local time. jsonl: a JSON object per line, in UTC."
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
    """Show the events of a recording, one line each.

    A line shows the event's number (for `show`), its time, the response time of nri-scope or the
    recorded plugin, that plugin if the recording has several, the event's name, and its pod or
    container. With --operations, the time is that in the whole chain of plugins. A ! marks errors,
    late replies, and gaps, which are intervals that were not observed.

    A line has the changes that its event contains by itself, such as the reply of a tapped plugin.
    Changes that only several connections show are included with --operations, or with a filter for
    changes: --where 'changed:*'.
    """
    from nri_scope.cluster.pod_events import PodEvents
    from nri_scope.recording.query.attribution_file import delay_of
    from nri_scope.recording.query.coverage import range_words
    from nri_scope.recording.query.event_times import sender_facts, times_of, within
    from nri_scope.recording.query.stats import GapStats
    from nri_scope.recording.reading.reader import Recording
    from nri_scope.survey.foreground import surveyed

    from .log_lines import LogPrinter
    from .recording_views import progress

    with Output() as output, Recording.open(file) as recording:
        if follow and recording.is_copy:
            raise UsageError(
                f"{file}: other users can write to its folder, so an unchanging copy is read",
                "leave out --follow, or run this as the recording's owner",
            )
        where = within(recording, where)
        times = limited(where, times_of(recording, since, until))
        printer = LogPrinter(
            output,
            jsonl=output_format == "jsonl",
            operations=operations,
            delay_of=partial(delay_of, recording),
        )
        needs_survey = operations and _needs_survey(where, last)
        log, merger = _opened(recording, where, times, last, operations=operations, printed=printed)
        pod_events = click.get_current_context().find_object(PodEvents) or PodEvents("")
        printer.begin(sender_facts(recording), GapStats.of(recording.gaps()).left_out)
        new = _NewItems(recording, log, merger, printer, pod_events, times, last is not None)
        with (
            progress(recording, "analysing") as on_share,
            surveyed(recording, where, on_share, needed=needs_survey),
        ):
            if follow:
                _follow(new, output)
                return
            events = new.print(ended=True)
            if not events and last != 0 and (where, since, until) != (None, None, None):
                say(f"no event matches; {range_words(recording, times, where)}")


def _opened(
    recording: Recording,
    where: Filter | None,
    times: tuple[int | None, int | None],
    last: int | None,
    *,
    operations: bool,
    printed: bool,
) -> tuple[Log, OperationMerger | None]:
    """Return the log, and what merges its events into operations, if that is requested."""
    from nri_scope.differ.operations import OperationMerger
    from nri_scope.recording.query.log_rows import Log
    from nri_scope.survey.foreground import attributed

    if not operations:
        low, high = times
        log = Log(recording, where=where, since_ns=low, until_ns=high, last=last, printed=printed)
        return log, None
    attribute = None if _needs_survey(where, last) else partial(attributed, recording)
    merger = OperationMerger(recording, where, last, times, attribute)
    return Log(recording, printed=printed), merger


def _needs_survey(where: Filter | None, last: int | None) -> bool:
    """Return whether changes of operations need a survey, which reads all messages.

    For a few operations, the messages of their containers are enough.
    """
    from nri_scope.survey.foreground import ATTRIBUTED

    is_few = last is not None and last <= _FEW_OPERATIONS
    return not is_few or (where is not None and bool(ATTRIBUTED & where.fields))


@dataclass(slots=True)
class _NewItems:
    """The items of a log that have not been printed yet."""

    recording: Recording
    log: Log
    merger: OperationMerger | None
    printer: LogPrinter
    pod_events: PodEvents
    """Those that occurred before the command; they are printed once."""
    times: tuple[int | None, int | None]
    is_end: bool
    """Whether the first items are the newest ones of the recording."""

    def print(self, *, ended: bool = False) -> int:
        """Print them; return the number of events. ``ended``: no more items follow."""
        from .log_lines import time_of_line

        read = self.log.read()
        items = read if self.merger is None else self.merger.merge(read, ended=ended)
        lines = self.pod_events.merged(items, time_of_line, self.times, skip_earlier=self.is_end)
        self.pod_events = replace(self.pod_events, events=())
        return self.printer.print_new(lines, self.recording.sessions())


def _follow(new: _NewItems, output: Output) -> None:
    """Print new items until the end of their times, ^C, or until the output has no reader."""
    until_ns = new.times[1]
    with suppress(KeyboardInterrupt):
        while until_ns is None or time.time_ns() <= until_ns:
            if new.log.has_new_rows():
                new.print()
            if output.wait(_POLL_SECONDS):
                return
        new.print(ended=True)
