# SPDX-License-Identifier: Apache-2.0
"""Write the requests of a scenario as a recording, as a passive plugin would have recorded them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.end_reasons import RUNTIME_RESTARTS
from nri_scope.errors import UsageError
from nri_scope.events import CapturedCall, Role, SessionStart
from nri_scope.nri.events import (
    CONFIGURE,
    PASSIVE_EVENTS,
    POD_EVENTS,
    SYNCHRONIZE,
    EventKind,
    mask_of,
)
from nri_scope.nri.no_change import no_change
from nri_scope.nri.runtime_setup import NO_POLICY, configure_reply
from nri_scope.recorder.complete_recording import CompleteRecording, complete_recording
from nri_scope.runtime import LifecycleState, Profile, ProfileSetUp
from nri_scope.runtime.lifecycle import LifecycleStep
from nri_scope.runtime.operations import request_for

from .model import ContainerKind, Ending, Scenario, ScenarioPod, Step, Verb
from .subjects import EventContents, LiveContainer, LivePod, Subjects, SubjectStage

MAX_EVENTS = 200_000
MAX_BYTES = 1 << 30
"""Maximum size of all requests."""

_STEP_NS = 1_000_000
"""Time between Configure, Synchronize and the first event."""
_POD_VERBS = frozenset({Verb.RUN, Verb.UPDATE, Verb.STOP, Verb.REMOVE})
_CONTAINER_VERBS = frozenset(
    {Verb.CREATE, Verb.START, Verb.UPDATE, Verb.STOP, Verb.CRASH, Verb.REMOVE}
)


class RuntimeStart(NamedTuple):
    """The runtime starts, and a plugin connects: Configure and Synchronize."""

    at_ns: int
    pods: list[api.PodSandbox]
    containers: list[api.Container]


class MadeEvent(NamedTuple):
    """An event that the runtime sends."""

    at_ns: int
    event: EventKind
    request: Message
    """The event's own request message."""


@dataclass(slots=True)
class _Action:
    """One event about one subject."""

    event: EventKind
    pod: LivePod
    container: LiveContainer | None
    is_exact: bool = False
    """Whether the event is sent in any state."""


