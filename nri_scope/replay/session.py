# SPDX-License-Identifier: Apache-2.0
"""One run of a replay, with its runtime, world and plugins, and its recording."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic_ns, time_ns

from google.protobuf.message import DecodeError

from nri_scope._gen.nri import api_pb2 as api
from nri_scope._gen.nri.api_pb2 import ConfigureResponse
from nri_scope.errors import (
    ConnectionClosed,
    DeadlineExceeded,
    NriScopeError,
    RemoteProtocolError,
    RpcError,
)
from nri_scope.events import CapturedCall, Role, Session, SessionStart
from nri_scope.nri.events import (
    CONFIGURE,
    PLUGIN_SERVICE,
    REGISTER,
    SYNCHRONIZE,
    UNSOLICITED,
    decode,
)
from nri_scope.nri.merging import Dropped, drop_evictions
from nri_scope.nri.merging.isulad import SYNCHRONIZE_IGNORED, UNSOLICITED_CRASH
from nri_scope.nri.runtime_setup import NO_POLICY
from nri_scope.nri.session import check_part_reply
from nri_scope.nri.versions import runtime_remark, runtime_words
from nri_scope.oci import runtime_rules_of
from nri_scope.recorder.writer import Recorder
from nri_scope.runtime import Answer, EmulatedRuntime, Plugin, PluginExchange, Profile, ProfileSetUp
from nri_scope.runtime.operations import event_of
from nri_scope.wire import Code

from .applied_replies import Effects
from .faults import InjectedFaults
from .golden import fingerprint
from .playback import PlaybackOptions, ReplayListener, ReplayProgress
from .player import Player, ReplayParts
from .plugins import PluginSet, ReplayPlugins
from .replies import Judge
from .result import PlayedEvent, PrintedLine, Replayed
from .script import Script
from .world import World


@dataclass(slots=True)
class SetUp(ProfileSetUp):
    """Set-up whose Synchronize lists the pods and containers of the replay's world."""

    world: World = field(default_factory=World)

    def state(self) -> tuple[list[api.PodSandbox], list[api.Container]]:
        """Return the world's pods and containers, as the runtime sends them."""
        return self.profile.lifecycle_rules.adapted_state(*self.world.state())


def size_of(world: World) -> int:
    """Return the approximate size of the world's state in Synchronize, in bytes."""
    pods, containers = world.state()
    return sum(message.ByteSize() for message in (*pods, *containers))


_PARTS = 3
"""Approximate number of parts into which --fault split-sync splits Synchronize."""


