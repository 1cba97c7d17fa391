# SPDX-License-Identifier: Apache-2.0
"""Runs of the cases on a real chain: Go runtime, two Go plugins and passive connections."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TextIO, cast

from google.protobuf.message import Message

from nri_scope import specs
from nri_scope._gen.nri import api_pb2 as api
from nri_scope.capture.sink import Sink
from nri_scope.events import CONTAINER_STATUS, CRI_SERVICE, CapturedCall, Role, SessionStart
from nri_scope.logger.logger import Logger, LoggerService
from nri_scope.nri.events import EventKind
from nri_scope.nri.merging import adjusted, with_resources
from nri_scope.nri.versions import V0_10, V0_12, NriVersion
from nri_scope.plugin import Identity, unix_socket
from nri_scope.recorder.writer import Recorder
from nri_scope.recording.reading import event_messages
from tests.interop.attribution_cases import (
    FIRST,
    POD,
    SECOND,
    Case,
    UpdateCase,
    UpdateTrigger,
    cases,
    update_cases,
)
from tests.interop.build import Merger, build_programs
from tests.interop.reference import (
    PATIENCE,
    Answer,
    ReferencePlugin,
    ReferenceRuntime,
    parse_requests,
)

PROBES = ("00-probe", "10-probe", "30-probe", "50-probe", "99-probe")
VALIDATING = "50-probe"
"""The probe that is also a validator, in versions with validators."""
PLUGINS = (FIRST, SECOND)
ALL_EVENTS = 0x7FF
RUNTIMES = {
    Merger.NRI_0_6: "v1.7.24",
    Merger.NRI_0_8: "v2.1.9",
    Merger.NRI_0_10: "v2.2.0",
    Merger.NRI_0_11: "v2.2.1",
    Merger.NRI_0_12: "v2.4.0",
}
"""A containerd version with each NRI version, which is inferred from it before NRI 0.12."""

VALIDATE = "ValidateContainerAdjustment"


@dataclass
class Tee(Sink):
    """Recorder that also stores sessions and calls in memory."""

    recorder: Recorder
    log: list[tuple[int, CapturedCall]]
    """Session and call, in order."""
    starts: dict[int, SessionStart] = field(default_factory=dict)

    def begin_session(self, start: SessionStart) -> int:
        session = self.recorder.begin_session(start)
        self.starts[session] = start
        return session

    def capture(self, session: int, item: CapturedCall) -> None:
        self.log.append((session, item))
        self.recorder.capture(session, item)

    def end_session(self, session: int, reason: str, at_ns: int) -> None:
        self.recorder.end_session(session, reason, at_ns)

    def note_gap(
        self, session: int | None, from_ns: int, to_ns: int, reason: str, lost: int | None
    ) -> None:
        self.recorder.note_gap(session, from_ns, to_ns, reason, lost)

    def note(self, session: int | None, at_ns: int, text: str) -> None:
        self.recorder.note(session, at_ns, text)


@dataclass(frozen=True)
class Asked:
    """One request to one connection, of a plugin or a probe, and its reply."""

    plugin: str
    method: str
    request: bytes
    reply: bytes


@dataclass
class Run:
    """All requests and results of a run, as received by each connection."""

    version: NriVersion
    recording: Path
    """Written by the recorder during the run."""
    starts: dict[str, SessionStart] = field(default_factory=dict)
    """Starts of the probes' sessions, by plugin."""
    asked: list[Asked] = field(default_factory=list)
    """In the order of the runtime's requests."""
    answers: dict[str, Answer] = field(default_factory=dict)
    """The runtime's result of each case, by the case's name."""
    validations: dict[str, api.ValidateContainerAdjustmentRequest] = field(default_factory=dict)
    """Requests to the validator, by container name."""

    @cached_property
    def creations(self) -> dict[str, dict[str, api.CreateContainerRequest]]:
        """CreateContainer requests by container name and plugin."""
        found: dict[str, dict[str, api.CreateContainerRequest]] = {}
        for one in self.asked:
            if one.method == "CreateContainer":
                message = api.CreateContainerRequest.FromString(one.request)
                found.setdefault(message.container.name, {})[one.plugin] = message
        return found


