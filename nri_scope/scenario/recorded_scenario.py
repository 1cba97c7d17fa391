# SPDX-License-Identifier: Apache-2.0
"""Make an editable scenario of a session in a recording.

Played to a plugin, the scenario leads to the requests of the session itself. Different by design:
the times of containers, and the adjustments of the plugins that ran when the session was recorded,
which later requests of a container contain. They are replaced by those of the replayed plugins.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import RecordingError, UsageError
from nri_scope.events import NO_ID, Event, InitialState, Session
from nri_scope.filter import Filter, parse
from nri_scope.nri.events import EventKind
from nri_scope.nri.merging import ADJUSTABLE
from nri_scope.nri.plain import clear_fields, fields_of
from nri_scope.nri.request_subject import (
    container_of,
    name_of_container,
    name_of_pod,
    pod_of,
)
from nri_scope.oci.runtime_rules import runtime_rules_of
from nri_scope.recording.query.session_choice import concerns, find_session, sessions_of
from nri_scope.recording.reading.reader import Recording
from nri_scope.runtime import Profile, nearest_profile
from nri_scope.runtime.lifecycle import recorded_request
from nri_scope.runtime.plugin_setup import is_setup

from .model import (
    FieldChanges,
    RuntimeChoice,
    Scenario,
    ScenarioContainer,
    ScenarioPod,
    Step,
    Verb,
    unused_key,
)
from .subjects import KILLED, EventContents, Subjects
from .value_readers import LATEST_NS, LONGEST_NS

MAX_BYTES = 24 << 20
"""Maximum size of a scenario's messages and steps. As values and text, they take ten times that."""
_OBJECT_BYTES = 1_000
"""Size that is counted for each pod and container in addition to its message."""
_PAUSE_SHOWN_NS = 100_000_000
"""Shortest pause that the scenario has a step for."""
_PAUSE_UNIT_NS = 10_000_000
_STEP_BYTES = 700
"""Size that is counted for each step in addition to its messages."""
TIMES = frozenset({"created_at", "started_at", "finished_at"})
"""Fields of a container that the time of the scenario determines."""

M = TypeVar("M", api.PodSandbox, api.Container)


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    """An event of the session that the scenario has."""

    recorded: Event
    event: EventKind
    request: Message
    """Its own request message."""
    pod: api.PodSandbox
    container: api.Container | None


@dataclass(frozen=True, slots=True)
class Restart:
    """The start of a later session: the runtime was restarted."""

    at_ns: int


def read_recording(
    path: Path, session: int | None = None, *, only: str = "", where: Filter | None = None
) -> tuple[Scenario, list[str]]:
    """Return the scenario of a session, and remarks on what it lacks.

    ``session``: None for the one that `find_session` chooses. ``only`` and ``where`` select events;
    what exists before the first of them is listed as existing. Raises UsageError, and
    RecordingError for a file that cannot be read.
    """
    with Recording.open(path) as recording:
        return _Reading(recording, session, only, where).scenario()