class EventSequence:
    """Everything that happens in a scenario; for a single use."""

    def __init__(self, scenario: Scenario, profile: Profile) -> None:
        """Create the subjects. Raises UsageError, also for references to unknown ones."""
        self._scenario = scenario
        self._profile = profile
        self._contents = EventContents(profile)
        self._tells_states = profile.lifecycle_rules.tells_states
        self._now_ns = scenario.start_ns
        self._events = self._bytes = 0
        self._course = LifecycleState(profile)
        self.subjects = Subjects(scenario)
        self._steps: Sequence[Step] = scenario.steps or ()
        self._check(self._steps)
        for pod in self.subjects.pods:
            if pod.spec.exists:
                pod.exist(tells_states=self._tells_states)

    def play(self) -> Iterator[RuntimeStart | MadeEvent]:
        """Yield the start of the runtime, and everything that follows. Raises UsageError."""
        yield self._start()
        self._now_ns += _STEP_NS
        if self._scenario.steps is None:
            yield from self._usual_life()
        else:
            yield from self._play(self._steps)

    # -- the start ----------------------------------------------------------------------------

    def _start(self) -> RuntimeStart:
        pods = [pod.message for pod in self.subjects.pods if pod.stage is not SubjectStage.ABSENT]
        containers = [
            subject.message
            for subject in self.subjects.containers()
            if subject.stage in (SubjectStage.CREATED, SubjectStage.RUNNING)
            or (subject.stage is SubjectStage.STOPPED and not self._events and subject.spec.exists)
        ]
        if not self._events:
            self._course.note_pods(pods)
        self._course.note_containers(containers)
        return RuntimeStart(
            self._now_ns, *self._profile.lifecycle_rules.adapted_state(pods, containers)
        )

    def _restart(self) -> RuntimeStart:
        self._now_ns += self._scenario.pause_ns
        self._course = LifecycleState(self._profile)
        for container in self.subjects.containers():
            if container.stage is SubjectStage.RUNNING and self._tells_states:
                container.message.state = api.ContainerState.CONTAINER_RUNNING
            elif container.stage is SubjectStage.CREATED and self._tells_states:
                container.message.state = api.ContainerState.CONTAINER_CREATED
        started = self._start()
        self._now_ns += _STEP_NS
        return started

    # -- steps --------------------------------------------------------------------------------

    def _play(self, steps: Sequence[Step]) -> Iterator[RuntimeStart | MadeEvent]:
        for step in steps:
            match step.what:
                case Verb.WAIT:
                    self._now_ns += step.pause_ns
                case Verb.RESTART:
                    yield self._restart()
                case Verb.REPEAT:
                    for _ in range(step.times):
                        yield from self._play(step.steps)
                case _:
                    for action in self._actions(step):
                        yield from self._act(action, step)

    def _actions(self, step: Step) -> Iterator[_Action]:
        """Yield the events of a step; those about copies of a pod one copy after the other."""
        for pod in self.subjects.find_pods(step.subject) if self._takes_pods(step) else ():
            yield from self._pod_actions(step, pod)
        for container in (
            self.subjects.find_containers(step.subject) if self._takes_others(step) else ()
        ):
            yield from self._container_actions(step, container)

    def _takes_pods(self, step: Step) -> bool:
        return step.what in _POD_VERBS or step.what in POD_EVENTS

    def _takes_others(self, step: Step) -> bool:
        if isinstance(step.what, EventKind):
            return step.what not in POD_EVENTS
        return step.what in _CONTAINER_VERBS

    def _pod_actions(self, step: Step, pod: LivePod) -> Iterator[_Action]:
        what = step.what
        if isinstance(what, EventKind):
            yield _Action(what, pod, None, is_exact=True)
            return
        if (pod.stage is SubjectStage.ABSENT) != (what is Verb.RUN):
            problem = "exists already" if what is Verb.RUN else "does not exist at this point"
            hint = "remove it first" if what is Verb.RUN else f"add a step run: {pod.name}"
            raise step.position.error(f"the pod {pod.name} {problem}", hint)
        match what:
            case Verb.RUN:
                yield _Action(EventKind.RunPodSandbox, pod, None)
            case Verb.UPDATE:
                yield _Action(EventKind.UpdatePodSandbox, pod, None)
                yield _Action(EventKind.PostUpdatePodSandbox, pod, None)
            case _:
                yield from self._end_of_pod(pod, removed=what is Verb.REMOVE)

    def _end_of_pod(self, pod: LivePod, *, removed: bool) -> Iterator[_Action]:
        containers = list(pod.containers.values())
        if self._tells_states:
            for container in containers:
                if container.stage is SubjectStage.RUNNING:
                    yield _Action(EventKind.StopContainer, pod, container)
        if pod.stage is not SubjectStage.STOPPED:
            yield _Action(EventKind.StopPodSandbox, pod, None)
        if not removed:
            return
        for container in containers:
            if container.stage is not SubjectStage.ABSENT and self._tells_states:
                yield _Action(EventKind.RemoveContainer, pod, container)
            container.stage = SubjectStage.ABSENT
        yield _Action(EventKind.RemovePodSandbox, pod, None)

    def _container_actions(self, step: Step, container: LiveContainer) -> Iterator[_Action]:
        what, pod = step.what, container.pod
        creates = what in (Verb.CREATE, EventKind.CreateContainer)
        if creates != (container.stage is SubjectStage.ABSENT) and not (
            isinstance(what, EventKind) and container.creations
        ):
            problem = "exists already" if creates else "does not exist at this point"
            hint = "remove it first" if creates else f"add a step create: {container.name}"
            raise step.position.error(f"the container {container.name} {problem}", hint)
        if isinstance(what, EventKind):
            yield _Action(what, pod, container, is_exact=True)
            return
        match what:
            case Verb.CREATE:
                if pod.stage is not SubjectStage.RUNNING:
                    raise step.position.error(
                        f"the pod {pod.name} is not running at this point",
                        f"add a step run: {pod.name}",
                    )
                yield _Action(EventKind.CreateContainer, pod, container)
                yield _Action(EventKind.PostCreateContainer, pod, container)
            case Verb.START:
                if container.stage is not SubjectStage.CREATED:
                    raise step.position.error(f"the container {container.name} was started before")
                yield _Action(EventKind.StartContainer, pod, container)
                yield _Action(EventKind.PostStartContainer, pod, container)
            case Verb.UPDATE:
                yield _Action(EventKind.UpdateContainer, pod, container)
                yield _Action(EventKind.PostUpdateContainer, pod, container)
            case Verb.REMOVE:
                yield _Action(EventKind.RemoveContainer, pod, container)
            case _:
                is_crash = what is Verb.CRASH
                if container.stage is SubjectStage.STOPPED or (
                    is_crash and container.stage is not SubjectStage.RUNNING
                ):
                    raise step.position.error(
                        f"the container {container.name} does not run at this point"
                    )
                yield _Action(EventKind.StopContainer, pod, container)

    def _usual_life(self) -> Iterator[MadeEvent]:
        """Yield the events of all pods when the kubelet starts, and possibly ends, each."""
        pods = [pod for pod in self.subjects.pods if not pod.spec.exists]
        for pod in self.subjects.pods:
            if not pod.spec.exists:
                yield from self._do(Verb.RUN, pod.name)
            for key in _in_order(pod.spec):
                container = pod.containers[key]
                if container.spec.exists:
                    continue
                yield from self._do(Verb.CREATE, container.name)
                yield from self._do(Verb.START, container.name)
                if container.spec.kind is ContainerKind.INIT:
                    yield from self._do(Verb.CRASH, container.name, exit_code=0)
        if self._scenario.until is Ending.RUNNING:
            return
        for pod in pods:
            # The kubelet stops sidecars last, in reverse order.
            running = [pod.containers[key] for key in _in_order(pod.spec)]
            sidecars = [member for member in running if member.spec.kind is ContainerKind.SIDECAR]
            others = [member for member in running if member.spec.kind is ContainerKind.CONTAINER]
            for last in [*others, *reversed(sidecars)]:
                yield from self._do(Verb.STOP, last.name)
            yield from self._do(Verb.STOP, pod.name)
            if self._scenario.until is Ending.REMOVED:
                yield from self._do(Verb.REMOVE, pod.name)

    def _do(self, verb: Verb, subject: str, exit_code: int | None = None) -> Iterator[MadeEvent]:
        step = Step(verb, subject, exit_code=exit_code)
        for action in self._actions(step):
            yield from self._act(action, step)

    # -- one event ----------------------------------------------------------------------------

    def _act(self, action: _Action, step: Step) -> Iterator[MadeEvent]:
        event, pod, container = action.event, action.pod, action.container
        now_ns = self._now_ns + self._scenario.pause_ns
        own = self._contents.begin(event, pod, container, step, now_ns)
        parts = self._course.steps_of(event, own)
        if action.is_exact:
            parts = (LifecycleStep(event, own, self._profile.skip_reason(event)),)
        for part in parts:
            if not part.skipped:
                yield self._made(part.event, part.request, action, step)
        self._contents.end(event, pod, container, step)

    def _made(self, event: EventKind, request: Message, action: _Action, step: Step) -> MadeEvent:
        request = self._contents.request(event, request, action.pod, action.container, step)
        self._now_ns += self._scenario.pause_ns
        self._count(request.ByteSize())
        return MadeEvent(self._now_ns, event, request)

    def _count(self, size: int) -> None:
        self._events += 1
        self._bytes += size
        if self._events > MAX_EVENTS:
            raise UsageError(
                f"{self._scenario.source}: more than {MAX_EVENTS:,} events",
                "write fewer copies or repetitions",
            )
        if self._bytes > MAX_BYTES:
            raise UsageError(
                f"{self._scenario.source}: requests of more than {MAX_BYTES >> 20} MiB",
                "write fewer copies or repetitions",
            )

    # -- references ---------------------------------------------------------------------------

    def _check(self, steps: Sequence[Step]) -> None:
        """Raise the error of the first step that refers to an unknown subject."""
        for step in steps:
            self._check(step.steps)
            if not step.subject:
                continue
            pods, others = self._takes_pods(step), self._takes_others(step)
            has_subject = (pods and self.subjects.find_pods(step.subject)) or (
                others and self.subjects.find_containers(step.subject)
            )
            if not has_subject:
                raise self.subjects.unknown(step, pods=pods, containers=others)


