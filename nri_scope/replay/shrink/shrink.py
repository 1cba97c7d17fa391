# SPDX-License-Identifier: Apache-2.0
"""Reduce a recording with which a plugin fails to a small part with which it still fails.

Replies are compared with a golden, also in replays of only some of its events.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from nri_scope.errors import UsageError
from nri_scope.recording.reader import Recording
from nri_scope.recording.records import to_json
from nri_scope.runtime import BY_ITSELF
from nri_scope.share.extract import Extracted, Selection, extract

from ..golden import SESSION, Golden, Key, Mismatch, MismatchKind, entries_of
from ..playback import ReplayListener
from ..replies import Reply
from ..result import Replayed
from ..run import Job
from ..script import ReplaySelection, Script
from .failure import Check, Failing, crash_of, plugin_checks
from .search import Exhausted, Progress, Search

CONFIRMATIONS = 2
"""Number of additional replays of the whole recording before the search."""

Play = Callable[[Job, ReplayListener], Replayed]
"""Performs a replay. Its exceptions end the search; KeyboardInterrupt keeps the best part."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a search. A replay in progress is completed."""

    replays: int = 500
    """Maximum number of replays, without those that confirm the failure."""
    seconds: float = 300.0


@dataclass(frozen=True, slots=True)
class ShrinkJob:
    """Recording to reduce, and the failure to reproduce."""

    job: Job
    """The whole recording and the plugins. Only the session of its `selection` is used."""
    golden: Golden | None = None
    check: int = 1
    """Number of the failing check to reproduce, from 1."""
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class Failure:
    """Failure of the whole recording."""

    check: Check
    checks: Sequence[Check]
    """All failing checks, in order of occurrence."""
    occurrences: int
    """Number of `replays` in which it occurred."""
    replays: int

    @property
    def is_stable(self) -> bool:
        """Whether it failed each time."""
        return self.occurrences == self.replays

    @property
    def tries(self) -> int:
        """Number of replays without a failure after which a part counts as passing."""
        return 1 if self.is_stable else self.replays


@dataclass(frozen=True, slots=True)
class Shrunk:
    """Smallest failing part that was found."""

    failure: Failure
    numbers: Sequence[int]
    """Numbers of its events, including Synchronize if its whole list is needed."""
    before: int
    """Number of events of the session without Configure and Synchronize."""
    after: int
    """Number of remaining events."""
    replays: int
    """Number of replays, without those that confirm the failure."""
    seconds: float
    ended: str = ""
    """Reason if the search ended early; "" if no more events can be removed."""
    interrupted: bool = False
    """Whether the search was ended by a stop signal."""
    against: AgainstGolden | None = None


class Shrinking:
    """Reduction of a recording. Call `confirm`, then `shrink`, then `write`."""

    def __init__(self, shrink_job: ShrinkJob, play: Play) -> None:
        """Open the recording. Raises UsageError and RecordingError if it cannot be replayed."""
        self._shrink_job = shrink_job
        self._play = play
        with Recording.open(shrink_job.job.recording) as recording:
            session = Script(recording, shrink_job.job.selection).session.id
        self._job = replace(shrink_job.job, keep=shrink_job.golden is not None, output=None)
        self._selection = ReplaySelection(session=session)
        self.notices: list[str] = []
        """Messages of the first replay for the user."""
        self._against: AgainstGolden | None = None
        self._replays = 0

    def confirm(self) -> Failure:
        """Replay the whole recording repeatedly. Raises `UsageError` if no check fails."""
        replayed, failing = self._played(self._job.recording)
        self.notices = failing.notices
        if any(one.ending and not one.ending.startswith(BY_ITSELF) for one in replayed.plugins):
            # Do not wait in each replay for plugins that never end by themselves.
            self._job = replace(self._job, plugin_set=replace(self._job.plugin_set, grace_s=0.0))
        checks = self._checks(replayed, failing)
        number = self._shrink_job.check
        if not checks:
            state = "matches the golden" if self._shrink_job.golden else "is valid"
            raise UsageError(
                f"{self._job.recording}: no check fails: every reply {state}",
                "inspect the replies with `replay`, or use --golden with a golden that fails",
            )
        if number > len(checks):
            raise UsageError(
                f"--check {number}: only {len(checks)} {'fails' if len(checks) == 1 else 'fail'}",
                "choose a lower number",
            )
        check = checks[number - 1]
        repeated = sum(
            check in self._checks(*self._played(self._job.recording)) for _ in range(CONFIRMATIONS)
        )
        return Failure(check, checks, 1 + repeated, 1 + CONFIRMATIONS)

    def shrink(self, failure: Failure, on_progress: Callable[[Progress], None]) -> Shrunk:
        """Remove events until no more can be removed, or a limit is reached.

        KeyboardInterrupt ends the search with the best part so far. Raises `RecordingError`.
        """
        began = time.monotonic()
        limits = self._shrink_job.limits
        stage = ""
        ended, interrupted = "", False

        def report() -> None:
            on_progress(Progress(self._replays, stage, search.count(search.best)))

        def fails(path: Path) -> bool:
            for _ in range(failure.tries):
                if self._replays >= limits.replays:
                    raise Exhausted(f"the limit of {limits.replays} replays was reached")
                if time.monotonic() - began >= limits.seconds:
                    raise Exhausted(f"the limit of {limits.seconds:g} s was reached")
                self._replays += 1
                report()
                with suppress(UsageError):
                    if failure.check in self._checks(*self._played(path)):
                        return True
            return False

        def begin(name: str) -> None:
            nonlocal stage
            stage = name
            report()

        with tempfile.TemporaryDirectory(prefix="nri-scope-shrink-") as folder:
            session = self._selection.session or 0
            search = Search(self._job.recording, session, Path(folder), fails)
            try:
                search.run(begin, failure.check.event_id)
            except Exhausted as error:
                ended = str(error)
            except KeyboardInterrupt:
                ended, interrupted = "the search was interrupted", True
            else:
                report()
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
        """Write the part as a new recording. Raises RecordingError."""
        with Recording.open(self._job.recording) as recording:
            return extract(recording, output, Selection(numbers=shrunk.numbers, bare=True))

    def replay(self, failure: Failure, path: Path) -> tuple[Replayed, bool]:
        """Replay a written part; return the result and whether it fails in the same way.

        An unstable failure is tried as often as during the search.
        """
        replayed, failed = self._replay(failure, path)
        for _ in range(failure.tries - 1):
            if failed:
                break
            replayed, failed = self._replay(failure, path)
        return replayed, failed

    def _replay(self, failure: Failure, path: Path) -> tuple[Replayed, bool]:
        replayed, failing = self._played(path, keep=True)
        return replayed, failure.check in self._checks(replayed, failing)

    def _played(self, path: Path, *, keep: bool = False) -> tuple[Replayed, Failing]:
        failing = Failing()
        job = replace(
            self._job, recording=path, selection=self._selection, keep=self._job.keep or keep
        )
        return self._play(job, failing), failing

    def _checks(self, replayed: Replayed, failing: Failing) -> list[Check]:
        golden = self._shrink_job.golden
        if golden is None:
            return failing.checks(replayed)
        if self._against is None:
            # The first replay is of the whole recording.
            self._against = AgainstGolden(golden, replayed)
        return self._against.checks(replayed)