class _Reading:
    def __init__(
        self, recording: Recording, number: int | None, only: str, where: Filter | None
    ) -> None:
        self._recording = recording
        self._only, self._where = only, where
        session = find_session(recording, number)
        self._sessions = sessions_of(recording, session, is_chosen=number is not None)
        self._left_out: dict[str, int] = {}
        self._notes: list[str] = []
        self._scenario = Scenario(
            runtime=runtime_of(session),
            # An untrusted file may have any time.
            start_ns=min(max(session.started_ns, 0), LATEST_NS),
            source=str(recording.path),
        )
        self._profile = self._scenario.runtime.profile()
        self._bytes = 0
        self._pods: dict[str, ScenarioPod] = {}
        self._keys: dict[str, dict[str, int]] = {"": {}}
        """Keys of pods in use, and of the containers of a pod by its key; see `unused_key`."""
        self._containers: dict[str, tuple[ScenarioPod, ScenarioContainer]] = {}

    def scenario(self) -> tuple[Scenario, list[str]]:
        """Return the scenario and the remarks."""
        self._add_state(self._sessions[0])
        count = 0
        for event in self._events():
            if isinstance(event, RecordedEvent):
                count += 1
                self._add_subjects(event)
        if not count and (self._only or self._where):
            raise UsageError(
                f"{self._recording.path}: no event is selected", "widen --only or --where"
            )
        self._scenario.pods = {pod.key: pod for pod in self._pods.values()}
        self._left_out.clear()
        steps = _RecordedSteps(self._scenario, self._profile)
        before_ns = self._scenario.start_ns
        for event in self._events():
            at_ns = event.at_ns if isinstance(event, Restart) else event.recorded.at_ns
            pause = at_ns - before_ns - self._scenario.pause_ns
            before_ns = at_ns
            if pause >= _PAUSE_SHOWN_NS:
                pause_ns = min(pause, LONGEST_NS) // _PAUSE_UNIT_NS * _PAUSE_UNIT_NS
                steps.made.append(Step(Verb.WAIT, pause_ns=pause_ns))
            if isinstance(event, Restart):
                steps.made.append(Step(Verb.RESTART))
                continue
            container = self._container_of(event)
            key = "" if container is None else container.key
            steps.add(event.event, event.request, self._pods[event.pod.id].key, key)
            self._check_size(steps.bytes)
        self._scenario.steps = tuple(steps.made)
        notes = [f"left out: {count:,} × {what}" for what, count in self._left_out.items()]
        return self._scenario, [*self._notes, *notes]

    # -- events -------------------------------------------------------------------------------

    def _events(self) -> Iterator[RecordedEvent | Restart]:
        for session in self._sessions:
            if session is not self._sessions[0]:
                yield Restart(session.started_ns)
            for recorded, request, _ in self._recording.exchanges(
                where=parse(f"session:{session.id}"), allowance=self._recording.allowance()
            ):
                is_event = not (is_setup(recorded.method, recorded.mark) or recorded.is_sent_again)
                if not is_event or not self._is_selected(recorded):
                    continue
                if event := self._decoded(recorded, request):
                    yield event

    def _is_selected(self, recorded: Event) -> bool:
        if self._only and not concerns(self._only, recorded):
            return False
        return self._where is None or self._where.matches(recorded)

    def _decoded(self, recorded: Event, request: bytes) -> RecordedEvent | None:
        decoded = recorded_request(recorded.method, request, recorded.mark)
        if decoded is None:
            what = f"{recorded.event} ({recorded.mark or 'unknown'})"
            self._left_out[what] = self._left_out.get(what, 0) + 1
            return None
        event, message = decoded
        if event is EventKind.ValidateContainerAdjustment:
            return None
        container = container_of(event.name, message)
        if (
            container is not None
            and not container.id
            and not recorded.container_id.startswith(NO_ID)
        ):
            # iSulad assigns it later.
            container = deepcopy(container)
            container.id = recorded.container_id
        pod = pod_of(event.name, message)
        if pod is None:
            pod = api.PodSandbox(id=container.pod_sandbox_id if container else "")
        return RecordedEvent(recorded, event, message, pod, container)

    # -- pods and containers ------------------------------------------------------------------

    def _add_state(self, session: Session) -> None:
        pods, containers = initial_state(
            self._recording, session, self._recording.state(session.id)
        )
        for pod in pods:
            self._add_pod(pod, exists=True)
        for container in containers:
            if container.pod_sandbox_id not in self._pods:
                self._add_pod(api.PodSandbox(id=container.pod_sandbox_id), exists=True)
            self._add_container(self._pods[container.pod_sandbox_id], container, exists=True)
        if self._only:
            self._remove_others()

    def _remove_others(self) -> None:
        """Remove the pods and containers that `only` does not name."""
        for pod in list(self._pods.values()):
            name = f"{pod.message.namespace}/{name_of_pod(pod.message)}"
            if self._only == name:
                continue
            for key, container in list(pod.containers.items()):
                if self._only != f"{name}/{name_of_container(container.message)}":
                    del pod.containers[key]
                    self._containers.pop(container.message.id, None)
            if not pod.containers and not self._only.startswith(f"{name}/"):
                del self._pods[pod.message.id]

    def _add_subjects(self, event: RecordedEvent) -> None:
        is_part = bool(self._only or self._where)
        pod = self._pods.get(event.pod.id)
        if pod is None:
            pod = self._add_pod(
                event.pod, exists=is_part and event.event is not EventKind.RunPodSandbox
            )
        if event.container is None:
            return
        subject = self._container_of(event)
        if subject is None:
            is_created = event.event is EventKind.CreateContainer
            subject = self._add_container(pod, event.container, exists=not is_created)
            if not is_created:
                pod.exists = True
                self._notes.append(
                    f"{pod.key}/{subject.key} was not created in these events, so it is in existing"
                )
        if not subject.message.pid and event.container.pid:
            subject.message.pid = event.container.pid

    def _add_size(self, message: Message) -> None:
        self._bytes += message.ByteSize() + _OBJECT_BYTES
        self._check_size()

    def _check_size(self, of_steps: int = 0) -> None:
        if self._bytes + of_steps > MAX_BYTES:
            raise UsageError(
                f"{self._recording.path}: too large for a scenario",
                "select a part with --only or --where",
            )

    def _container_of(self, event: RecordedEvent) -> ScenarioContainer | None:
        entry = self._containers.get(event.container.id) if event.container is not None else None
        return entry[1] if entry is not None else None

    def _add_pod(self, pod: api.PodSandbox, *, exists: bool) -> ScenarioPod:
        self._add_size(pod)
        message = deepcopy(pod)
        message.name = name_of_pod(pod)
        rules = self._profile.lifecycle_rules
        if rules.adapted_state([message], [])[0][0].name != pod.name:
            message.name = pod.name
        names = (_word(message.namespace), _word(name_of_pod(pod)))
        key = unused_key("/".join(names), self._keys[""])
        self._keys[key] = {}
        added = ScenarioPod(key, message, exists=exists, given=frozenset({"id", "uid", "pid"}))
        self._pods[pod.id] = added
        return added

    def _add_container(
        self, pod: ScenarioPod, container: api.Container, *, exists: bool
    ) -> ScenarioContainer:
        self._add_size(container)
        message = deepcopy(container)
        message.name = name_of_container(container)
        if exists:
            state = self._profile.lifecycle_rules.adapted_state([pod.message], [message])[1]
            if state[0].name != container.name:
                message.name = container.name
        given = {"id", "pid"} if message.id else {"pid"}
        if message.pod_sandbox_id == pod.message.id:
            message.ClearField("pod_sandbox_id")
        else:
            given.add("pod_sandbox_id")
        if exists and self._profile.lifecycle_rules.tells_states and not message.state:
            given.add("state")
        if not exists:
            message.ClearField("created_at")
            message.ClearField("started_at")
            message.ClearField("finished_at")
            message.ClearField("exit_code")
        key = unused_key(_word(name_of_container(container)), self._keys[pod.key])
        added = ScenarioContainer(key, message, given=frozenset(given), exists=exists)
        pod.containers[key] = added
        self._containers[container.id] = (pod, added)
        return added


