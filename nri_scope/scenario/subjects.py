# SPDX-License-Identifier: Apache-2.0
"""The pods and containers of a scenario while its steps are played, and how events change them.

Ids, uids and addresses are derived from names: each run has the same ones. A message may contain
the id of its pod or container in other fields, such as paths and annotations. A copy of a pod, and
a container that is created again, get these texts with their own ids.
"""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Iterator, Mapping, MutableMapping, MutableSequence
from copy import deepcopy
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, TypeVar, cast

from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import UsageError
from nri_scope.nri.events import EventKind
from nri_scope.nri.merging import with_resources
from nri_scope.nri.plain import is_map
from nri_scope.nri.request_subject import container_of, pod_of
from nri_scope.runtime import Profile
from nri_scope.runtime.lifecycle import request_about

from .model import Scenario, ScenarioContainer, ScenarioPod, Step, Verb, nearest, shown

KILLED = 137
"""Exit status of a container that is stopped: killed by SIGKILL."""

FIRST_PID = 10_001

_LONG = 20
"""Minimum length of an id that is replaced inside of texts: a short one may be part of a word."""
_KEYS_OF_NAMES = ("sandbox-name", "pod.name", "KubeName", "HOSTNAME")
"""Ends of the keys of annotations, labels and variables whose value is the name of a pod."""

M = TypeVar("M", bound=Message)


def derived_id(*names: object) -> str:
    """Return 64 hexadecimal digits, as the ids of runtimes have, for names."""
    return hashlib.sha256("/".join(map(str, names)).encode()).hexdigest()


def derived_uid(*names: object) -> str:
    """Return a UUID for names."""
    digits = derived_id("uid", *names)
    parts = digits[:8], digits[8:12], f"4{digits[13:16]}", f"8{digits[17:20]}", digits[20:32]
    return "-".join(parts)


def pod_copy(pod: api.PodSandbox, number: int) -> tuple[api.PodSandbox, NewTexts]:
    """Return copy ``number``, from 1, of a pod, and its texts by those of the original.

    ``pod`` has an id and a uid. The addresses of copies follow one another.
    """
    name = f"{pod.name}-{number}"
    uid = derived_uid(pod.uid, number)
    ids = {
        pod.id: derived_id("pod", pod.id, number),
        pod.uid: uid,
        # In names of systemd's slices, a dash separates levels.
        pod.uid.replace("-", "_"): uid.replace("-", "_"),
    }
    texts = NewTexts(ids, {pod.name: name})
    copy = texts.in_copy(pod)
    copy.name = name
    copy.ips[:] = [_next_address(address, number - 1) for address in pod.ips]
    return copy, texts


def _next_address(text: str, step: int) -> str:
    try:
        return str(ipaddress.ip_address(text) + step)
    except ValueError:
        return text


@dataclass(frozen=True, slots=True)
class NewTexts:
    """New texts for old ones in messages."""

    ids: Mapping[str, str]
    """Ids, which are replaced wherever they are a whole text, and long ones inside of texts."""
    names: Mapping[str, str] = field(default_factory=dict[str, str])
    """Names of pods, which are replaced only where a text is known to be a pod's name."""

    def in_copy(self, message: M) -> M:
        """Return a copy of a message with the new texts."""
        copy = deepcopy(message)
        self._replace(copy)
        return copy

    def _replace(self, message: Message) -> None:
        for descriptor, value in message.ListFields():
            if isinstance(value, str):
                setattr(message, descriptor.name, self._text(value))
            elif isinstance(value, Message):
                self._replace(value)
            elif is_map(descriptor):
                entries = cast("MutableMapping[str, Any]", value)
                for key in list(entries):
                    if isinstance(entries[key], Message):
                        self._replace(entries[key])
                    elif isinstance(entries[key], str):
                        entries[key] = self._text(entries[key], key)
            elif not isinstance(value, int):
                items = cast("MutableSequence[Any]", value)
                for index, item in enumerate(list(items)):
                    if isinstance(item, Message):
                        self._replace(item)
                    elif isinstance(item, str):
                        items[index] = self._item(item)

    def _item(self, text: str) -> str:
        name, equals, value = text.partition("=")
        return f"{name}={self._text(value, name)}" if equals else self._text(text)

    def _text(self, text: str, key: str = "") -> str:
        if key.endswith(_KEYS_OF_NAMES) and text in self.names:
            return self.names[text]
        if text in self.ids:
            return self.ids[text]
        for old, new in self.ids.items():
            if len(old) >= _LONG:
                text = text.replace(old, new)
        return text


