# SPDX-License-Identifier: Apache-2.0
"""Run ``replay`` once its options are parsed: replay, compare, print."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from nri_scope.errors import UsageError
from nri_scope.process.signals import END_SIGNALS, stop_signals
from nri_scope.recording.records import to_json
from nri_scope.recording.regular_files import check_private, read_regular, write_private
from nri_scope.replay.chain import Command
from nri_scope.replay.golden import Golden, Mismatch, as_data, lines
from nri_scope.replay.playback import ReplayListener
from nri_scope.replay.recorded_replies import SOURCE_LABEL, TapComparison
from nri_scope.replay.report import Report, change_record, differing, document, junit
from nri_scope.replay.run import Job, replay
from nri_scope.text.escape import safe
from nri_scope.transport.loop import run

from .output import Output
from .params import say

if TYPE_CHECKING:
    from nri_scope.nri.plain import Plain
    from nri_scope.replay.result import PlayedEvent, PrintedLine, Replayed


T = TypeVar("T", bound=BaseException)
R = TypeVar("R")


class PrintedEvents(Enum):
    """Which events are printed while they are played."""

    ALL = "all"
    CHANGES = "changes"
    """Events with changes or problems."""
    PROBLEMS = "problems"
    """Failed events, without plugins' output."""


@dataclass(frozen=True, slots=True)
class ResultOptions:
    """Options for output and comparison of a replay's result."""

    json: bool = False
    events: PrintedEvents = PrintedEvents.ALL
    junit: Path | None = None
    golden: Path | None = None
    golden_from: Path | None = None
    """A recording of tapped plugins, instead of `golden`."""
    update_golden: bool = False
    other: Job | None = None
    """The same replay with another chain, for comparison."""
    other_label: str = ""
    """How the other chain differs, such as "without 20-b"."""
    swap: str = ""
    """The option --swap of `other`; "" without it."""


def perform(job: Job, options: ResultOptions) -> bool:
    """Replay and print the result; return whether the exit status is 0.

    Also returns True if the output's reader is gone.
    """
    # Report an unreadable golden before plugins are started.
    golden = _load(options)
    production = None
    if options.golden_from is not None:
        production = TapComparison(options.golden_from, job)
        job = production.prepared(job)
    # The same for unwritable files, as a replay can take an hour.
    if options.junit is not None:
        _check_junit(options.junit)
    if options.golden is not None and options.update_golden:
        Golden.check_place(options.golden)
    with Output() as output:
        return _perform(output, job, golden or production, options)
    return True


def _perform(
    output: Output, job: Job, golden: Golden | TapComparison | None, options: ResultOptions
) -> bool:
    text, audience = printing(output, job, options.events)
    if options.json:
        audience = Notices(job.notes)
    replayed = run_interruptibly(lambda: replay(job, audience))
    for one in job.plugin_set.own_index:
        if one.index in options.swap.split(","):
            raise own_index_error(options.swap, f"{one.id} sets its own index")
    mismatches = _compare(replayed, golden, options)
    other = None if options.other is None else play(options.other, ReplayListener())
    result = _Result(replayed, mismatches, other, golden, options)
    if options.junit is not None:
        _write(options.junit, result.junit())
    if options.json:
        output.line(to_json(result.document()))
    else:
        result.print(output, text)
    return result.well


def own_index_error(swap: str, reason: str) -> UsageError:
    """Return the error of --swap for plugins whose index it cannot change."""
    return UsageError(
        f"--swap {swap}: {reason}", "compare with the other order, with --compare-with"
    )


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
) -> tuple[Report, ReplayListener]:
    """Return the formatter of a job's result, and a listener that prints events as they arrive."""
    plugins = [
        plugin.title if isinstance(plugin, Command) else plugin.id
        for plugin in job.plugin_set.plugins
    ]
    # Names of external plugins are unknown until they connect.
    names = [*plugins, *["??-external"] * job.plugin_set.expect]
    text = Report(chain=len(names) > 1, plugins=names, width=output.width)
    return text, _Printing(output, text, _recipients(job, plugins), events, job.notes)


