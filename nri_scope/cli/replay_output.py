# SPDX-License-Identifier: Apache-2.0
"""Print a replay, and its result, for ``replay``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import TYPE_CHECKING

from nri_scope.recording.reading.records import to_json
from nri_scope.replay.checked_replay import CheckedReplay, Checks, compare, prepared
from nri_scope.replay.playback import ReplayListener
from nri_scope.replay.plugin_command import PluginCommand
from nri_scope.replay.recorded_replies import TapComparison
from nri_scope.replay.report import ResultFormatter
from nri_scope.replay.run import Job, play
from nri_scope.text.escape import safe

from .output import Output
from .params import say

if TYPE_CHECKING:
    from nri_scope.replay.result import PlayedEvent, PrintedLine, Replayed


class PrintedEvents(Enum):
    """Which events are printed while they are played."""

    ALL = "text"
    CHANGES = "changes"
    """Events with changes or problems."""
    PROBLEMS = "problems"
    """Failed events, without plugins' output."""


def perform(job: Job, checks: Checks, events: PrintedEvents | None) -> bool:
    """Replay and print the result, as JSON without ``events``.

    Return whether the exit status is 0; also True if the output's reader is gone.
    """
    job, expected = prepared(job, checks)
    with Output() as output:
        text, audience = printing(output, job, events or PrintedEvents.ALL)
        replayed = play(job, audience if events else Notices(job.notes))
        mismatches = compare(replayed, expected, checks, say)
        other = None if checks.other is None else play(checks.other, ReplayListener())
        result = CheckedReplay(replayed, mismatches, other, expected, checks)
        result.write_junit()
        if events:
            _print(result, output, text)
        else:
            output.line(to_json(result.document()))
        return result.well
    return True


class Notices(ReplayListener):
    """Printer of messages for the user, on stderr."""

    def __init__(self, notes: Iterable[str]) -> None:
        """Print the job's ``notes`` when the replay begins."""
        self._notes = notes

    def began(self, replayed: Replayed) -> None:
        for note in self._notes:
            say(note)

    def notice(self, text: str) -> None:
        say(text)


def printing(
    output: Output, job: Job, events: PrintedEvents = PrintedEvents.ALL
) -> tuple[ResultFormatter, ReplayListener]:
    """Return the formatter of a job's result, and a listener that prints events as they arrive."""
    plugins = [
        plugin.title if isinstance(plugin, PluginCommand) else plugin.id
        for plugin in job.plugin_set.plugins
    ]
    # Names of external plugins are unknown until they connect.
    names = [*plugins, *["??-external"] * job.plugin_set.expect]
    text = ResultFormatter(chain=len(names) > 1, plugins=names, width=output.width)
    return text, _Printing(output, text, _recipients(job, plugins), events, job.notes)


class _Printing(Notices):
    """Prints events and output as they arrive."""

    def __init__(
        self,
        output: Output,
        text: ResultFormatter,
        recipients: str,
        events: PrintedEvents,
        notes: Iterable[str],
    ) -> None:
        """Print to `output`. ``recipients``: the plugins of the replay, as text."""
        super().__init__(notes)
        self._output = output
        self._text = text
        self._recipients = recipients
        self._events = events

    def began(self, replayed: Replayed) -> None:
        super().began(replayed)
        text = f"{replayed.source}, {self._recipients}, as {replayed.title}"
        blank = [] if self._events is PrintedEvents.PROBLEMS else [""]
        self._print([safe(text, self._output.width), *blank])

    def event(self, played: PlayedEvent) -> None:
        match self._events:
            case PrintedEvents.ALL:
                printed = True
            case PrintedEvents.CHANGES:
                printed = played.is_remarkable
            case PrintedEvents.PROBLEMS:
                # Faults that are no events may have had no effect.
                printed = played.has_problem or bool(played.fault and not played.subject)
        if printed:
            output = self._events is not PrintedEvents.PROBLEMS
            self._print(self._text.event(played, output=output))

    def line(self, line: PrintedLine) -> None:
        if self._events is PrintedEvents.ALL:
            self._print([self._text.line(line)])

    def _print(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._output.line(line)
        self._output.flush()


def _recipients(job: Job, names: Sequence[str]) -> str:
    plugins = ", ".join(sorted(names))
    if job.plugin_set.listen is not None:
        count = "one plugin" if job.plugin_set.expect == 1 else f"{job.plugin_set.expect} plugins"
        plugins = " and ".join(filter(None, [plugins, f"{count} from {job.plugin_set.listen}"]))
    return f"to {plugins or 'no plugin'}"


def _print(result: CheckedReplay, output: Output, text: ResultFormatter) -> None:
    """Print the results other than events."""
    checks = result.checks
    if result.other is None:
        for line in text.containers(result.replayed):
            output.line(line)
    else:
        label = checks.other_label
        for line in text.differences(result.replayed, result.other, label):
            output.line(line)
        for failure in result.other.failures():
            output.line(safe(f"{label}: {failure}", output.width))
    if result.mismatches:
        output.line("")
        for line in result.lines_of(result.mismatches):
            output.line(line)
    for line in text.summary(result.replayed):
        output.line(line)
    if isinstance(result.golden, TapComparison):
        for line in result.golden.verdict(result.mismatches):
            output.line(line)
    elif checks.golden is not None:
        file = safe(str(checks.golden))
        if checks.update_golden:
            output.line(f"wrote golden {file}")
            if not result.replayed.ok:
                output.line("warning: this golden expects the failures of this replay")
        elif not result.mismatches:
            output.line(f"all replies match golden {file}")