MAX_BYTES = 96 << 20
"""Maximum size of all pods and containers together. In memory, they take several times that."""
_OBJECT_BYTES = 1_000
"""Size that is counted for each pod and container in addition to its message."""


class SubjectStage(Enum):
    """How far a pod or a container has come."""

    ABSENT = auto()
    CREATED = auto()
    RUNNING = auto()
    STOPPED = auto()


@dataclass(slots=True, eq=False)
class LiveContainer:
    """A container of one pod."""

    pod: LivePod
    spec: ScenarioContainer
    template: api.Container
    """As created for the first time."""
    message: api.Container
    """Its present content."""
    stage: SubjectStage = SubjectStage.ABSENT
    was_started: bool = False
    creations: int = 0

    @property
    def name(self) -> str:
        """The reference to it."""
        return f"{self.pod.name}/{self.spec.key}"

    def create(self) -> None:
        """Begin a new life: from the second one on with a new id, unless the first goes on."""
        self.creations += self.stage is SubjectStage.ABSENT
        self.stage, self.was_started = SubjectStage.CREATED, False
        self.message = deepcopy(self.template)
        if self.creations > 1:
            old = self.template.id
            new = derived_id("container", old, self.creations)
            self.message = NewTexts({old: new}).in_copy(self.template)


@dataclass(slots=True, eq=False)
class LivePod:
    """A pod, or one copy of it."""

    name: str
    """The reference to it."""
    spec: ScenarioPod
    template: api.PodSandbox
    """As run for the first time."""
    message: api.PodSandbox
    """Its present content."""
    stage: SubjectStage = SubjectStage.ABSENT
    containers: dict[str, LiveContainer] = field(default_factory=dict[str, LiveContainer])
    runs: int = 0

    def exist(self, *, tells_states: bool) -> None:
        """Begin with the containers that exist at the start; running ones, unless they say else.

        ``tells_states``: whether the runtime tells the states of containers.
        """
        self.run()
        for container in self.containers.values():
            if not container.spec.exists:
                continue
            container.create()
            if "state" not in container.spec.given and tells_states:
                container.message.state = api.ContainerState.CONTAINER_RUNNING
            state = container.message.state
            container.was_started = state != api.ContainerState.CONTAINER_CREATED
            if state == api.ContainerState.CONTAINER_STOPPED:
                container.stage = SubjectStage.STOPPED
            elif container.was_started:
                container.stage = SubjectStage.RUNNING

    def run(self) -> None:
        """Begin a new life: from the second one on, with a new id."""
        self.runs += 1
        self.stage = SubjectStage.RUNNING
        if self.runs == 1:
            return
        old = self.template.id
        texts = NewTexts({self.message.id: derived_id("pod", old, self.runs)})
        self.message = NewTexts({old: texts.ids[self.message.id]}).in_copy(self.template)
        for container in self.containers.values():
            container.template = texts.in_copy(container.template)