async def run(merger: Merger, folder: Path) -> Run:
    """Play all cases of a version."""
    version = NriVersion.parse(merger.nri_version)
    assert version is not None
    creations, updates = cases(version), update_cases(version)
    recorder = Recorder.open(folder / "live.nriscope.db")
    result = Run(version, folder / "live.nriscope.db")
    try:
        async with _chain(merger, folder, recorder, (*creations, *updates)) as chain:
            for case in creations:
                await chain.create(case)
            for update in updates:
                await chain.update(update)
            result.answers = chain.answers
            result.asked = chain.asked
            result.starts = {_name(start): start for start in chain.tee.starts.values()}
            await chain.runtime.stop()
    finally:
        counters = recorder.close(timeout=PATIENCE)
    assert counters.lost == 0, counters
    for one in result.asked:
        if one.method == VALIDATE:
            validation = api.ValidateContainerAdjustmentRequest.FromString(one.request)
            result.validations[validation.container.name] = validation
    return result


def _name(start: SessionStart) -> str:
    return f"{start.plugin_index}-{start.plugin_name}"


@dataclass
class _Chain:
    runtime: ReferenceRuntime
    plugins: dict[str, ReferencePlugin]
    tee: Tee
    requests: dict[str, TextIO]
    """Files with the plugins' requests, positioned after the last request read."""
    version: NriVersion
    asked: list[Asked] = field(default_factory=list)
    answers: dict[str, Answer] = field(default_factory=dict)
    seen: int = 0

    async def create(self, case: Case) -> None:
        """Create a container and send the events that follow."""
        answer = await self.send("CreateContainer", case.container)
        self.answers[case.name] = answer
        if answer.error:
            await self._undo(case.container)
        else:
            reply = api.CreateContainerResponse.FromString(answer.reply)
            await self.send("PostCreateContainer", adjusted(case.container, reply.adjust))

    async def _undo(self, container: api.Container) -> None:
        # containerd sends these events for containers whose creation failed.
        await self.send("StopContainer", container)
        await self.send("RemoveContainer", container)

    async def update(self, case: UpdateCase) -> None:
        """Create a container and let a plugin update it."""
        await self.send("CreateContainer", case.target)
        await self.send("PostCreateContainer", case.target)
        subject = case.subject or case.target
        if case.subject is not None and case.trigger is not UpdateTrigger.CREATE:
            await self.send("CreateContainer", subject)
            await self.send("PostCreateContainer", subject)
        if case.asked is not None:
            (plugin,) = case.plugins
            payload = case.asked.SerializeToString()
            report = await self.plugins[plugin].ask(payload)
            assert (report["failed"], report["error"]) == (0, "")
            self.asked.append(Asked(plugin, "UpdateContainers", payload, b""))
        else:
            self.answers[case.name] = answer = await self.send(case.trigger, subject)
            if answer.error and case.trigger is UpdateTrigger.CREATE:
                await self._undo(subject)
            if case.trigger is UpdateTrigger.UPDATE and not answer.error:
                after = updated_by(case) if case.subject is None else subject
                await self.send("PostUpdateContainer", after)
        # The next event with the container shows the result.
        await self.send("StopContainer", case.target if case.conflict else updated_by(case))

    async def send(self, event: str, container: api.Container | None = None) -> Answer:
        """Send an event, and collect the requests to all connections."""
        answer = await self.runtime.send(*self._request(event, container))
        self.collect()
        return answer

    def _request(self, event: str, container: api.Container | None) -> tuple[str, bytes]:
        dedicated = hasattr(api, f"{event}Request") and (
            self.version >= V0_12 or event in set(UpdateTrigger) - {"UpdateContainers"}
        )
        message: Message
        if dedicated:
            message = getattr(api, f"{event}Request")(pod=POD)
        else:
            number = cast("api.Event.ValueType", EventKind[event].value)
            message = api.StateChangeEvent(event=number, pod=POD)
        if container is not None:
            message.container.CopyFrom(container)  # type: ignore[attr-defined]
        return event if dedicated else "StateChange", message.SerializeToString()

    def collect(self) -> None:
        """Append the requests since the last call, in chain order."""
        fresh = [
            Asked(_name(self.tee.starts[session]), item.method, item.request, item.reply)
            for session, item in self.tee.log[self.seen :]
        ]
        self.seen = len(self.tee.log)
        for plugin, lines in self.requests.items():
            fresh += [
                Asked(plugin, one.method, one.request, one.reply) for one in parse_requests(lines)
            ]
        self.asked += sorted(fresh, key=lambda one: (one.method == VALIDATE, one.plugin[:2]))


