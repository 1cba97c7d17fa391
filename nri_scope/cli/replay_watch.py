# SPDX-License-Identifier: Apache-2.0
"""``replay --watch``: build and replay on every save, and print what differs."""

from __future__ import annotations

from collections.abc import Iterable

from nri_scope.debugger.run_differences import count_words, run_differences
from nri_scope.debugger.watch import Watch
from nri_scope.errors import NriScopeError
from nri_scope.recording.display import duration
from nri_scope.replay.progress import ReplayListener
from nri_scope.replay.result import Replayed
from nri_scope.replay.run import Job, replay
from nri_scope.text.escape import safe
from nri_scope.text.styled_text import Style, styled

from .output import Output
from .replay_job import PrintedEvents, printing, run_interruptibly


def perform_watched(job: Job, watch: Watch, events: PrintedEvents) -> None:
    """Replay and print the result; then the same, but only the differences, on every save.

    ``events``: the events of the first replay to print.
    """
    with Output() as output:
        try:
            run_interruptibly(lambda: _WatchedReplays(output, job, watch, events).run())
        except KeyboardInterrupt:
            # This is how it ends.
            output.line("")


class _WatchedReplays:
    def __init__(self, output: Output, job: Job, watch: Watch, events: PrintedEvents) -> None:
        self._output = output
        self._job = job
        self._watch = watch
        self._events = events
        self._before: Replayed | None = None

    async def run(self) -> None:
        """Replay on every save, until cancelled."""
        text, audience = printing(self._output, self._job, self._events)
        now = await self._replayed(audience)
        if now is not None:
            self._print([*text.containers(now), *text.summary(now)])
        while True:
            self._print(["", styled(Style.DIM, "waiting for a save; ^C ends")])
            await self._watch.saved()
            result = await self._watch.build()
            if not result.is_ok:
                words = f"the build failed, {result.problem}; the previous plugin stays"
                self._print([styled(Style.BAD, words), *(f"  {one}" for one in result.lines)])
                continue
            before = self._before
            now = await self._replayed(ReplayListener())
            if now is not None:
                self._print_differences(before, now)

    async def _replayed(self, audience: ReplayListener) -> Replayed | None:
        """Replay; print the error and return None if the plugin does not start."""
        try:
            now = await replay(self._job, audience)
        except NriScopeError as error:
            self._print([styled(Style.BAD, safe(str(error), self._output.width))])
            return None
        self._before = now
        return now

    def _print_differences(self, before: Replayed | None, now: Replayed) -> None:
        replies = [] if before is None else list(before.replies())
        found = list(run_differences(replies, now.replies(), now.name_of))
        failures = [] if now.ok else [safe(one, self._output.width) for one in now.failures()]
        words = count_words(found) if found else "all replies equal those of the run before"
        title = f"{words}, in {duration(now.playing_ns)}"
        style = Style.BAD if failures else Style.STRONG
        self._print([styled(style, title), *found, *(styled(Style.BAD, one) for one in failures)])

    def _print(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._output.line(line)
        self._output.flush()