class Subjects:
    """All pods and containers."""

    def __init__(self, scenario: Scenario) -> None:
        """Create them with their ids. Raises UsageError if they are too large."""
        self._source, self._keys = scenario.source, scenario.pods.keys()
        self.pods: list[LivePod] = []
        self._by_key: dict[str, list[LivePod]] = {}
        self._by_name: dict[str, list[LivePod]] = {}
        self._next_pid = FIRST_PID
        size = 0
        for spec in scenario.pods.values():
            parts = [spec.message, *(container.message for container in spec.containers.values())]
            own = sum(message.ByteSize() + _OBJECT_BYTES for message in parts)
            size += own * max(1, spec.copies)
            if size > MAX_BYTES:
                raise UsageError(
                    f"{scenario.source}: its pods have more than {MAX_BYTES >> 20} MiB",
                    "write fewer copies",
                )
            self._add(spec)

    def containers(self) -> Iterator[LiveContainer]:
        """Yield all containers."""
        for pod in self.pods:
            yield from pod.containers.values()

    def find_pods(self, reference: str) -> list[LivePod]:
        """Return the pods that a reference means: all copies, or one; [] if there are none."""
        return self._by_key.get(reference) or self._by_name.get(reference) or []

    def find_containers(self, reference: str) -> list[LiveContainer]:
        """Return the containers that a reference means; [] if there are none."""
        pod, _, key = reference.rpartition("/")
        return [live.containers[key] for live in self.find_pods(pod) if key in live.containers]

    def unknown(self, step: Step, *, pods: bool, containers: bool) -> UsageError:
        """Return the error for a step whose subject does not exist."""
        references = list(self._by_key) if pods else []
        for key, live in self._by_key.items() if containers else ():
            references += [f"{key}/{name}" for name in live[0].containers]
        kind = "pod or container" if pods and containers else "pod" if pods else "container"
        problem = f"there is no {kind} {shown(step.subject)}"
        return step.position.error(problem, nearest(step.subject, references))

    # -- inside -------------------------------------------------------------------------------

    def _add(self, spec: ScenarioPod) -> None:
        for number in range(1, spec.copies + 1):
            if f"{spec.key}-{number}" in self._keys:
                raise UsageError(
                    f"{self._source}: {spec.key}-{number} is a pod and a copy of {spec.key}",
                    "give one of them another name",
                )
        pod = deepcopy(spec.message)
        if "id" not in spec.given:
            pod.id = derived_id("pod", spec.key)
        if "uid" not in spec.given:
            pod.uid = derived_uid(spec.key)
        if not spec.copies:
            self._add_one(spec, spec.key, pod, NewTexts({}), 0)
            return
        for number in range(1, spec.copies + 1):
            self._add_one(spec, f"{spec.key}-{number}", *pod_copy(pod, number), number)

    def _add_one(
        self, spec: ScenarioPod, name: str, message: api.PodSandbox, texts: NewTexts, number: int
    ) -> None:
        pod = LivePod(name, spec, message, deepcopy(message))
        if number or "pid" not in spec.given:
            pod.template.pid = pod.message.pid = self._pid()
        for container in spec.containers.values():
            pod.containers[container.key] = self._container(pod, container, texts, number)
        self.pods.append(pod)
        if number:
            self._by_key.setdefault(name, []).append(pod)
        self._by_key.setdefault(spec.key, []).append(pod)
        self._by_name.setdefault(f"{message.namespace}/{message.name}", []).append(pod)

    def _container(
        self, pod: LivePod, spec: ScenarioContainer, texts: NewTexts, number: int
    ) -> LiveContainer:
        old = spec.message.id if "id" in spec.given else derived_id("container", pod.name, spec.key)
        ids = {**texts.ids, old: derived_id("container", old, "copy", number) if number else old}
        message = NewTexts(ids, texts.names).in_copy(spec.message)
        if "id" not in spec.given:
            message.id = ids[old]
        if "pod_sandbox_id" not in spec.given:
            message.pod_sandbox_id = pod.message.id
        if number or "pid" not in spec.given:
            message.pid = self._pid()
        return LiveContainer(pod, spec, message, message)

    def _pid(self) -> int:
        self._next_pid += 1
        return self._next_pid - 1


