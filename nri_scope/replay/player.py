# SPDX-License-Identifier: Apache-2.0
"""Playing a script to the plugins of an emulated runtime, event by event."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Protocol, cast

from google.protobuf.message import Message

from nri_scope import oci
from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import AdjustmentRefused, UsageError
from nri_scope.nri.events import Event
from nri_scope.nri.merging import Creation, Updating
from nri_scope.nri.subject import container_of, pod_of
from nri_scope.runtime import Answer, Course, Outcome, Runtime

from .faults import NONE, Faults
from .judge import Judge
from .ledger import Ledger
from .model import Reply
from .pace import Wait, at_once
from .result import PlayedEvent
from .script import Script, Step
from .world import World


class _Asking(Protocol):
    """A reply that may ask for updates of other containers."""

    @property
    def update(self) -> Iterable[api.ContainerUpdate]: ...


@dataclass(frozen=True, slots=True)
class Manner:
    """How a script is played."""

    wait: Wait = field(default=at_once)
    faults: Faults = NONE
    effects: bool = True
    """Off: every request goes byte for byte as it was recorded."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Where it is played."""

    runtime: Runtime
    world: World
    ledger: Ledger
    judge: Judge
    begin: Callable[[PlayedEvent], None]
    """Hears of each event before anybody is asked; it is filled in while it is played."""
    restart: Callable[[], Awaitable[None]]
    """Restarts the runtime, and returns once the plugins are back that come back."""
    reconnect: Callable[[], Awaitable[None]]
    """The same after all connections were closed."""