def _in_order(pod: ScenarioPod) -> list[str]:
    """Return the keys of a pod's containers in the order in which the kubelet starts them."""
    kinds = {key: container.kind for key, container in pod.containers.items()}
    return sorted(kinds, key=lambda key: kinds[key] is ContainerKind.CONTAINER)


PLUGIN_INDEX, PLUGIN_NAME = "00", "scenario"
"""The plugin of a scenario's sessions."""
NOTE = "made from a scenario; no runtime sent these requests"
"""Beginning of the note in each recording of a scenario."""

_AFTER_NS = 1_000_000
"""Time between the last event of a session and its end."""
_RESTARTED = f"{RUNTIME_RESTARTS}, as the scenario says"
_ENDED = "end of the scenario"


def compile_scenario(scenario: Scenario, path: Path) -> int:
    """Write the recording to the new file ``path``; return the number of its events,
    Configure and Synchronize included.

    Raises UsageError for a scenario that cannot be played, and RecordingError.
    """
    profile = scenario.runtime.profile()
    sequence = EventSequence(scenario, profile)
    with complete_recording(path) as recording:
        writing = _Writing(recording, profile, f"{NOTE}: {scenario.source}")
        for played in sequence.play():
            if isinstance(played, MadeEvent):
                writing.event(played)
            else:
                writing.start(played)
        writing.end(_ENDED)
    return writing.events