_Place = tuple[str, int, str]
"""Plugin, number of the recorded event, and request sent for it."""

_WORDS = {
    MismatchKind.DIFFERS: "the reply differs from the golden",
    MismatchKind.MISSING: "the golden has no such reply",
    MismatchKind.UNUSED: "the reply expected by the golden is missing",
}


class AgainstGolden:
    """Comparison of replays with the golden of a whole recording.

    A golden numbers events: the second update of a container is ``UpdateContainer#2``. In a replay
    of fewer events it may be the first update, but is still compared as the second.
    """

    def __init__(self, golden: Golden, whole: Replayed) -> None:
        """``whole``: a replay of all events. Raises UsageError for another recording's golden."""
        golden.check_origin(whole.origin)
        self.golden = golden
        self._times: dict[_Place, list[int]] = defaultdict(list)
        for reply in whole.replies():
            if reply.event_id:
                self._times[_place(reply)].append(reply.occurrence)
        self._numbers = _numbers_of(whole)

    def checks(self, replayed: Replayed) -> list[Check]:
        """Return the mismatches in order of occurrence, then plugins' failures between events."""
        name_of = replayed.name_of
        replies = list(self.as_in_whole(replayed.replies()))
        first: dict[Key, int] = {}
        for index, reply in enumerate(replies):
            for key in entries_of([reply], name_of):
                first.setdefault(key, index)
        mismatches = sorted(
            self.golden.compare(replies, name_of),
            key=lambda mismatch: first.get(mismatch.key, len(replies)),
        )
        played_ids = {played.event_id for played in replayed.events}
        checks: list[Check] = []
        for mismatch in mismatches:
            answer = replies[first[mismatch.key]] if mismatch.key in first else None
            number = answer.event_id if answer is not None else 0
            if mismatch.kind is MismatchKind.UNUSED:
                number = self._numbers.get((mismatch.key.subject, mismatch.key.event), 0)
                if number not in played_ids:
                    # The event is not in this part of the recording.
                    continue
            crash = crash_of(answer) if answer is not None else ""
            checks.append(_check(mismatch, number, crash))
        return [*checks, *plugin_checks(replayed)]

    def as_in_whole(self, replies: Iterable[Reply]) -> Iterator[Reply]:
        """Yield the replies with their ordinal numbers in the whole recording."""
        counts: Counter[_Place] = Counter()
        for reply in replies:
            place = _place(reply)
            times = self._times.get(place, ()) if reply.event_id else ()
            number = counts[place]
            counts[place] += 1
            yield replace(reply, occurrence=times[number]) if number < len(times) else reply


def key_of(check: Check) -> Key:
    """Return the key of the golden's entry for a check."""
    return Key(check.plugin, check.subject or SESSION, check.event)


def _check(mismatch: Mismatch, event_id: int, crash: str) -> Check:
    key = mismatch.key
    return Check(
        f"golden {mismatch.kind}",
        key.plugin,
        key.event,
        "" if key.subject == SESSION else key.subject,
        _difference(mismatch) + crash,
        event_id,
        text=f"{key}: {_WORDS[mismatch.kind]}",
    )


def _difference(mismatch: Mismatch) -> str:
    """Describe the actual values; the expected ones are the same in each replay."""
    if mismatch.kind is MismatchKind.DIFFERS:
        return to_json([[each.path, each.got] for each in mismatch.differences])
    return to_json(mismatch.got) if mismatch.kind is MismatchKind.MISSING else ""


def _place(reply: Reply) -> _Place:
    return reply.plugin, reply.event_id, reply.event


def _numbers_of(whole: Replayed) -> dict[tuple[str, str], int]:
    """Return event numbers by subject and event, with repetitions named as in goldens."""
    numbers: dict[tuple[str, str], int] = {}
    counts: Counter[tuple[str, str]] = Counter()
    for played in whole.events:
        if not played.event_id:
            continue
        key = (played.subject or SESSION, played.event)
        counts[key] += 1
        times = counts[key]
        name = played.event if times == 1 else f"{played.event}#{times}"
        numbers[key[0], name] = played.event_id
    return numbers