class Player:
    """Plays one script once."""

    def __init__(self, script: Script, stage: Stage, manner: Manner) -> None:
        self._script = script
        self._stage = stage
        self._manner = manner
        self._world = stage.world
        self._course = self._new_course()
        self._played = 0

    async def play(self) -> None:
        """Play all of it. Raises `UsageError` for what cannot be played."""
        faults = self._manner.faults
        if faults.unknown_event:
            await self._unknown_event()
        for step, wanted in faults.arranged(self._script.steps()):
            if not wanted:
                self._follow(step)
                continue
            await self._manner.wait(step)
            await self._step(step)
            self._played += 1
            if self._played in faults.drop_after:
                await self._drop_connections()
            if self._played in faults.restart_after:
                self._note("restart-runtime", "the runtime restarts")
                await self._stage.restart()
                self._course = self._new_course()
            # Plugins that print, or ask for updates by themselves, have their turn.
            await asyncio.sleep(0)

    def _new_course(self) -> Course:
        course = Course(self._stage.runtime.profile)
        course.synchronized(self._world.state()[1])
        return course

    def _follow(self, step: Step) -> None:
        if step.event is not None and step.message is not None:
            self._world.happened(step.event, self._world.shown(step.event, step.message))

    # -- one event ----------------------------------------------------------------------------

    async def _step(self, step: Step) -> None:
        recorded = step.recorded
        if step.event is None or step.message is None or not self._manner.effects:
            played = PlayedEvent(recorded.id, recorded.event, step.subject, recorded.at_ns)
            self._stage.begin(played)
            await self._send_raw(played, step)
            if step.event is not None and step.message is not None:
                self._world.happened(step.event, step.message)
            return
        if not self._world.knows(step.event, step.message):
            raise UsageError(
                f"event {recorded.id}, {step.event.name}, is about {step.subject}, of which "
                "neither Synchronize nor a CreateContainer told",
                "leave it out with --where, or play everything as it is with --no-effects",
            )
        shown = self._world.shown(step.event, step.message)
        for part in self._course.happens(step.event, shown):
            played = PlayedEvent(
                0 if part.own else recorded.id,
                part.event.name,
                step.subject,
                0 if part.own else recorded.at_ns,
                skipped=part.skipped,
            )
            self._stage.begin(played)
            if not part.skipped:
                await self._operate(played, part.event, part.request, recorded.timeout_ns)

    async def _operate(
        self, played: PlayedEvent, event: Event, request: Message, timeout_ns: int = 0
    ) -> None:
        outcome = await self._stage.runtime.operate(event, request, timeout_ns=timeout_ns)
        if event in self._manner.faults.error and not outcome.failure:
            played.fault = f"{event.name} fails, after its plugins were asked"
            outcome.failure = "injected by --fault"
        elif event in self._manner.faults.slow:
            seconds = self._manner.faults.slow[event]
            played.fault = f"each reply is {seconds:g} s on its way"
        played.skipped = outcome.skipped
        played.failure = outcome.failure or outcome.error
        played.dropped = outcome.dropped
        for answer in outcome.answers:
            played.replies.append(self._reply(played, answer, _refusal(outcome, answer)))
        for answer in outcome.validations:
            name = Event.ValidateContainerAdjustment.name
            judged = self._reply(played, answer, _refusal(outcome, answer), name)
            played.replies.append(judged)
        if event is Event.CreateContainer and not outcome.failure:
            played.failure = outcome.failure = _refused_by_runtime(outcome, request)
        self._take_effect(played, event, request, outcome)
        if outcome.failure:
            for part in self._course.failed(event, request):
                undone = PlayedEvent(0, part.event.name, played.subject, 0)
                self._stage.begin(undone)
                await self._operate(undone, part.event, part.request)

    def _reply(
        self,
        played: PlayedEvent,
        answer: Answer,
        refused: AdjustmentRefused | None,
        event: str = "",
    ) -> Reply:
        judged = answer if refused is None else replace(answer, error=refused)
        return self._stage.judge.reply(
            judged, played.event_id, event or played.event, played.subject, answer.timeout_ns
        )

    def _take_effect(
        self, played: PlayedEvent, event: Event, request: Message, outcome: Outcome
    ) -> None:
        world, ledger = self._world, self._stage.ledger
        done = not outcome.failure
        container = container_of(event.name, request)
        if event is Event.CreateContainer and container is not None:
            pod = pod_of(event.name, request)
            wanted = [
                (answer.plugin, reply.adjust)
                for answer in outcome.answers
                if isinstance(reply := answer.reply, api.CreateContainerResponse)
                and reply.HasField("adjust")
            ]
            merged = outcome.merged
            if done and isinstance(merged, Creation):
                world.happened(event, request)
                world.created(container, merged.adjustment)
                played.changes += ledger.created(container, pod, wanted, merged.adjustment)
                played.dropped += ledger.remarks(container, pod, wanted)
            else:
                world.not_created(container)
                played.changes += ledger.created(container, pod, wanted, None)
        elif done:
            world.happened(event, request)
        asked = list(_asked(outcome))
        if isinstance(outcome.merged, Updating) and done and container is not None:
            own = [one for one in asked if one[1].container_id == container.id]
            asked = [one for one in asked if one[1].container_id != container.id]
            wanted_resources = cast("api.UpdateContainerRequest", request).linux_resources
            resources = outcome.merged.resources
            played.changes += ledger.resources(container.id, wanted_resources, own, resources)
            world.update(container.id, resources)
        for update in outcome.updates:
            world.update(update.container_id, update.linux.resources)
        played.changes += ledger.updated(asked, outcome.updates)

    # -- what does not go by the book ---------------------------------------------------------

    async def _send_raw(self, played: PlayedEvent, step: Step) -> None:
        answers = await self._stage.runtime.send(
            step.recorded.method, step.request, timeout_ns=step.recorded.timeout_ns
        )
        played.replies = [self._reply(played, answer, None) for answer in answers]

    async def _unknown_event(self) -> None:
        played = PlayedEvent(0, "unknown event", "", 0, fault="an event of a later NRI version")
        self._stage.begin(played)
        answers = await self._stage.runtime.send_unknown()
        played.replies = [self._reply(played, answer, None) for answer in answers]

    async def _drop_connections(self) -> None:
        self._note("drop-connection", "the runtime closes every connection")
        for plugin in self._stage.runtime.plugins:
            plugin.drop("closed by the runtime, as --fault drop-connection wants")
        await self._stage.reconnect()

    def _note(self, event: str, text: str) -> None:
        self._stage.begin(PlayedEvent(0, event, "", 0, fault=text))


def _refusal(outcome: Outcome, answer: Answer) -> AdjustmentRefused | None:
    """What a runtime refused of a reply that was fine by itself."""
    if outcome.refused and outcome.culprit == answer.plugin and answer.error is None:
        return AdjustmentRefused(outcome.failure or outcome.error)
    return None


def _refused_by_runtime(outcome: Outcome, request: Message) -> str:
    """Why the runtime cannot make a spec of what was merged, in its words; "" where it can."""
    container = container_of(Event.CreateContainer.name, request)
    if not isinstance(outcome.merged, Creation) or container is None:
        return ""
    found = oci.remarks(outcome.merged.adjustment, oci.spec_of(container))
    return next((one.reason for one in found if one.kind == "refused"), "")


def _asked(outcome: Outcome) -> Iterable[tuple[str, api.ContainerUpdate]]:
    """The updates that plugins asked for, in order."""
    for answer in outcome.answers:
        reply = answer.reply
        if reply is not None and "update" in reply.DESCRIPTOR.fields_by_name:
            for update in cast("_Asking", reply).update:
                yield answer.plugin, update