class ReplayRun:
    """Run of one replay; can be used once."""

    def __init__(
        self,
        script: Script,
        profile: Profile,
        plugin_set: PluginSet,
        playback: PlaybackOptions,
        audience: ReplayListener,
        recorder: ReplayRecorder | None,
        *,
        keep: bool,
    ) -> None:
        """Set up the replay. Raises UsageError if the script has no selected events."""
        session = script.session
        self._script = script
        self._playback = playback
        self._recorder = recorder
        self._keep = keep
        self._audience = audience
        self._faults = InjectedFaults(playback.faults)
        self._judge = Judge(playback.max_took_ns)
        self._setup = SetUp(profile)
        self._rules = runtime_rules_of(profile.runtime_name, profile.runtime_version)
        self._runtime_words = runtime_words(session.runtime_name, session.runtime_version)
        self._result = Replayed(
            source=_source(session, self._runtime_words),
            fingerprint="",
            profile=profile.name,
            title=f"{profile.title}{runtime_remark(profile.runtime_name)}",
        )
        self._progress = ReplayProgress(self._result, audience, keep)
        self._plugins = ReplayPlugins(
            plugin_set, self._printed, lambda: self._progress.last_id, audience.notice
        )
        self._began_ns = monotonic_ns()
        self._parts = 0
        self._unfinished: dict[Plugin, tuple[PlayedEvent, Answer]] = {}
        self._prepare()
        split = playback.faults.split_sync
        self._runtime = EmulatedRuntime(
            self._setup,
            on_new=self._new_plugin,
            on_ready=self._ready,
            on_end=self._ended,
            on_update=self._unsolicited,
            sync_part_max=size_of(self._world) // _PARTS + 1 if split else None,
            grace_s=plugin_set.grace_s,
        )
        audience.began(self._result)

    async def perform(self) -> Replayed:
        """Play the script, and return the result."""
        result = self._result
        try:
            async with AsyncExitStack() as stack:
                await stack.enter_async_context(self._runtime)
                stack.callback(self._plugins.leave)
                self._progress.note(REGISTER)
                await self._plugins.enter(self._runtime)
                playing_ns = monotonic_ns()
                await self._play()
                result.playing_ns = monotonic_ns() - playing_ns
                self._progress.settle()
        finally:
            # Report the event that could not be played, with its output.
            self._progress.end()
        result.plugins = self._plugins.results()
        if self._keep:
            result.fingerprint = fingerprint(self._runtime_words, self._outline())
        return result

    async def _play(self) -> None:
        self._effects = self._new_effects()
        parts = ReplayParts(
            self._runtime,
            self._plugins,
            self._world,
            self._effects,
            self._judge,
            self._progress,
            self._faults,
        )
        await Player(self._script, parts, self._playback).play()

    def _prepare(self) -> None:
        """Set up the state before the first selected event."""
        playback = self._playback
        world = World(
            effects=playback.effects and self._rules.reports_adjustments,
            shows_devices=playback.effects and not self._rules.reports_adjustments,
            shows_rlimits=self._setup.profile.shows_rlimits,
            is_partial=self._script.is_partial,
        )
        world.arrive(self._script.pods, self._script.containers)
        for step in self._script.before():
            if step.event is not None and step.message is not None:
                world.happened(step.event, world.shown(step.event, step.message))
        self._world = self._setup.world = world
        self._result.name_of = world.name_of
        self._result.containers = {}
        self._effects = self._new_effects()

    def _new_effects(self) -> Effects:
        containers, version = self._result.containers, self._setup.profile.version
        return Effects(self._world, containers, self._rules, version, keep=self._keep)

    # -- notifications of the runtime ---------------------------------------------------------

    def _new_plugin(self, plugin: Plugin) -> None:
        plugin.on_exchange = self._exchanged
        plugin.on_sent = self._progress.sent
        if self._playback.faults.slow:
            plugin.transit_ns = lambda method, payload: int(
                self._faults.delay_s(event_of(method, payload)) * 1e9
            )

    def _ready(self, plugin: Plugin) -> None:
        self._plugins.ready(plugin)
        if plugin.ignored_policy != NO_POLICY:
            why = f"{self._setup.profile.title} ignores it: it needs NRI 0.12.4"
            policy = Dropped(plugin.id, "", "/failure_policy", str(plugin.ignored_policy), why)
            self._progress.tell(PlayedEvent(0, CONFIGURE, "", 0, dropped=[policy]))
        if plugin.is_launched and not self._setup.profile.synchronizes_launched:
            runtime = self._setup.profile.title
            why = f"{runtime} sends launched plugins no Synchronize; --profile NAME+sync sends it"
            self._progress.tell(PlayedEvent(0, SYNCHRONIZE, "", 0, skipped=why))

    def _exchanged(self, plugin: Plugin, exchange: PluginExchange) -> None:
        if self._recorder is not None:
            self._recorder.exchanged(plugin, exchange)
        if exchange.method == SYNCHRONIZE:
            self._synchronized(plugin, exchange)

    def _synchronized(self, plugin: Plugin, exchange: PluginExchange) -> None:
        self._parts += 1
        reply, error, more = _sync_reply(exchange)
        if more:
            return
        played = PlayedEvent(0, SYNCHRONIZE, "", 0)
        if self._parts > 1:
            text = f"the state is sent in {self._parts} parts"
            if self._playback.faults.split_sync:
                played.fault = text
            else:
                played.note = text
        self._parts = 0
        answer = Answer(
            plugin.id,
            SYNCHRONIZE,
            reply,
            exchange.reply,
            error,
            exchange.took_ns,
            timeout_ns=exchange.timeout_ns,
        )
        if error is not None:
            self._plugins.failed_setup(plugin)
        if isinstance(error, ConnectionClosed):
            # The reason is known once the connection has ended, see `_ended`.
            self._unfinished[plugin] = played, answer
            return
        self._tell_synchronized(played, answer)

    def _tell_synchronized(self, played: PlayedEvent, answer: Answer, lost: str = "") -> None:
        self._progress.settle()
        played.replies.append(self._judge.reply(answer, 0, played.event, "", lost=lost))
        if isinstance(answer.reply, api.SynchronizeResponse) and answer.error is None:
            self._update(played, answer.plugin, answer.reply.update)
        self._progress.tell(played)

    def _update(
        self, played: PlayedEvent, plugin: str, updates: Collection[api.ContainerUpdate]
    ) -> None:
        """Apply updates outside of the chain; iSulad ignores them or crashes, Docker fails."""
        if (refusals := self._rules.refusals) is not None:
            if updates or played.event == UNSOLICITED:
                played.failure = refusals.error_outside_chain(played.event)
                self._result.tally.fail(f"{played.event} of {plugin}: {played.failure}")
        elif not self._rules.dies_of_updates:
            self._effects.apply_updates(played, plugin, updates)
        elif played.event == UNSOLICITED:
            played.failure = UNSOLICITED_CRASH
            self._result.tally.fail(f"{played.event} of {plugin}: {played.failure}")
        else:
            played.dropped += [
                Dropped(plugin, update.container_id, "", "", SYNCHRONIZE_IGNORED)
                for update in updates
            ]

    def _unsolicited(
        self, plugin: Plugin, request: api.UpdateContainersRequest
    ) -> api.UpdateContainersResponse:
        self._progress.settle()
        played = PlayedEvent(0, UNSOLICITED, "", 0)
        self._update(played, plugin.id, request.update)
        if not played.failure:
            drop_evictions(request.evict, plugin.id, played.dropped)
        self._progress.tell(played)
        if self._rules.refusals is not None:
            raise RpcError(Code.UNKNOWN, played.failure)
        return api.UpdateContainersResponse()

    def _ended(self, plugin: Plugin) -> None:
        if self._plugins.ended(plugin):
            self._audience.lost(plugin.id, plugin.end_reason)
        if plugin in self._unfinished:
            self._tell_synchronized(*self._unfinished.pop(plugin), lost=plugin.end_reason)
        if self._recorder is not None:
            self._recorder.ended(plugin)

    # -- keeping the result -------------------------------------------------------------------

    def _printed(self, line: PrintedLine) -> None:
        self._progress.printed(line._replace(at_ns=line.at_ns - self._began_ns))

    def _outline(self) -> Iterable[tuple[str, str]]:
        last = 0
        for event in self._result.events:
            if event.event_id and event.event_id != last:
                yield event.subject, event.event
            last = event.event_id or last


