# SPDX-License-Identifier: Apache-2.0
"""The pods and containers of a scenario while its steps are played, and references to them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, auto

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import UsageError

from .identities import FIRST_PID, NewTexts, derived_id, derived_uid, pod_copy
from .model import Scenario, ScenarioContainer, ScenarioPod
from .place import Place, nearest, shown

MAX_BYTES = 96 << 20
"""Maximum size of all pods and containers together. In memory, they take several times that."""
_OBJECT_BYTES = 1_000
"""Size that is counted for each pod and container in addition to its message."""


class Stage(Enum):
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
    stage: Stage = Stage.ABSENT
    was_started: bool = False
    creations: int = 0

    @property
    def name(self) -> str:
        """The reference to it."""
        return f"{self.pod.name}/{self.spec.key}"

    def create(self) -> None:
        """Begin a new life: from the second one on with a new id, unless the first goes on."""
        self.creations += self.stage is Stage.ABSENT
        self.stage, self.was_started = Stage.CREATED, False
        self.message = api.Container()
        self.message.CopyFrom(self.template)
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
    stage: Stage = Stage.ABSENT
    containers: dict[str, LiveContainer] = field(default_factory=dict[str, LiveContainer])
    runs: int = 0

    def exist(self, *, tells_states: bool) -> None:
        """Begin with the containers that exist at the start; running ones, unless they say else.

        ``tells_states``: whether the runtime tells the states of containers.
        """
        self.run()
        for one in self.containers.values():
            if not one.spec.exists:
                continue
            one.create()
            if "state" not in one.spec.given and tells_states:
                one.message.state = api.ContainerState.CONTAINER_RUNNING
            state = one.message.state
            one.was_started = state != api.ContainerState.CONTAINER_CREATED
            if state == api.ContainerState.CONTAINER_STOPPED:
                one.stage = Stage.STOPPED
            elif one.was_started:
                one.stage = Stage.RUNNING

    def run(self) -> None:
        """Begin a new life: from the second one on, with a new id."""
        self.runs += 1
        self.stage = Stage.RUNNING
        if self.runs == 1:
            return
        old = self.template.id
        texts = NewTexts({self.message.id: derived_id("pod", old, self.runs)})
        self.message = NewTexts({old: texts.ids[self.message.id]}).in_copy(self.template)
        for one in self.containers.values():
            one.template = texts.in_copy(one.template)


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
            messages = [spec.message, *(one.message for one in spec.containers.values())]
            own = sum(message.ByteSize() + _OBJECT_BYTES for message in messages)
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
        return [one.containers[key] for one in self.find_pods(pod) if key in one.containers]

    def unknown(self, reference: str, place: Place, *, pods: bool, containers: bool) -> UsageError:
        """Return the error for a reference that means nothing."""
        known = list(self._by_key) if pods else []
        for key, found in self._by_key.items() if containers else ():
            known += [f"{key}/{name}" for name in found[0].containers]
        kind = "pod or container" if pods and containers else "pod" if pods else "container"
        return place.error(f"there is no {kind} {shown(reference)}", nearest(reference, known))

    # -- inside -------------------------------------------------------------------------------

    def _add(self, spec: ScenarioPod) -> None:
        for number in range(1, spec.copies + 1):
            if f"{spec.key}-{number}" in self._keys:
                raise UsageError(
                    f"{self._source}: {spec.key}-{number} is a pod and a copy of {spec.key}",
                    "give one of them another name",
                )
        pod = api.PodSandbox()
        pod.CopyFrom(spec.message)
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
        pod = LivePod(name, spec, message, api.PodSandbox.FromString(message.SerializeToString()))
        if number or "pid" not in spec.given:
            pod.template.pid = pod.message.pid = self._pid()
        for one in spec.containers.values():
            pod.containers[one.key] = self._container(pod, one, texts, number)
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