class EventContents:
    """The contents of one runtime's events. For each, call `begin`, `request` and `end`."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._rules = profile.lifecycle_rules.contents

    def begin(
        self,
        event: EventKind,
        pod: LivePod,
        container: LiveContainer | None,
        step: Step,
        now_ns: int,
    ) -> Message:
        """Change the subjects as they are when the event is sent.

        Returns the event's own request message with all that is known about them.
        """
        if event is EventKind.RunPodSandbox and pod.stage is SubjectStage.ABSENT:
            pod.run()
        elif event is EventKind.RunPodSandbox:
            pod.stage = SubjectStage.RUNNING
        if event is EventKind.StopPodSandbox:
            pod.stage = SubjectStage.STOPPED
        if container is not None:
            _begin(event, container, step, now_ns)
            if step.container is not None:
                step.container.apply(container.message)
        if step.pod is not None:
            step.pod.apply(pod.message)
        request = request_about(event, pod.message, container.message if container else None)
        if isinstance(request, api.UpdateContainerRequest | api.UpdatePodSandboxRequest):
            request.linux_resources.CopyFrom(step.resources or api.LinuxResources())
        if isinstance(request, api.UpdatePodSandboxRequest):
            request.overhead_linux_resources.CopyFrom(step.overhead or api.LinuxResources())
        return request

    def request(
        self, event: EventKind, own: Message, pod: LivePod, live: LiveContainer | None, step: Step
    ) -> Message:
        """Return a request with what this runtime tells about its subjects in ``event``."""
        adapted = self._profile.lifecycle_rules.adapted(event, own)
        request = deepcopy(adapted)
        shown_pod, container = pod_of(event.name, request), container_of(event.name, request)
        if container is not None and live is not None:
            self._rules.set_container(container, event, was_started=live.was_started)
            if step.container is not None:
                step.container.apply(container)
        if shown_pod is not None:
            if (
                self._profile.lifecycle_rules.forgets_pods
                and event is EventKind.StopContainer
                and pod.stage is SubjectStage.ABSENT
            ):
                shown_pod.CopyFrom(api.PodSandbox(id=shown_pod.id))
            self._rules.set_pod(shown_pod, event, is_stopped=pod.stage is SubjectStage.STOPPED)
            if step.pod is not None:
                step.pod.apply(shown_pod)
        return request

    def end(
        self, event: EventKind, pod: LivePod, container: LiveContainer | None, step: Step
    ) -> None:
        """Change the subjects as they are after the event."""
        match event:
            case EventKind.UpdateContainer if container is not None and step.resources is not None:
                container.message = with_resources(container.message, step.resources)
            case EventKind.UpdatePodSandbox:
                if step.resources is not None:
                    pod.message.linux.pod_resources.CopyFrom(step.resources)
                if step.overhead is not None:
                    pod.message.linux.pod_overhead.CopyFrom(step.overhead)
            case EventKind.RemoveContainer if container is not None:
                container.stage = SubjectStage.ABSENT
            case EventKind.RemovePodSandbox:
                pod.stage = SubjectStage.ABSENT
            case _:
                pass


def _begin(event: EventKind, container: LiveContainer, step: Step, now_ns: int) -> None:
    match event:
        case EventKind.CreateContainer:
            container.create()
        case EventKind.PostCreateContainer:
            container.message.created_at = container.message.created_at or now_ns
        case EventKind.StartContainer:
            container.stage, container.was_started = SubjectStage.RUNNING, True
        case EventKind.PostStartContainer:
            container.message.started_at = now_ns
        case EventKind.StopContainer | EventKind.RemoveContainer if (
            container.stage is not SubjectStage.STOPPED
        ):
            container.stage = SubjectStage.STOPPED
            container.message.finished_at = now_ns
            container.message.exit_code = _exit_code(step)
        case _:
            pass


def _exit_code(step: Step) -> int:
    if step.exit_code is not None:
        return step.exit_code
    return 1 if step.what is Verb.CRASH else KILLED
