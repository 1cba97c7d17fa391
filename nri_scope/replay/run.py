# SPDX-License-Identifier: Apache-2.0
"""A whole replay: recording in, plugins up, events played, result out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic_ns

from google.protobuf.message import DecodeError

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import UsageError
from nri_scope.nri.merging import Dropped, unsolicited
from nri_scope.recorder.reader import Recording
from nri_scope.runtime import (
    RECORDED,
    Answer,
    Exchange,
    Plugin,
    Profile,
    Runtime,
    profile_named,
    synchronize_parts,
)
from nri_scope.runtime.dispatch import event_of

from .cast import Cast, Casting
from .golden import fingerprint
from .judge import Judge
from .ledger import Ledger
from .player import Manner, Player, Stage
from .result import Line, PlayedEvent, Replayed
from .script import Choice, Script
from .tape import Tape
from .world import World

_PARTS = 3
"""Into about so many parts --fault split-sync splits a state."""


@dataclass(frozen=True, slots=True)
class Job:
    """Everything that a replay needs to know."""

    recording: Path
    casting: Casting
    choice: Choice = field(default_factory=Choice)
    manner: Manner = field(default_factory=Manner)
    profile: str = RECORDED
    rounds: int = 1
    """How often everything is played, the runtime restarting in between."""
    output: Path | None = None
    """A recording to make of the run."""


async def replay(
    job: Job, on_event: Callable[[PlayedEvent], None] = lambda event: None
) -> Replayed:
    """Replay, and tell ``on_event`` of each event once the next one begins.

    Raises `UsageError` where it cannot be done, and `RecordingError` for the recording's faults.
    """
    began_ns = monotonic_ns()
    with ExitStack() as stack:
        recording = stack.enter_context(Recording.open(job.recording))
        script = Script(recording, job.choice)
        profile = profile_named(job.profile, script.profile)
        _check(job, profile)
        tape = None
        if job.output is not None:
            if job.output.exists() or job.output.is_symlink():
                raise UsageError(
                    f"{job.output}: there is such a file already", "choose a new name after -o"
                )
            tape = Tape(job.output, profile)
            stack.callback(tape.close)
        performance = _Performance(job, script, profile, tape, on_event)
        result = await performance.perform()
    result.took_ns = monotonic_ns() - began_ns
    return result


def _check(job: Job, profile: Profile) -> None:
    if not job.manner.effects and job.profile != RECORDED:
        raise UsageError(
            f"--no-effects plays what was recorded as it was, not as {job.profile} would send it",
            "leave one of the two out",
        )
    if job.manner.faults.split_sync and not profile.split_sync:
        raise UsageError(
            f"{profile.title} never splits Synchronize, so --fault split-sync cannot be",
            "choose another --profile",
        )
    twice = {one.id for one in job.casting.plugins}
    if len(twice) < len(job.casting.plugins):
        raise UsageError("two plugins have the same index and name", "give one another index")


class _Performance:
    def __init__(
        self,
        job: Job,
        script: Script,
        profile: Profile,
        tape: Tape | None,
        on_event: Callable[[PlayedEvent], None],
    ) -> None:
        self._job = job
        self._script = script
        self._tape = tape
        self._on_event = on_event
        self._judge = Judge()
        session = script.session
        self._runtime_words = f"{session.runtime_name} {session.runtime_version}"
        self.result = Replayed(
            source=f"session {session.id}, {session.plugin} on {self._runtime_words}",
            fingerprint="",
            profile=profile.name,
        )
        self._setup = _SetUp(profile)
        self._cast = Cast(job.casting, self._printed, self._last_event)
        self._began_ns = monotonic_ns()
        self._begin(PlayedEvent(0, "RegisterPlugin", "", 0))
        self._prepare_world()
        self._runtime = Runtime(
            self._setup,
            on_new=self._new_plugin,
            on_ready=self._ready,
            on_end=self._ended,
            on_update=self._unsolicited,
            sync_part_max=self._part_max() if job.manner.faults.split_sync else None,
        )

    async def perform(self) -> Replayed:
        """Everything between opening the recording and having the result."""
        job, result = self._job, self.result
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._runtime)
            stack.callback(self._cast.leave)
            await self._cast.enter(self._runtime)
            for number in range(job.rounds):
                if number:
                    self._prepare_world()
                    await self._restart()
                playing_ns = monotonic_ns()
                stage = Stage(
                    self._runtime,
                    self._world,
                    self._ledger,
                    self._judge,
                    self._begin,
                    self._restart,
                    self._reconnect,
                )
                await Player(self._script, stage, job.manner).play()
                result.playing_ns += monotonic_ns() - playing_ns
        result.plugins = self._cast.results()
        if result.events:
            self._on_event(result.events[-1])
        result.fingerprint = fingerprint(self._runtime_words, self._outline())
        return result

    def name_of(self, container_id: str) -> str:
        """A container's name."""
        return self._world.name_of(container_id)

    def _prepare_world(self) -> None:
        job = self._job
        world = World.of(self._script.pods, self._script.containers, effects=job.manner.effects)
        for step in self._script.before():
            if step.event is not None and step.message is not None:
                world.happened(step.event, world.shown(step.event, step.message))
        _crowd(world, job.manner.faults.huge_sync)
        self._world = self._setup.world = world
        self._ledger = Ledger(world, self.result.containers)
        self.result.name_of = world.name_of

    def _part_max(self) -> int:
        pods, containers = self._world.state()
        return sum(one.ByteSize() for one in (*pods, *containers)) // _PARTS + 1

    # -- what the runtime tells ---------------------------------------------------------------

    def _new_plugin(self, plugin: Plugin) -> None:
        plugin.on_exchange = self._exchanged
        slow = self._job.manner.faults.slow
        if slow:

            def transit_ns(method: str, payload: bytes) -> int:
                event = event_of(method, payload)
                return int(slow.get(event, 0) * 1e9) if event is not None else 0

            plugin.transit_ns = transit_ns

    def _ready(self, plugin: Plugin) -> None:
        self._cast.ready(plugin)
        if plugin.process is not None and not self._setup.profile.synchronizes_launched:
            why = f"{self._setup.profile.title} does not synchronize plugins that it launches"
            self._begin(PlayedEvent(0, "Synchronize", "", 0, skipped=why))

    def _exchanged(self, plugin: Plugin, exchange: Exchange) -> None:
        if self._tape is not None:
            self._tape.exchanged(plugin, exchange)
        if exchange.method == "Synchronize":
            self._synchronized(plugin, exchange)

    def _synchronized(self, plugin: Plugin, exchange: Exchange) -> None:
        reply: api.SynchronizeResponse | None = None
        if exchange.error is None:
            try:
                reply = api.SynchronizeResponse.FromString(exchange.reply)
            except DecodeError:
                # The runtime finds out by itself, and drops the plugin.
                reply = None
            if reply is not None and reply.more and not reply.update:
                return
        else:
            self._cast.failed_setup(plugin)
        played = PlayedEvent(0, "Synchronize", "", 0)
        answer = Answer(
            plugin.id, "Synchronize", reply, exchange.reply, exchange.error, exchange.took_ns
        )
        played.replies.append(self._judge.reply(answer, 0, "Synchronize", "", exchange.timeout_ns))
        self._begin(played)
        if reply is not None:
            self._updates(played, plugin, reply.update)

    def _unsolicited(
        self, plugin: Plugin, request: api.UpdateContainersRequest
    ) -> api.UpdateContainersResponse:
        played = PlayedEvent(0, "UpdateContainers", "", 0)
        self._begin(played)
        self._updates(played, plugin, request.update)
        for eviction in request.evict:
            reason = "no runtime evicts"
            played.dropped.append(
                Dropped(plugin.id, eviction.container_id, "/evict", eviction.reason, reason)
            )
        return api.UpdateContainersResponse()

    def _updates(
        self, played: PlayedEvent, plugin: Plugin, asked: Iterable[api.ContainerUpdate]
    ) -> None:
        updates, dropped = unsolicited(asked, plugin.id, version=self._setup.profile.version)
        played.dropped += dropped
        played.changes += self._ledger.updated([(plugin.id, one) for one in updates], updates)
        for update in updates:
            self._world.update(update.container_id, update.linux.resources)

    def _ended(self, plugin: Plugin) -> None:
        self._cast.ended(plugin)
        if self._tape is not None:
            self._tape.ended(plugin)

    # -- keeping the result -------------------------------------------------------------------

    def _begin(self, played: PlayedEvent) -> None:
        events = self.result.events
        if events:
            self._on_event(events[-1])
        events.append(played)

    def _printed(self, line: Line) -> None:
        self.result.events[-1].output.append(line._replace(at_ns=line.at_ns - self._began_ns))

    def _last_event(self) -> int:
        return next((one.event_id for one in reversed(self.result.events) if one.event_id), 0)

    def _outline(self) -> Iterable[tuple[str, str]]:
        last = 0
        for event in self.result.events:
            if event.event_id and event.event_id != last:
                yield event.subject, event.event
            last = event.event_id or last

    # -- faults of the runtime's --------------------------------------------------------------

    async def _restart(self) -> None:
        await self._runtime.restart()
        await self._cast.restarted(self._runtime)

    async def _reconnect(self) -> None:
        await self._cast.come_back(self._runtime)


class _SetUp:
    """A plugin is told what exists in the replay's world when its turn comes."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self.world = World()

    @property
    def profile(self) -> Profile:
        """The runtime's manners."""
        return self._profile

    def configure(self, plugin: str, config: str) -> bytes:
        """The same for everyone but for the configuration."""
        return self._profile.configure_request(config).SerializeToString()

    def synchronize(self, plugin: str) -> list[bytes]:
        """The state, split where this runtime can do that."""
        pods, containers = self.world.state()
        if self._profile.split_sync:
            return synchronize_parts(pods, containers)
        return [api.SynchronizeRequest(pods=pods, containers=containers).SerializeToString()]


def _crowd(world: World, count: int) -> None:
    """Add ``count`` containers that look like one of those that are there."""
    if not count:
        return
    pod = api.PodSandbox(id="nri-scope-crowd", name="crowd", namespace="nri-scope", uid="crowd")
    model = next(iter(world.containers.values()), api.Container())
    containers: list[api.Container] = []
    for number in range(count):
        container = api.Container()
        container.CopyFrom(model)
        container.id = f"nri-scope-crowd-{number:06d}"
        container.name = f"crowd-{number}"
        container.pod_sandbox_id = pod.id
        containers.append(container)
    world.arrive([pod], containers)
