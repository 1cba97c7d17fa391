# SPDX-License-Identifier: Apache-2.0
"""Run ``replay`` after its options are read: replay, compare, print."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from nri_scope.errors import UsageError
from nri_scope.process.signals import END_SIGNALS, stop_signals
from nri_scope.recording.records import to_json
from nri_scope.recording.regular_files import check_private, read_regular, write_private
from nri_scope.replay.golden import Golden, Mismatch, as_data, lines
from nri_scope.replay.progress import Audience
from nri_scope.replay.report import Report, change_record, differing, document, junit
from nri_scope.replay.run import Job, replay
from nri_scope.text.escape import safe
from nri_scope.transport.loop import run

from .golden_from import WHAT, GoldenFrom
from .output import Output
from .params import say

if TYPE_CHECKING:
    from nri_scope.nri.plain import Plain
    from nri_scope.replay.result import PlayedEvent, PrintedLine, Replayed


T = TypeVar("T", bound=BaseException)


@dataclass(frozen=True, slots=True)
class ResultOptions:
    """Options on the result of a replay."""

    json: bool = False
    junit: Path | None = None
    golden: Path | None = None
    golden_from: Path | None = None
    """A recording of tapped plugins, instead of `golden`."""
    update_golden: bool = False
    other: Job | None = None
    """The same replay with another chain, for comparison."""


def perform(job: Job, wishes: ResultOptions) -> bool:
    """Replay and report; return whether all is well, also if the output is no longer read."""
    # Report an unreadable golden before any plugin is started.
    golden = _load(wishes)
    production = None
    if wishes.golden_from is not None:
        production = GoldenFrom(wishes.golden_from, job)
        job = production.prepared(job)
    # What cannot be written either; a replay can take an hour.
    if wishes.junit is not None:
        _check_junit(wishes.junit)
    if wishes.golden is not None and wishes.update_golden:
        Golden.check_place(wishes.golden)
    with Output() as output:
        return _perform(output, job, golden or production, wishes)
    return True


def _perform(
    output: Output, job: Job, golden: Golden | GoldenFrom | None, wishes: ResultOptions
) -> bool:
    plugins = [plugin.id for plugin in job.casting.plugins]
    # The names of plugins that connect later are not known yet.
    names = [*plugins, *["??-external"] * job.casting.expect]
    text = Report(chain=len(names) > 1, plugins=names, width=output.width)
    audience = Audience() if wishes.json else _Printing(output, text, _addressees(job))
    replayed = play(job, audience)
    mismatches = _compare(replayed, golden, wishes)
    other = None if wishes.other is None else play(wishes.other, Audience())
    done = _Done(replayed, mismatches, other, golden, wishes)
    if wishes.junit is not None:
        by_key = {one.key: list(done.lines_of([one])) for one in mismatches}
        _write(wishes.junit, junit(replayed, by_key))
    if wishes.json:
        output.line(to_json(done.document()))
    else:
        done.tell(output, text)
    return done.well


class _Printing(Audience):
    """Prints everything as it happens."""

    def __init__(self, output: Output, text: Report, to: str) -> None:
        """Print to `output`. ``to``: the plugins of the replay, in words."""
        self._output = output
        self._text = text
        self._to = to

    def began(self, replayed: Replayed) -> None:
        text = f"{replayed.source}, {self._to}, as {replayed.title}"
        self._print([safe(text, self._output.width), ""])

    def event(self, played: PlayedEvent) -> None:
        self._print(self._text.event(played))

    def line(self, line: PrintedLine) -> None:
        self._print([self._text.line(line)])

    def _print(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._output.line(line)
        self._output.flush()


def _addressees(job: Job) -> str:
    to = ", ".join(sorted(plugin.id for plugin in job.casting.plugins))
    if job.casting.listen is not None:
        who = "one plugin" if job.casting.expect == 1 else f"{job.casting.expect} plugins"
        to = " and ".join(filter(None, [to, f"{who} from {job.casting.listen}"]))
    return f"to {to or 'no plugin'}"


def play(job: Job, audience: Audience) -> Replayed:
    """Replay; SIGTERM and SIGHUP end it as SIGINT does, with KeyboardInterrupt.

    Raises the errors of `replay`, and OSErrors of the audience.
    """

    async def main() -> Replayed:
        task = asyncio.current_task()
        assert task is not None
        loop = asyncio.get_running_loop()
        with stop_signals(lambda *_: task.cancel(), signals=END_SIGNALS, loop=loop):
            return await replay(job, audience)

    try:
        return run(main())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    except BaseExceptionGroup as group:
        # The output's reader is gone, or writing failed: `Output` handles that.
        unwritten = _first(group, OSError)
        if unwritten is None:
            raise
        raise unwritten from None


def _first(group: BaseExceptionGroup[BaseException], kind: type[T]) -> T | None:
    for error in group.exceptions:
        found = _first(error, kind) if isinstance(error, BaseExceptionGroup) else error
        if isinstance(found, kind):
            return found
    return None


# -- goldens ----------------------------------------------------------------------------------


def _load(wishes: ResultOptions) -> Golden | None:
    if wishes.golden is None or (wishes.update_golden and not wishes.golden.exists()):
        return None
    return Golden.load(wishes.golden)


def _compare(
    replayed: Replayed, golden: Golden | GoldenFrom | None, wishes: ResultOptions
) -> list[Mismatch]:
    if isinstance(golden, GoldenFrom):
        found = golden.compare(replayed)
        for warning in golden.warnings():
            click.echo(warning, err=True)
        return found
    if wishes.golden is None:
        return []
    origin = replayed.origin
    if wishes.update_golden:
        new = (
            Golden.of(replayed.replies(), origin, replayed.name_of)
            if golden is None
            else golden.updated(replayed.replies(), origin, replayed.name_of)
        )
        new.save(wishes.golden)
        for matcher in [] if golden is None else golden.lost(new):
            say(f"warning: {matcher} does not fit any more and is gone")
        return []
    assert golden is not None
    golden.check_origin(origin)
    return golden.compare(replayed.replies(), replayed.name_of)


# -- reporting --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Done:
    """A finished replay, with the objects that it was compared with."""

    replayed: Replayed
    mismatches: Sequence[Mismatch]
    other: Replayed | None
    golden: Golden | GoldenFrom | None
    wishes: ResultOptions

    @property
    def well(self) -> bool:
        """Whether the exit status will be 0."""
        replayed, other, wishes = self.replayed, self.other, self.wishes
        if other is not None and (
            not other.ok or next(differing(replayed, other), None) is not None
        ):
            return False
        if (wishes.golden is None and wishes.golden_from is None) or wishes.update_golden:
            return replayed.ok
        return not self.mismatches and not any(
            plugin.left_behind or plugin.deserted for plugin in replayed.plugins
        )

    def lines_of(self, mismatches: Sequence[Mismatch]) -> Iterator[str]:
        """Yield lines for people."""
        if isinstance(self.golden, GoldenFrom):
            return lines(mismatches, str(self.golden.path), what=WHAT)
        return lines(mismatches, str(self.wishes.golden))

    def tell(self, output: Output, text: Report) -> None:
        """Print the results other than events."""
        for line in text.containers(self.replayed):
            output.line(line)
        if self.other is not None:
            for line in text.differences(self.replayed, self.other):
                output.line(line)
            for failure in self.other.failures():
                output.line(safe(f"with the other chain: {failure}", output.width))
        if self.mismatches:
            output.line("")
            for line in self.lines_of(self.mismatches):
                output.line(line)
        for line in text.summary(self.replayed):
            output.line(line)
        if isinstance(self.golden, GoldenFrom):
            for line in self.golden.verdict(self.mismatches):
                output.line(line)
        if self.wishes.golden is not None:
            file = safe(str(self.wishes.golden))
            if self.wishes.update_golden:
                output.line(f"wrote golden {file}")
                if not self.replayed.ok:
                    output.line("warning: it expects the failures of this replay to happen again")
            elif not self.mismatches:
                output.line(f"as golden {file} wants it")

    def document(self) -> dict[str, Plain]:
        """Return the whole result for programs."""
        found = document(self.replayed)
        times = found.pop("times")
        found["well"] = self.well
        if isinstance(self.golden, GoldenFrom):
            found["golden"] = {
                "file": str(self.golden.path),
                "updated": False,
                "tapped": self.golden.data(),
                "mismatches": [as_data(one) for one in self.mismatches],
            }
        if self.wishes.golden is not None:
            found["golden"] = {
                "file": str(self.wishes.golden),
                "updated": self.wishes.update_golden,
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
    """Refuse a file that cannot be written, or is not JUnit XML. Raise `UsageError`."""
    start = b""
    try:
        with suppress(FileNotFoundError):
            start = read_regular(path, 200)
        check_private(path)
    except OSError as error:
        raise _unwritable(path, error) from error
    if start and b"<testsuites" not in start:
        raise UsageError(
            f"{path}: there is such a file already, and it is no JUnit XML",
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