def _source(session: Session, runtime: str) -> str:
    if session.role == Role.SCENARIO:
        return f"a scenario of {runtime}"
    return f"session {session.id}, {session.plugin} on {runtime}"


def _sync_reply(
    exchange: PluginExchange,
) -> tuple[api.SynchronizeResponse | None, NriScopeError | None, bool]:
    """Return the reply to Synchronize, or its error, and whether more parts follow."""
    if exchange.error is not None:
        return None, exchange.error, False
    try:
        reply = api.SynchronizeResponse.FromString(exchange.reply)
    except DecodeError as error:
        return None, RemoteProtocolError(f"the reply cannot be decoded: {error}"), False
    if not api.SynchronizeRequest.FromString(exchange.request).more:
        return reply, None, False
    try:
        check_part_reply(reply)
    except RemoteProtocolError as error:
        return reply, error, False
    return reply, None, True


class ReplayRecorder:
    """Recorder of every exchange of a replay. Call `close` at the end."""

    def __init__(self, path: Path, profile: Profile) -> None:
        """Create the file. Raises RecordingError if that fails."""
        self._profile = profile
        self._recorder = Recorder.open(path)
        self._sessions: dict[Plugin, int] = {}
        self._offset = time_ns() - monotonic_ns()

    def exchanged(self, plugin: Plugin, exchange: PluginExchange) -> None:
        """Record one request and its reply."""
        if exchange.method == CONFIGURE and plugin not in self._sessions:
            self._sessions[plugin] = self._recorder.begin_session(self._start(plugin, exchange))
        session = self._sessions.get(plugin)
        if session is None:
            return
        code, message = _status(exchange.error)
        self._recorder.capture(
            session,
            CapturedCall(
                wall_ns=self._offset + exchange.started_ns,
                mono_ns=exchange.started_ns,
                method=exchange.method,
                request=exchange.request,
                reply=exchange.reply,
                status_code=code,
                status_message=message,
                took_ns=exchange.took_ns,
                timeout_ns=exchange.timeout_ns,
                service="" if exchange.service == PLUGIN_SERVICE else exchange.service,
            ),
        )

    def ended(self, plugin: Plugin) -> None:
        """Record that a plugin's connection has ended."""
        session = self._sessions.pop(plugin, None)
        if session is not None:
            self._recorder.end_session(session, plugin.end_reason, time_ns())

    def close(self) -> None:
        """Write the remaining data."""
        for plugin in list(self._sessions):
            self.ended(plugin)
        self._recorder.close()

    def _start(self, plugin: Plugin, configure: PluginExchange) -> SessionStart:
        profile = self._profile
        response = decode(ConfigureResponse, configure.reply)
        return SessionStart(
            role=Role.REPLAY,
            plugin_name=plugin.name,
            plugin_index=plugin.index,
            runtime_name=profile.runtime_name,
            runtime_version=profile.runtime_version,
            nri_version=profile.nri_version,
            nri_version_inferred=not profile.sends_nri_version,
            mask=0 if response is None else response.events,
            registration_timeout_ms=profile.registration_timeout_ms,
            request_timeout_ms=profile.request_timeout_ms,
            started_ns=self._offset + configure.started_ns,
        )


def _status(error: NriScopeError | None) -> tuple[int, str]:
    match error:
        case None:
            return Code.OK, ""
        case RpcError():
            return error.code, error.message
        case DeadlineExceeded():
            return Code.DEADLINE_EXCEEDED, str(error)
        case ConnectionClosed():
            return Code.UNAVAILABLE, str(error)
    return Code.INTERNAL, str(error)
