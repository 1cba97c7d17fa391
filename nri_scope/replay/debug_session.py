# SPDX-License-Identifier: Apache-2.0
"""A replay that stops before events, and goes back by replaying to a new process of the plugin."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from nri_scope.errors import NriScopeError

from .playback import SEND, PendingEvent, ReplayListener, StepDecision
from .result import PlayedEvent, Replayed
from .run import Job, replay

Breakpoint = Callable[[PendingEvent], bool]
"""Predicate for the events before which to stop."""


class DebugListener(ReplayListener):
    """Receiver of a debugger's progress. Override the methods of interest.

    After `restarting`, it receives everything again, as a new process may reply differently.
    """

    def stopped(self, pending: PendingEvent | None, position: int) -> None:
        """Handle a stop before ``pending``, or at the end if that is None.

        ``position``: number of the events before it.
        """

    def sending(self, pending: PendingEvent) -> None:
        """Handle an event that is about to be sent, also one that is sent on the way."""

    def event_sent(self, pending: PendingEvent, played: PlayedEvent) -> None:
        """Handle an event that a decision sent or skipped.

        `ReplayListener.event` was called before; ``pending`` has the request.
        """

    def restarting(self) -> None:
        """Handle the start of a new process of the plugin, to go back or to start again."""

    def failed(self, error: NriScopeError) -> None:
        """Handle an error that ended the replay, such as a plugin that does not start.

        `DebugSession.back` and `DebugSession.restart` replay again.
        """


class DebugSession:
    """Replay of a job, one event at a time.

    The commands are valid while it is stopped (`is_stopped`); others are ignored.
    """

    def __init__(self, job: Job, listener: DebugListener) -> None:
        self._job = job
        self._listener = listener
        self._history: list[StepDecision] = []
        """All decisions so far."""
        self._next = 0
        """Number of decisions that the current replay has made."""
        self._until: Breakpoint | None = None
        self._decision: asyncio.Future[StepDecision] | None = None
        self._replay: asyncio.Task[Replayed] | None = None
        self._wanted = asyncio.Event()
        """Set by commands that begin or end a replay."""
        self._is_at_end = False
        self._is_sending = False
        """Whether the last decision made is being carried out."""
        self._is_over = False
        self.is_catching_up = False
        """Whether events before the position of the last command are being replayed."""
        self.result: Replayed | None = None
        """The result, if the replay was ended at its end."""

    @property
    def is_stopped(self) -> bool:
        """Whether the replay waits for a command."""
        return self._decision is not None and not self._decision.done()

    @property
    def is_ending(self) -> bool:
        """Whether the replay was cancelled, and still reports the event it was cancelled at."""
        return self._wanted.is_set()

    @property
    def position(self) -> int:
        """Number of events before the pending one, those that were sent again excluded."""
        return sum(not event.again for event in self._history[: self._next])

    async def run(self) -> None:
        """Replay until `quit`."""
        while not self._is_over:
            self._next, self._wanted, self._is_sending = 0, asyncio.Event(), False
            playback = replace(self._job.playback, control=self)
            self._replay = asyncio.create_task(
                replay(replace(self._job, playback=playback), self._listener)
            )
            try:
                self.result = await self._replay
            except NriScopeError as error:
                self._listener.failed(error)
                await self._wanted.wait()
            except asyncio.CancelledError:
                if not self._wanted.is_set():
                    # `run` itself was cancelled.
                    self._replay.cancel()
                    await asyncio.wait({self._replay})
                    raise
            finally:
                self._decision = None

    # -- commands -----------------------------------------------------------------------------

    def step(self, decision: StepDecision = SEND) -> None:
        """Carry out the decision on the pending event, and stop before the next one."""
        self._decide(decision)

    def go_on(self, until: Breakpoint = lambda pending: False) -> None:
        """Send events up to one for which ``until`` is true, or to the end; at least one."""
        if self.is_stopped:
            self._until = until
            self._decide(SEND)

    def back(self, events: int = 1) -> None:
        """Replay to a new process of the plugin, with the decisions made except the last ones."""
        while self._history and events > 0:
            # An event that was sent again belongs to the one before.
            events -= not self._history.pop().again
        self._begin()

    def restart(self, job: Job | None = None) -> None:
        """Replay from the start to where it is, to a new process of the plugin.

        An event whose reply is missing is not sent again: it may be where the plugin hangs.
        """
        if job is not None:
            self._job = job
        if self._is_sending and not self.is_catching_up:
            self._history.pop()
        self._begin()

    def pause(self) -> None:
        """Stop before the next event."""
        self._until = None

    def quit(self) -> None:
        """End the replay, at its end with a result."""
        self._is_over = True
        if self._is_at_end and self.is_stopped:
            self._decide(SEND)
        else:
            self._begin()

    def _decide(self, decision: StepDecision) -> None:
        if self._decision is not None and not self._decision.done():
            self._decision.set_result(decision)

    def _begin(self) -> None:
        self._until = None
        self.is_catching_up = True
        self._wanted.set()
        if not self._is_over:
            self._listener.restarting()
        if self._replay is not None:
            self._replay.cancel()

    # -- control of the replay ----------------------------------------------------------------

    async def before(self, pending: PendingEvent | None) -> StepDecision:
        """Return the next decision: one made before, or that of the next command."""
        if pending is not None and self._next < len(self._history):
            decision = self._history[self._next]
        elif pending is not None and self._until is not None and not self._until(pending):
            decision = SEND
        else:
            decision = await self._stop(pending)
        if self._next == len(self._history):
            self._history.append(decision)
        self._next += 1
        self._is_sending = True
        if pending is not None and not decision.again:
            self._listener.sending(pending)
        return decision

    def after(self, pending: PendingEvent, played: PlayedEvent) -> None:
        """Report the event with its request."""
        self._listener.event_sent(pending, played)

    async def _stop(self, pending: PendingEvent | None) -> StepDecision:
        """Return the decision of the next command."""
        # At the end, decisions about events that no longer exist are void.
        del self._history[self._next :]
        self._until, self.is_catching_up, self._is_at_end = None, False, pending is None
        self._is_sending = False
        while True:
            self._decision = asyncio.get_running_loop().create_future()
            self._listener.stopped(pending, self.position)
            decision = await self._decision
            if pending is not None or decision.again or self._is_over:
                return decision
