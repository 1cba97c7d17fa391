# SPDX-License-Identifier: Apache-2.0
"""From a recording with which a plugin fails to the smallest part with which it still fails."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from nri_scope.errors import UsageError
from nri_scope.recording.reader import Recording
from nri_scope.share.extract import Extracted, Selection, extract

from ..golden import Golden
from ..progress import Audience
from ..result import Replayed
from ..run import Job
from ..script import ReplaySelection, Script
from .against_golden import AgainstGolden
from .failure import Check, Failing
from .search import Exhausted, Progress, Search

CONFIRMATIONS = 2
"""Number of further replays of the whole recording before events are left out."""

Play = Callable[[Job, Audience], Replayed]
"""Performs a replay. Its exceptions end the search; KeyboardInterrupt keeps the best so far."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a search. A replay in progress is completed."""

    replays: int = 500
    """Maximum replays, without those that confirm the failure."""
    seconds: float = 300.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """The failure to reproduce."""

    job: Job
    """The whole recording, and the plugins to replay it to. Its `selection` has only the session."""
    golden: Golden | None = None
    check: int = 1
    """Number of the failing check to reproduce, from 1."""
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class Failure:
    """The failure of the whole recording."""

    check: Check
    checks: Sequence[Check]
    """All failing checks, in order of occurrence."""
    shown: int
    """Number of `replays` in which it occurred."""
    replays: int

    @property
    def stable(self) -> bool:
        """Whether it failed each time."""
        return self.shown == self.replays

    @property
    def tries(self) -> int:
        """Number of replays of a part before it counts as not failing."""
        return 1 if self.stable else self.replays


@dataclass(frozen=True, slots=True)
class Shrunk:
    """The smallest part that was found."""

    failure: Failure
    numbers: Sequence[int]
    """Its events in the recording, including Synchronize if its whole list is needed."""
    before: int
    """Number of events of the session without Configure and Synchronize."""
    after: int
    """Number of remaining events."""
    replays: int
    """Number of replays, without those that confirm the failure."""
    seconds: float
    ended: str = ""
    """Why the search ended early, in words; "" if no more events can be left out."""
    interrupted: bool = False
    """Whether it was ended by the interrupt key, or a similar signal."""
    against: AgainstGolden | None = None


class Shrinking:
    """Makes a recording smaller. Call `confirm`, then `shrink`, then `write`."""

    def __init__(self, wanted: Wanted, play: Play) -> None:
        """Open the recording. Raises UsageError and RecordingError if it cannot be replayed."""
        self._wanted = wanted
        self._play = play
        with Recording.open(wanted.job.recording) as recording:
            session = Script(recording, wanted.job.selection).session.id
        self._job = replace(wanted.job, keep=wanted.golden is not None, output=None)
        self._selection = ReplaySelection(session=session)
        self._against: AgainstGolden | None = None
        self._replays = 0

    def confirm(self) -> Failure:
        """Replay the whole recording repeatedly. Raises `UsageError` if nothing fails."""
        checks = self._checks(*self._played(self._job.recording))
        wanted = self._wanted.check
        if not checks:
            what = "as the golden wants it" if self._wanted.golden else "in order"
            raise UsageError(
                f"{self._job.recording}: nothing fails: every reply is {what}, so there is nothing "
                "to look for",
                "see `replay` for what is answered, or name a golden that is not met with --golden",
            )
        if wanted > len(checks):
            raise UsageError(
                f"--check {wanted}: {len(checks)} {'fails' if len(checks) == 1 else 'fail'} here",
                "choose one of those",
            )
        check = checks[wanted - 1]
        shown = sum(
            check in self._checks(*self._played(self._job.recording)) for _ in range(CONFIRMATIONS)
        )
        return Failure(check, checks, 1 + shown, 1 + CONFIRMATIONS)

    def shrink(self, failure: Failure, on_progress: Callable[[Progress], None]) -> Shrunk:
        """Leave out events until no more can be left out, or a limit is reached.

        The interrupt key ends it with the best part so far. Raises `RecordingError`.
        """
        began = time.monotonic()
        limits = self._wanted.limits
        stage = ""
        ended, interrupted = "", False

        def told() -> None:
            on_progress(Progress(self._replays, stage, search.count(search.best)))

        def shows(path: Path) -> bool:
            for _ in range(failure.tries):
                if self._replays >= limits.replays:
                    raise Exhausted(f"{limits.replays} replays were made")
                if time.monotonic() - began >= limits.seconds:
                    raise Exhausted(f"{limits.seconds:g} s are over")
                self._replays += 1
                told()
                with suppress(UsageError):
                    if failure.check in self._checks(*self._played(path)):
                        return True
            return False

        def begin(name: str) -> None:
            nonlocal stage
            stage = name
            told()

        with tempfile.TemporaryDirectory(prefix="nri-scope-shrink-") as folder:
            session = self._selection.session or 0
            search = Search(self._job.recording, session, Path(folder), shows)
            try:
                search.run(begin, failure.check.event_id)
            except Exhausted as error:
                ended = str(error)
            except KeyboardInterrupt:
                ended, interrupted = "the search was interrupted", True
            else:
                told()
        return Shrunk(
            failure,
            sorted(search.best),
            search.count(event.id for event in search.events),
            search.count(search.best),
            self._replays,
            time.monotonic() - began,
            ended,
            interrupted,
            self._against,
        )

    def write(self, shrunk: Shrunk, output: Path) -> Extracted:
        """Write the part as a recording of its own. Raises RecordingError if
        that fails.
        """
        with Recording.open(self._job.recording) as recording:
            return extract(recording, output, Selection(numbers=shrunk.numbers, bare=True))

    def replay(self, failure: Failure, path: Path) -> tuple[Replayed, bool]:
        """Replay a part that was written, and return whether it fails in the same way.

        A failure that occurs only sometimes gets as many tries as before.
        """
        replayed, shown = self._replay(failure, path)
        for _ in range(failure.tries - 1):
            if shown:
                break
            replayed, shown = self._replay(failure, path)
        return replayed, shown

    def _replay(self, failure: Failure, path: Path) -> tuple[Replayed, bool]:
        replayed, heard = self._played(path, keep=True)
        return replayed, failure.check in self._checks(replayed, heard)

    def _played(self, path: Path, *, keep: bool = False) -> tuple[Replayed, Failing]:
        heard = Failing()
        job = replace(
            self._job, recording=path, selection=self._selection, keep=self._job.keep or keep
        )
        return self._play(job, heard), heard

    def _checks(self, replayed: Replayed, heard: Failing) -> list[Check]:
        golden = self._wanted.golden
        if golden is None:
            return heard.checks(replayed)
        if self._against is None:
            # The first replay is one of the whole recording.
            self._against = AgainstGolden(golden, replayed)
        return self._against.checks(replayed, heard)