@asynccontextmanager
async def _chain(
    merger: Merger, folder: Path, recorder: Recorder, all_cases: Iterable[Case | UpdateCase]
) -> AsyncIterator[_Chain]:
    programs = build_programs(merger)
    version = NriVersion.parse(merger.nri_version)
    assert version is not None
    socket = folder / "nri.sock"
    tee = Tee(recorder, [])
    async with AsyncExitStack() as stack:
        runtime = await stack.enter_async_context(
            await ReferenceRuntime.listen(
                socket, name="containerd", version=RUNTIMES[merger], program=programs.runtime
            )
        )
        plugins: dict[str, ReferencePlugin] = {}
        chain = _Chain(runtime, plugins, tee, {}, version)
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        for number, one in enumerate(sorted((*PROBES, *PLUGINS)), 1):
            requests = folder / f"{one}.requests"
            if one in PLUGINS:
                plugins[one] = await stack.enter_async_context(
                    await ReferencePlugin.connect(
                        socket,
                        index=one[:2],
                        name=one[3:],
                        events=ALL_EVENTS,
                        requests=requests,
                        replies=_script(folder, one, all_cases),
                        program=programs.plugin,
                    )
                )
            else:
                identity = Identity(one[:2], one[3:])
                validate = one == VALIDATING and version >= V0_10
                logger = Logger(tee, identity, validate=validate)
                service = LoggerService(logger, unix_socket(socket), once=True)
                tasks.create_task(service.run())
            await runtime.admit(number)
            if one in PLUGINS:
                chain.requests[one] = stack.enter_context(requests.open())
            # Up to NRI 0.6 the runtime reports a plugin before it sends events to it.
            async with asyncio.timeout(PATIENCE):
                while (await chain.send("RunPodSandbox")).requests < number:
                    pass
        yield chain


def _script(folder: Path, plugin: str, all_cases: Iterable[Case | UpdateCase]) -> Path:
    """Write a file with the plugin's replies and return its path."""
    replies: dict[str, dict[str, str]] = {}
    for case in all_cases:
        reply = case.replies.get(plugin)
        if reply is None:
            continue
        if isinstance(case, Case):
            method, about = "CreateContainer", case.container
        else:
            method, about = str(case.trigger), case.subject or case.target
        payload = base64.b64encode(reply.SerializeToString()).decode()
        replies.setdefault(method, {})[about.id] = payload
    path = folder / f"{plugin}.replies"
    path.write_text(json.dumps(replies))
    return path


def updated_by(case: UpdateCase) -> api.Container:
    """The target in the runtime's requests after the update."""
    assert case.entry.update is not None
    update = api.ContainerUpdate()
    case.entry.update(update.linux.resources, 1)
    made = with_resources(case.target, update.linux.resources)
    # For each page size, only the last limit counts.
    sizes = {limit.page_size: limit for limit in made.linux.resources.hugepage_limits}
    limits = [api.HugepageLimit.FromString(size.SerializeToString()) for size in sizes.values()]
    del made.linux.resources.hugepage_limits[:]
    made.linux.resources.hugepage_limits.extend(limits)
    return made