class _RecordedSteps:
    """The steps of a scenario, one for each recorded event."""

    def __init__(self, scenario: Scenario, profile: Profile) -> None:
        """Begin with the pods and containers that exist at the start of ``scenario``."""
        self._subjects = Subjects(scenario)
        self._contents = EventContents(profile)
        self.made: list[Step] = []
        self.bytes = 0
        """Size of the steps and the messages in them."""
        # Otherwise, requests do not depend on the plugins.
        rules = runtime_rules_of(profile.runtime_name)
        self._reports_adjustments = rules.reports_adjustments
        for pod in self._subjects.pods:
            if pod.spec.exists:
                pod.exist(tells_states=profile.lifecycle_rules.tells_states)

    def add(self, event: EventKind, request: Message, pod_key: str, container_key: str) -> None:
        """Add an event about the pod and the container with these keys; "" for no container.

        Its step changes the fields in which the request differs from that of the scenario.
        """
        (pod,) = self._subjects.find_pods(pod_key)
        container = pod.containers[container_key] if container_key else None
        step = Step(event, pod.name if container is None else container.name)
        if isinstance(request, api.UpdateContainerRequest | api.UpdatePodSandboxRequest):
            step = replace(step, resources=request.linux_resources)
        if isinstance(request, api.UpdatePodSandboxRequest):
            step = replace(step, overhead=request.overhead_linux_resources)
        recorded = container_of(event.name, request) or api.Container()
        is_stopped = event is EventKind.StopContainer and recorded.exit_code != KILLED
        if is_stopped and (recorded.exit_code or recorded.finished_at):
            step = replace(step, exit_code=recorded.exit_code)
        own = self._contents.begin(event, pod, container, step, 0)
        made = self._contents.request(event, own, pod, container, step)
        old, new = pod_of(event.name, request), pod_of(event.name, made)
        step = replace(step, pod=_changes(old or api.PodSandbox(), new or api.PodSandbox()))
        if step.pod is not None:
            step.pod.apply(pod.message)
        if container is not None:
            ignored = TIMES
            if not container.spec.exists and self._reports_adjustments:
                # Adjustments of the plugins that ran at that time are not part of the scenario.
                ignored = TIMES.union(ADJUSTABLE)
            made_container = container_of(event.name, made) or api.Container()
            step = replace(step, container=_changes(recorded, made_container, ignored))
            if step.container is not None:
                step.container.apply(container.message)
        self._contents.end(event, pod, container, step)
        self.made.append(step)
        changed = [subject.message for subject in (step.pod, step.container) if subject is not None]
        updated = [message for message in (step.resources, step.overhead) if message is not None]
        self.bytes += _STEP_BYTES + sum(message.ByteSize() for message in (*changed, *updated))