class _Writing:
    def __init__(self, recording: CompleteRecording, profile: Profile, note: str) -> None:
        self._recording = recording
        self._profile = profile
        self._note = note
        self._session = 0
        self._now_ns = 0
        self.events = 0

    def start(self, runtime: RuntimeStart) -> None:
        """Begin a session, with Configure and Synchronize."""
        if self._session:
            self.end(_RESTARTED)
        profile = self._profile
        configure = profile.configure_request()
        mask = mask_of(PASSIVE_EVENTS) & profile.mask
        self._session = self._recording.begin_session(
            SessionStart(
                role=Role.SCENARIO,
                plugin_name=PLUGIN_NAME,
                plugin_index=PLUGIN_INDEX,
                runtime_name=profile.runtime_name,
                runtime_version=profile.runtime_version,
                nri_version=profile.nri_version,
                nri_version_inferred=not profile.sends_nri_version,
                mask=mask,
                registration_timeout_ms=configure.registration_timeout,
                request_timeout_ms=configure.request_timeout,
                started_ns=runtime.at_ns,
            )
        )
        self._recording.note(self._session, runtime.at_ns, self._note)
        reply = configure_reply(mask, NO_POLICY)
        self._capture(runtime.at_ns, CONFIGURE, configure.SerializeToString(), reply)
        state = ProfileSetUp(profile, runtime.pods, runtime.containers)
        for part in state.synchronize(PLUGIN_NAME):
            self._capture(runtime.at_ns, SYNCHRONIZE, part, no_change(SYNCHRONIZE, part))

    def event(self, made: MadeEvent) -> None:
        """Write an event."""
        method, payload = request_for(
            made.event, made.request, dedicated=self._profile.dedicated_rpcs
        )
        self._capture(made.at_ns, method, payload, no_change(method, payload))

    def end(self, reason: str) -> None:
        """End the session."""
        self._recording.end_session(self._session, reason, self._now_ns + _AFTER_NS)

    def _capture(self, at_ns: int, method: str, request: bytes, reply: bytes) -> None:
        self._now_ns = at_ns
        timeout_ns = self._profile.request_timeout_ms * 1_000_000
        item = CapturedCall(at_ns, at_ns, method, request, reply, 0, "", 0, timeout_ns)
        self._recording.capture(self._session, item)
        self.events += 1
