# SPDX-License-Identifier: Apache-2.0
"""Play a script to the plugins of an emulated runtime, event by event."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Generic, TypeVar

from google.protobuf.message import Message

from nri_scope.end_reasons import RUNTIME, RUNTIME_RESTARTS, closed_by
from nri_scope.nri.events import EventKind
from nri_scope.nri.request_subject import container_of, pod_of
from nri_scope.runtime import (
    RECORDED,
    Answer,
    EmulatedRuntime,
    LifecycleState,
    LifecycleStep,
    OperationResult,
)

from .applied_replies import Effects
from .faults import INJECTED, InjectedFaults
from .playback import (
    ANSWERED,
    EDITED,
    SENT_AGAIN,
    SKIPPED,
    PendingEvent,
    PlaybackOptions,
    ReplayProgress,
    StepControl,
    StepDecision,
    pause_s,
)
from .plugins import ReplayPlugins
from .replies import Judge, Reply
from .result import PlayedEvent
from .script import ReplayStep, Script
from .world import World

T = TypeVar("T")


class ReadAhead(Generic[T]):
    """Iterator whose next item can be fetched early."""

    def __init__(self, items: Iterator[T]) -> None:
        self._items = items
        self._fetched: list[T] = []
        self._error: Exception | None = None
        """Exception to raise in place of the next item, including StopIteration."""

    def fetch(self) -> None:
        """Fetch the next item, unless already fetched. Its exception is raised by ``next``."""
        if self._fetched or self._error is not None:
            return
        try:
            self._fetched.append(next(self._items))
        except Exception as error:  # noqa: BLE001 - it belongs to the consumer of the item
            self._error = error

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        self.fetch()
        if self._error is not None:
            raise self._error
        return self._fetched.pop()


@dataclass(frozen=True, slots=True)
class ReplayParts:
    """Objects that a player uses."""

    runtime: EmulatedRuntime
    plugins: ReplayPlugins
    world: World
    effects: Effects
    judge: Judge
    progress: ReplayProgress
    faults: InjectedFaults


@dataclass(frozen=True, slots=True)
class _ControlledEvent:
    """An event that is sent as a caller decides."""

    control: StepControl
    step: ReplayStep
    played: PlayedEvent
    """What becomes of the event when it is sent or skipped for the first time."""
    part: LifecycleStep | None = None
    """The event and request of the profile; None to send the request as recorded."""


class Player:
    """Single playback of one script."""

    def __init__(self, script: Script, parts: ReplayParts, playback: PlaybackOptions) -> None:
        self._script = script
        self._parts = parts
        self._playback = playback
        self._faults = playback.faults
        self._world = parts.world
        self._progress = parts.progress
        self._course = LifecycleState(parts.runtime.profile)
        # Pods listed in Synchronize started before the plugins connected.
        pods, containers = self._world.state()
        self._course.note_pods(pods)
        self._course.note_containers(containers)
        self._played = 0
        self._before_ns: int | None = None
        """Time of the event before, from which a pause is measured."""
        self._controlled: _ControlledEvent | None = None
        """The newest event, which may be sent again."""

    async def play(self) -> None:
        """Play the whole script. Raises `UsageError` for events that cannot be played."""
        if self._faults.unknown_event:
            await self._unknown_event()
        injected = self._parts.faults
        steps = ReadAhead(injected.arranged(self._script.steps()))

        def meanwhile() -> None:
            """Run deferred work while the first plugin works on its reply."""
            self._progress.settle()
            steps.fetch()

        self._progress.meanwhile = meanwhile
        for step in steps:
            if step.selected and self._playback.speed is not None and not step.restarts:
                self._progress.settle()
                await self._pause(self._playback.speed, step.recorded.at_ns)
            if step.restarts and step.selected:
                self._progress.settle()
                self._progress.note("restart-runtime", note=RUNTIME_RESTARTS)
                await self._restart()
            if not step.selected or step.restarts:
                self._follow(step)
                continue
            await self._step(step)
            self._played += 1
            await self._inject_runtime_faults()
            # Let unsolicited updates of plugins be processed.
            await asyncio.sleep(0)
        self._progress.settle()
        if self._playback.control is not None:
            await self._decide(self._playback.control, None)
        for fault, after in (
            ("drop-connection", self._faults.drop_after),
            ("restart-runtime", self._faults.restart_after),
        ):
            for number in sorted(after):
                if number > self._played:
                    unreached = f"after={number} was not reached: only {self._played} events"
                    self._progress.note(fault, unreached)
        for unmatched in injected.unmatched():
            self._progress.note("fault", f"no event matched {unmatched.text}")

    async def _pause(self, speed: float, at_ns: int) -> None:
        if self._before_ns is not None:
            idle_s = pause_s(self._before_ns, at_ns, speed)
            await asyncio.sleep(min(idle_s, self._playback.max_idle_s))
        self._before_ns = at_ns

    def _follow(self, step: ReplayStep) -> None:
        if step.event is None or step.message is None:
            return
        request = self._world.shown(step.event, step.message)
        if step.skipped_by:
            played = self._played_of(step)
            played.skipped = step.skipped_by
            self._progress.tell(played)
        if self._world.applies(step.event, request):
            self._world.happened(step.event, request)

    # -- one event ----------------------------------------------------------------------------

    async def _step(self, step: ReplayStep) -> None:
        recorded = step.recorded
        control = self._playback.control
        if step.event is None or step.message is None or not self._playback.effects:
            if control is None:
                await self._send_raw(step)
            else:
                played = self._played_of(step)
                await self._play_controlled(_ControlledEvent(control, step, played))
            return
        self._world.check_known(recorded.id, step.event, step.message, step.subject)
        adjusted = self._world.shown(step.event, step.message)
        for part in self._course.steps_of(step.event, adjusted):
            played = PlayedEvent(
                0 if part.added else recorded.id,
                part.event.name,
                step.subject,
                0 if part.added else recorded.at_ns,
                fault=step.altered_by,
            )
            if part.skipped:
                self._skip(played, part, part.skipped)
            elif control is None:
                await self._operate(played, part.event, part.request, self._timeout_ns(step))
            else:
                await self._play_controlled(_ControlledEvent(control, step, played, part))

    def _skip(self, played: PlayedEvent, part: LifecycleStep, reason: str) -> None:
        played.skipped = reason
        self._progress.begin(played)
        self._progress.end()
        created = container_of(part.event.name, part.request)
        if part.skipped and part.event is EventKind.CreateContainer and created is not None:
            self._world.not_created(created, pod_of(part.event.name, part.request))
        elif self._world.applies(part.event, part.request):
            self._world.happened(part.event, part.request)

    # -- control of each event ----------------------------------------------------------------

    async def _decide(self, control: StepControl, event: _ControlledEvent | None) -> StepDecision:
        """Return the decision on an event, after sending the one before as requested."""
        while True:
            self._progress.settle()
            decision = await control.before(None if event is None else self._pending(event))
            if not decision.again:
                return decision
            if self._controlled is not None:
                await self._send_controlled(self._controlled, decision, again=True)

    def _pending(self, event: _ControlledEvent) -> PendingEvent:
        step, part, played = event.step, event.part, event.played
        subscribed, request = step.event, None
        if part is not None:
            # The event before may have been sent again, with other effects.
            subscribed, request = part.event, self._world.shown(part.event, part.request)
        present = self._parts.runtime.plugins
        plugins = tuple(plugin.id for plugin in present if plugin.subscribes(subscribed))
        processes = tuple(
            (plugin.id, plugin.process.pid) for plugin in present if plugin.process is not None
        )
        return PendingEvent(
            played.event_id, played.event, step.subject, step, request, plugins, processes
        )

    async def _play_controlled(self, event: _ControlledEvent) -> None:
        decision = await self._decide(event.control, event)
        self._controlled = event
        if not decision.skip:
            await self._send_controlled(event, decision)
            return
        if event.part is not None:
            self._skip(event.played, event.part, SKIPPED)
        else:
            event.played.skipped = SKIPPED
            self._progress.tell(event.played)
        event.control.after(self._pending(event), event.played)

    async def _send_controlled(
        self, event: _ControlledEvent, decision: StepDecision, *, again: bool = False
    ) -> None:
        pending, part, played = self._pending(event), event.part, event.played
        if part is None:
            event.control.after(pending, await self._send_raw(event.step))
            return
        if again:
            played = PlayedEvent(
                played.event_id, played.event, played.subject, played.at_ns, note=SENT_AGAIN
            )
        request = pending.request if decision.request is None else decision.request
        assert request is not None
        edited = EDITED if decision.request is not None else ""
        answered = f"{ANSWERED} {', '.join(decision.answers)}" if decision.answers else ""
        played.note = ", ".join(filter(None, (played.note, edited, answered)))
        plugins = self._parts.runtime.plugins
        for plugin in plugins:
            answer = decision.answers.get(plugin.id)
            plugin.substitute = None if answer is None else (part.event, answer)
        try:
            await self._operate(played, part.event, request, self._timeout_ns(event.step))
        finally:
            for plugin in plugins:
                plugin.substitute = None
        self._progress.settle()
        event.control.after(replace(pending, request=request), played)

    async def _operate(
        self,
        played: PlayedEvent,
        event: EventKind,
        request: Message,
        timeout_ns: int = 0,
        *,
        undoes: bool = False,
    ) -> None:
        self._progress.begin(played)
        self._parts.faults.begin(played.subject)
        outcome = await self._parts.runtime.operate(
            event, request, timeout_ns=timeout_ns, undoes=undoes
        )
        self._progress.settle()
        refusal, refused_plugin = "", ""
        if event is EventKind.CreateContainer and not outcome.failure:
            refusal, refused_plugin = self._parts.effects.refusal(request, outcome)
            outcome.failure = refusal
        elif event is EventKind.StartContainer and not outcome.failure:
            outcome.failure = self._parts.effects.start_failure(event, request)
        self._inject_faults(played, event, outcome)
        work = self._parts.effects.of(played, event, request, outcome)
        if event is EventKind.CreateContainer and (
            start_failure := self._parts.effects.start_failure(event, request)
        ):
            problem = f"{played.subject} does not start: {start_failure}"
            self._progress.result.tally.fail(problem)
        played.failure, played.logged = outcome.failure, outcome.error or played.logged
        if not (outcome.failure or outcome.refused or outcome.lost):
            self._parts.plugins.read_output()
            self._progress.end_later(partial(self._complete, played, outcome, work))
            return
        work()
        played.dropped += outcome.dropped
        for answer in outcome.answers:
            refused = self._refused(outcome, answer) or (
                refusal if answer.plugin == refused_plugin else ""
            )
            played.replies.append(await self._reply(played, answer, played.event, refused))
        for answer in outcome.validations:
            name = EventKind.ValidateContainerAdjustment.name
            refused = self._refused(outcome, answer)
            played.replies.append(await self._reply(played, answer, name, refused))
        if refusal and not refused_plugin:
            self._progress.result.tally.fail(f"{played.event} {played.subject}: {refusal}")
        self._end()
        if outcome.failure:
            for part in self._course.steps_after_failure(event, request):
                undone = PlayedEvent(0, part.event.name, played.subject, 0)
                await self._operate(undone, part.event, part.request, undoes=True)

    def _complete(
        self, played: PlayedEvent, outcome: OperationResult, work: Callable[[], None]
    ) -> None:
        """Complete an ordinary event: nothing failed, no reply was refused, no plugin was lost."""
        work()
        played.dropped += outcome.dropped
        for answer in outcome.answers:
            played.replies.append(self._judged(played, answer, played.event))
        for answer in outcome.validations:
            name = EventKind.ValidateContainerAdjustment.name
            played.replies.append(self._judged(played, answer, name))

    def _inject_faults(
        self, played: PlayedEvent, event: EventKind, outcome: OperationResult
    ) -> None:
        injected = self._parts.faults
        if not outcome.failure and not outcome.error and injected.fails(event):
            self._fail(played, outcome)
        played.fault = ", ".join(filter(None, (played.fault, injected.delay_words())))

    def _fail(self, played: PlayedEvent, outcome: OperationResult) -> None:
        """Handle an error reply of an additional last plugin as this runtime does."""
        rules = self._parts.runtime.profile.dispatch_rules
        if rules.closes_on_error:
            # The replies of the other plugins are applied nevertheless.
            played.logged = INJECTED
        else:
            outcome.fail(rules, INJECTED)

    def _refused(self, outcome: OperationResult, answer: Answer) -> str:
        """Return the runtime's reason for rejecting a valid reply; "" if it did not."""
        if not outcome.refused or outcome.culprit != answer.plugin or answer.error is not None:
            return ""
        rules = self._parts.runtime.profile.dispatch_rules
        prefix = rules.failure_prefixes.get(outcome.event, "")
        return (outcome.failure or outcome.error).removeprefix(prefix)

    async def _reply(
        self, played: PlayedEvent, answer: Answer, event: str, refused: str = ""
    ) -> Reply:
        lost = await self._parts.plugins.lost(answer.plugin) if answer.dropped else ""
        return self._judged(played, answer, event, refused, lost)

    def _judged(
        self, played: PlayedEvent, answer: Answer, event: str, refused: str = "", lost: str = ""
    ) -> Reply:
        return self._parts.judge.reply(
            answer, played.event_id, event, played.subject, refused=refused, lost=lost
        )

    def _timeout_ns(self, step: ReplayStep) -> int:
        """Return the recorded timeout, or 0 if the replay uses that of an option or a profile."""
        is_recorded = self._parts.runtime.profile.name == RECORDED
        is_recorded = is_recorded and self._playback.timeout_s is None
        return step.recorded.timeout_ns if is_recorded else 0

    def _end(self) -> None:
        self._parts.plugins.read_output()
        self._progress.end()

    # -- faults and unknown events ------------------------------------------------------------

    async def _send_raw(self, step: ReplayStep) -> PlayedEvent:
        recorded = step.recorded
        played = self._played_of(step)
        self._progress.begin(played)
        self._parts.faults.begin(played.subject)
        answers = await self._parts.runtime.send(
            recorded.method, step.request, timeout_ns=self._timeout_ns(step)
        )
        await self._answered(played, answers)
        if step.event is not None and step.message is not None:
            self._world.happened(step.event, step.message)
        return played

    def _played_of(self, step: ReplayStep) -> PlayedEvent:
        recorded = step.recorded
        return PlayedEvent(
            recorded.id, recorded.event, step.subject, recorded.at_ns, fault=step.altered_by
        )

    async def _unknown_event(self) -> None:
        played = PlayedEvent(0, "unknown event", "", 0, fault="an event of a later NRI version")
        self._progress.begin(played)
        await self._answered(played, await self._parts.runtime.send_unknown())

    async def _answered(self, played: PlayedEvent, answers: Sequence[Answer]) -> None:
        for answer in answers:
            played.replies.append(await self._reply(played, answer, played.event))
        self._end()

    async def _inject_runtime_faults(self) -> None:
        """Apply the runtime faults that are due after this number of events."""
        if self._played in self._faults.drop_after:
            self._progress.note("drop-connection", "the runtime closes every connection")
            await self._parts.plugins.disconnect(
                f"{closed_by(RUNTIME)} because of --fault drop-connection"
            )
        if self._played in self._faults.restart_after:
            self._progress.note("restart-runtime", RUNTIME_RESTARTS)
            await self._restart()

    async def _restart(self) -> None:
        await self._parts.plugins.restart()
        self._course = LifecycleState(self._parts.runtime.profile)
        self._course.note_containers(self._world.state()[1])