def _changes(recorded: M, made: M, ignored: frozenset[str] = frozenset()) -> FieldChanges | None:
    """Return the fields of ``recorded`` that differ from ``made``; None if none does."""
    names = frozenset(
        name
        for name, field in fields_of(type(recorded)).items()
        if name not in ignored
        and (
            getattr(recorded, name) != getattr(made, name)
            or (field.has_presence and recorded.HasField(name) != made.HasField(name))  # type: ignore[arg-type]
        )
    )
    if not names:
        return None
    message = deepcopy(recorded)
    clear_fields(message, (name for name in fields_of(type(recorded)) if name not in names))
    return FieldChanges(message, names)


def initial_state(
    recording: Recording, session: Session, state: InitialState, *, may_lack_it: bool = False
) -> tuple[list[api.PodSandbox], list[api.Container]]:
    """Return the pods and containers in ``state``, which Synchronize listed.

    Raises RecordingError, and, unless ``may_lack_it``, UsageError for a session without all of it.
    """
    if not state.complete and not may_lack_it:
        raise UsageError(
            f"{recording.path}: session {session.id} has no complete Synchronize, so its "
            "initial pods and containers are unknown",
            "choose another with --session, or record without --where",
        )
    try:
        return (
            [api.PodSandbox.FromString(data) for data in state.pods],
            [api.Container.FromString(data) for data in state.containers],
        )
    except DecodeError as error:
        raise RecordingError(recording.path, f"Synchronize cannot be decoded: {error}") from error


def runtime_of(session: Session) -> RuntimeChoice:
    """Return the profile that is nearest to a session's runtime, with what differs from it."""
    profile = nearest_profile(session.runtime_name, session.runtime_version, session.nri_version)
    own = {field.name: getattr(session, field.name) for field in fields(RuntimeChoice)[1:]}
    others = {name: value for name, value in own.items() if value != getattr(profile, name)}
    return RuntimeChoice(profile.name, **others)


def _word(text: str) -> str:
    return text.replace("/", "_") or "unknown"