@dataclass(frozen=True)
class View:
    """A selection of a run's connections."""

    probes: tuple[str, ...] = ()
    validator: bool = False
    taps: tuple[str, ...] = ()
    real: Callable[[str], specs.Spec | None] | None = None
    """Function from a container's name to the CRI's spec after the creation; None without CRI."""


def write(seen: Run, view: View, path: Path) -> Path:
    """Write a recording of a view's connections, in the order of the run."""
    recorder = Recorder.open(path)
    sessions: dict[str, int] = {}
    chosen = {*view.probes, *view.taps} | ({VALIDATING} if view.validator else set())
    for number, one in enumerate(seen.asked):
        if one.plugin not in chosen or not _is_in_view(one, view):
            continue
        at_ns = 1_700_000_000 * 10**9 + number * 10**6
        if one.plugin not in sessions:
            sessions[one.plugin] = recorder.begin_session(_start(seen, view, one.plugin, at_ns))
        recorder.capture(
            sessions[one.plugin],
            CapturedCall(
                at_ns, at_ns, one.method, one.request, one.reply, 0, "", 50_000, 2 * 10**9
            ),
        )  # fmt: skip
        if view.real is not None and one.plugin == max(chosen):
            _ask_cri(recorder, sessions, seen, view.real, one, at_ns)
    end_ns = 1_700_000_000 * 10**9 + len(seen.asked) * 10**6
    for session in sessions.values():
        recorder.end_session(session, "interrupted", end_ns)
    counters = recorder.close(timeout=PATIENCE)
    assert counters.lost == 0, counters
    return path


def _ask_cri(
    recorder: Recorder,
    sessions: dict[str, int],
    seen: Run,
    real: Callable[[str], specs.Spec | None],
    after: Asked,
    at_ns: int,
) -> None:
    """Record a ContainerStatus after a PostCreateContainer."""
    if after.method != "PostCreateContainer":
        return
    container = api.PostCreateContainerRequest.FromString(after.request).container
    spec = real(container.name)
    if spec is None:
        return
    if "cri" not in sessions:
        like = seen.starts[PROBES[0]]
        sessions["cri"] = recorder.begin_session(
            replace(
                like,
                role=Role.CRI,
                plugin_index="",
                plugin_name="cri",
                nri_version="",
                started_ns=at_ns,
            )
        )
    request = event_messages.status_request(container.id)
    reply = json.dumps({"runtimeSpec": spec}).encode()
    recorder.capture(
        sessions["cri"],
        CapturedCall(
            at_ns + 1, at_ns + 1, CONTAINER_STATUS, request, reply, 0, "", 1000, 0,
            CRI_SERVICE,
        ),
    )  # fmt: skip


def _is_in_view(one: Asked, view: View) -> bool:
    if one.plugin in view.taps:
        return True
    if one.method == VALIDATE:
        return view.validator
    return one.plugin in view.probes or one.method in ("Configure", "Synchronize")


def _start(seen: Run, view: View, plugin: str, at_ns: int) -> SessionStart:
    tapped = plugin in view.taps
    like = seen.starts[PROBES[0]]
    mask = like.mask if plugin in view.probes or tapped else 0
    if plugin == VALIDATING and view.validator:
        mask |= EventKind.ValidateContainerAdjustment.bit
    return SessionStart(
        role=Role.TAP if tapped else Role.PROBE,
        plugin_name=plugin[3:],
        plugin_index=plugin[:2],
        runtime_name=like.runtime_name,
        runtime_version=like.runtime_version,
        nri_version=like.nri_version,
        nri_version_inferred=like.nri_version_inferred,
        mask=mask,
        registration_timeout_ms=like.registration_timeout_ms,
        request_timeout_ms=like.request_timeout_ms,
        started_ns=at_ns,
    )