class _Printing(Notices):
    """Prints events and output as they arrive."""

    def __init__(
        self,
        output: Output,
        text: Report,
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


def play(job: Job, audience: ReplayListener) -> Replayed:
    """Replay, as `run_interruptibly` does."""
    return run_interruptibly(lambda: replay(job, audience))


def run_interruptibly(work: Callable[[], Coroutine[object, object, R]]) -> R:
    """Run ``work``; SIGTERM and SIGHUP end it as SIGINT does, with KeyboardInterrupt.

    Raises its errors, and OSErrors of the audience of a replay.
    """
    is_interrupted = False
    running: tuple[asyncio.AbstractEventLoop, asyncio.Task[object]] | None = None

    def interrupt(*_: object) -> None:
        nonlocal is_interrupted
        is_interrupted = True
        if running is not None:
            loop, task = running
            loop.call_soon_threadsafe(task.cancel)

    async def main() -> R:
        nonlocal running
        task = asyncio.current_task()
        assert task is not None
        running = asyncio.get_running_loop(), task
        try:
            if is_interrupted:
                raise asyncio.CancelledError
            return await work()
        finally:
            # The loop may be closed.
            running = None

    try:
        # Also while the loop begins and ends, where an exception of a handler would be a traceback.
        with stop_signals(interrupt, signals=END_SIGNALS):
            result = run(main())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    except BaseExceptionGroup as group:
        # An error of writing output, including a broken pipe, which `Output` handles.
        write_error = _first(group, OSError)
        if write_error is None:
            raise
        raise write_error from None
    if is_interrupted:
        raise KeyboardInterrupt
    return result


def _first(group: BaseExceptionGroup[BaseException], kind: type[T]) -> T | None:
    for error in group.exceptions:
        found = _first(error, kind) if isinstance(error, BaseExceptionGroup) else error
        if isinstance(found, kind):
            return found
    return None


# -- goldens ----------------------------------------------------------------------------------


def _load(options: ResultOptions) -> Golden | None:
    if options.golden is None or (options.update_golden and not options.golden.exists()):
        return None
    return Golden.load(options.golden)


def _compare(
    replayed: Replayed, golden: Golden | TapComparison | None, options: ResultOptions
) -> list[Mismatch]:
    if isinstance(golden, TapComparison):
        found = golden.compare(replayed)
        for warning in golden.warnings():
            click.echo(warning, err=True)
        return found
    if options.golden is None:
        return []
    origin = replayed.origin
    if options.update_golden:
        new = (
            Golden.of(replayed.replies(), origin, replayed.name_of)
            if golden is None
            else golden.updated(replayed.replies(), origin, replayed.name_of)
        )
        new.save(options.golden)
        for matcher in [] if golden is None else golden.lost(new):
            say(f"warning: matcher removed, as it no longer matches: {matcher}")
        return []
    assert golden is not None
    golden.check_origin(origin)
    return golden.compare(replayed.replies(), replayed.name_of)


# -- reporting --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Result:
    """A finished replay, and the results of its comparisons."""

    replayed: Replayed
    mismatches: Sequence[Mismatch]
    other: Replayed | None
    golden: Golden | TapComparison | None
    options: ResultOptions

    @property
    def well(self) -> bool:
        """Whether the exit status will be 0."""
        replayed, other = self.replayed, self.other
        if other is not None and (
            not other.ok or next(differing(replayed, other), None) is not None
        ):
            return False
        if not self.has_golden:
            return replayed.ok
        others = next(replayed.other_failures(), None)
        return not self.mismatches and not replayed.tally.too_slow and others is None

    @property
    def has_golden(self) -> bool:
        """Whether replies are compared with expected ones, which may be failures."""
        return self.golden is not None and not self.options.update_golden

    def junit(self) -> str:
        """Return JUnit XML, with failures if the exit status will not be 0."""
        mismatches = {one.key: list(self.lines_of([one])) for one in self.mismatches}
        found: list[str] = []
        if self.other is not None:
            label = self.options.other_label
            found += [f"{name} differs {label}" for name, _ in differing(self.replayed, self.other)]
            found += [f"{label}: {failure}" for failure in self.other.failures()]
        return junit(self.replayed, mismatches, has_golden=self.has_golden, differences=found)

    def lines_of(self, mismatches: Sequence[Mismatch]) -> Iterator[str]:
        """Yield the mismatches as lines for people."""
        if isinstance(self.golden, TapComparison):
            return lines(mismatches, str(self.golden.path), label=SOURCE_LABEL)
        return lines(mismatches, str(self.options.golden))

    def print(self, output: Output, text: Report) -> None:
        """Print the results other than events."""
        if self.other is None:
            for line in text.containers(self.replayed):
                output.line(line)
        else:
            label = self.options.other_label
            for line in text.differences(self.replayed, self.other, label):
                output.line(line)
            for failure in self.other.failures():
                output.line(safe(f"{label}: {failure}", output.width))
        if self.mismatches:
            output.line("")
            for line in self.lines_of(self.mismatches):
                output.line(line)
        for line in text.summary(self.replayed):
            output.line(line)
        if isinstance(self.golden, TapComparison):
            for line in self.golden.verdict(self.mismatches):
                output.line(line)
        if self.options.golden is not None:
            file = safe(str(self.options.golden))
            if self.options.update_golden:
                output.line(f"wrote golden {file}")
                if not self.replayed.ok:
                    output.line("warning: this golden expects the failures of this replay")
            elif not self.mismatches:
                output.line(f"all replies match golden {file}")

    def document(self) -> dict[str, Plain]:
        """Return the whole result for JSON output."""
        found = document(self.replayed)
        times = found.pop("times")
        found["well"] = self.well
        if isinstance(self.golden, TapComparison):
            found["golden"] = {
                "file": str(self.golden.path),
                "updated": False,
                "tapped": self.golden.data(),
                "mismatches": [as_data(one) for one in self.mismatches],
            }
        if self.options.golden is not None:
            found["golden"] = {
                "file": str(self.options.golden),
                "updated": self.options.update_golden,
                "mismatches": [as_data(one) for one in self.mismatches],
            }
        if self.other is not None:
            found["compared_with"] = {
                "plugins": [plugin.plugin for plugin in self.other.plugins],
                "failures": list(self.other.failures()),
                "containers": {
                    name: [one if isinstance(one, str) else change_record(one) for one in changed]
                    for name, changed in differing(self.replayed, self.other)
                },
            }
        return {**found, "times": times}


def _check_junit(path: Path) -> None:
    """Raise `UsageError` if the file cannot be written, or exists and is not JUnit XML."""
    start = b""
    try:
        with suppress(FileNotFoundError):
            start = read_regular(path, 200)
        check_private(path)
    except OSError as error:
        raise _unwritable(path, error) from error
    if start and b"<testsuites" not in start:
        raise UsageError(
            f"{path}: file exists and is not JUnit XML",
            "name another file after --junit",
        )


def _write(path: Path, text: str) -> None:
    try:
        write_private(path, text.encode())
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> UsageError:
    return UsageError(
        f"{path}: cannot be written: {(error.strerror or str(error)).lower()}",
        "name another file after --junit",
    )
