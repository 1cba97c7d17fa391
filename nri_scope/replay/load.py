# SPDX-License-Identifier: Apache-2.0
"""Load: many distinct pods, modelled on those of a recorded session, for one long-lived plugin.

All pods are started, at a fixed rate or as fast as the plugin replies; then all are stopped and
removed, so that the plugin has to manage all of them at once.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from time import monotonic_ns

from google.protobuf.message import Message

from nri_scope.errors import UsageError
from nri_scope.nri.events import Event
from nri_scope.nri.request_subject import container_of, pod_of
from nri_scope.recording.reader import Recording
from nri_scope.scenario.from_recording import runtime_of

from .load_model import PodModel
from .pace import Wait, no_wait
from .script import ReplaySelection, ReplayStep, Script

FORM = "pods=500,rate=50/s,containers=3"
PODS_MAX, CONTAINERS_MAX, RATE_MAX = 100_000, 100, 10_000.0
EVENTS_MAX = 2_000_000
"""Maximum number of events of one load: about an hour."""
MODELS_MAX = 100
"""Maximum number of recorded pods that serve as models."""
_UNIQUE_LENGTH = 16
"""Minimum length of an id that is replaced wherever it occurs; a shorter one may be a word."""
_POD_NAME_KEYS = ("io.kubernetes.pod.name", "io.kubernetes.cri.sandbox-name")
"""Labels and annotations with the name of the pod."""


@dataclass(frozen=True, slots=True)
class LoadShape:
    """Number of pods, and how they are started."""

    pods: int = 100
    rate: float = 0.0
    """Pods started per second; 0: as fast as the plugin replies."""
    containers: int = 0
    """Containers of each pod; 0: as recorded."""

    @property
    def wait(self) -> Wait:
        """Coroutine function that waits for the time of an event."""
        return _Schedule().wait if self.rate else no_wait


def parse_load(text: str) -> LoadShape:
    """Parse a shape such as `FORM`. Raises UsageError."""
    found: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not equals or name in found or name not in ("pods", "rate", "containers"):
            raise UsageError(f"--load {text}: {part!r} is not valid", f"write it as {FORM}")
        found[name] = value
    try:
        shape = LoadShape(
            int(found.get("pods", "100")),
            float(found.get("rate", "0").removesuffix("/s")),
            int(found.get("containers", "0")),
        )
    except ValueError as error:
        raise UsageError(f"--load {text}: a value is no number", f"write it as {FORM}") from error
    limits = (("pods", 1, PODS_MAX), ("containers", 1, CONTAINERS_MAX), ("rate", 0.001, RATE_MAX))
    for name, least, most in limits:
        if name in found and not least <= getattr(shape, name) <= most:
            raise UsageError(
                f"--load {text}: {name} is not between {least} and {most:,.0f}", "change it"
            )
    return shape


class LoadScript(Script):
    """Script of a load: copies of the pods that a session starts, from their start to their end.

    A pod that does not end in the session ends as this runtime ends one.
    """

    def __init__(self, recording: Recording, selection: ReplaySelection, shape: LoadShape) -> None:
        """Read the models. Raises UsageError if no selected event starts a pod."""
        super().__init__(recording, selection)
        self._shape = shape
        models: dict[str, PodModel] = {}
        for step in super().steps():
            pod = step.recorded.pod_id
            if not step.selected or step.message is None or not pod:
                continue
            if step.event is Event.RunPodSandbox and len(models) < MODELS_MAX:
                models.setdefault(pod, PodModel())
            if pod in models:
                models[pod].add(step)
        self._models = [one for one in models.values() if one.containers] or [*models.values()]
        if not self._models:
            raise UsageError(
                f"{recording.path}: session {self.session.id} starts no pod that could be a model "
                "for --load",
                "use a recording or scenario with RunPodSandbox",
            )
        profile = runtime_of(self.session).profile()
        for model in self._models:
            model.add_ends(profile)
        self._check_size()

    def _check_size(self) -> None:
        events = 0
        for model in self._models:
            each = [len(one.life) + len(one.end) for one in model.containers.values()]
            count = self._shape.containers or len(each)
            events = max(events, count * max(each, default=0) + len(model.start) + len(model.end))
        if events * self._shape.pods > EVENTS_MAX:
            raise UsageError(
                f"--load: {self._shape.pods:,} pods of up to {events:,} events are too many",
                f"choose fewer, for at most {EVENTS_MAX:,} events",
            )

    def steps(self) -> Iterator[ReplayStep]:
        """Yield the events: all starts, then all ends."""
        numbers = iter(range(1, EVENTS_MAX + 1))
        for ending in (False, True):
            for number in range(self._shape.pods):
                model = self._models[number % len(self._models)]
                period_ns = 1e9 / self._shape.rate if self._shape.rate else 0
                at_ns = int((number + ending * self._shape.pods) * period_ns)
                for copy, step in self._of_pod(model, number, ending=ending):
                    yield _copied(
                        step, number, copy, next(numbers), self.session.started_ns + at_ns
                    )

    def _of_pod(
        self, model: PodModel, number: int, *, ending: bool
    ) -> Iterator[tuple[int, ReplayStep]]:
        """Yield the events of one copy of a pod, each with the number of its container's copy."""
        if not ending:
            yield from ((0, step) for step in model.start)
        count = self._shape.containers or len(model.containers)
        containers = [*model.containers.values()]
        for copy in range(count if containers else 0):
            one = containers[copy % len(containers)]
            yield from (
                (copy // len(containers), step) for step in (one.end if ending else one.life)
            )
        if ending:
            yield from ((0, step) for step in model.end)


def _copied(step: ReplayStep, pod_number: int, copy: int, event: int, at_ns: int) -> ReplayStep:
    """Return the event of a copied pod: with other ids, and other names."""
    recorded, message = step.recorded, step.message
    assert message is not None
    pod = pod_of(recorded.event, message)
    data = message.SerializeToString()
    uid = pod.uid if pod is not None else ""
    renamed = {recorded.pod_id: f"{pod_number}", uid: f"{pod_number}"}
    if recorded.container_id:
        renamed[recorded.container_id] = f"{pod_number}/{copy}"
    for old, of in renamed.items():
        if len(old) >= _UNIQUE_LENGTH:
            # The length stays, and so all lengths in the message.
            data = data.replace(old.encode(), _other(old, of).encode())
    new = type(message).FromString(data)
    name = f"{recorded.pod}-{pod_number:05d}"
    pod_id, container_id = recorded.pod_id, recorded.container_id
    pod_id = _other(pod_id, f"{pod_number}")
    container_id = _other(container_id, f"{pod_number}/{copy}") if container_id else ""
    container_name = f"{recorded.container}-{copy}" if copy else recorded.container
    _rename_pod(recorded.event, new, pod_id, name, _other(uid, f"{pod_number}") if uid else "")
    _rename_container(recorded.event, new, pod_id, container_id, container_name if copy else "")
    return replace(
        step,
        recorded=replace(
            recorded,
            id=event,
            at_ns=at_ns,
            pod_id=pod_id,
            pod=name,
            container_id=container_id,
            container=container_name,
        ),
        message=new,
        request=b"",
        selected=True,
    )


def _rename_pod(event: str, message: Message, pod_id: str, name: str, uid: str) -> None:
    pod = pod_of(event, message)
    if pod is None:
        return
    pod.id, pod.name, pod.uid = pod_id, name if pod.name else "", uid
    for values in (pod.labels, pod.annotations):
        for key in _POD_NAME_KEYS:
            if key in values:
                values[key] = name


def _rename_container(
    event: str, message: Message, pod_id: str, container_id: str, name: str
) -> None:
    container = container_of(event, message)
    if container is None:
        return
    container.id, container.pod_sandbox_id = container_id if container.id else "", pod_id
    if name:
        container.name = name


def _other(text: str, of: str) -> str:
    """Return another id of the same form: hexadecimal digits replace those of ``text``."""
    digits = iter(hashlib.shake_128(f"{text}/{of}".encode()).hexdigest(len(text)))
    if len(text) < _UNIQUE_LENGTH:
        return f"{text}-{of.replace('/', '-')}"
    return "".join(next(digits) if char in "0123456789abcdef" else char for char in text)


class _Schedule:
    """Waits for the time of each event since the first one, whatever the plugin's replies took."""

    def __init__(self) -> None:
        self._first_ns: int | None = None
        self._began_ns = 0

    async def wait(self, step: ReplayStep) -> None:
        """Return when the event is due, or at once if it is late."""
        if self._first_ns is None:
            self._first_ns, self._began_ns = step.recorded.at_ns, monotonic_ns()
        due_ns = self._began_ns + step.recorded.at_ns - self._first_ns
        await asyncio.sleep(max(0, due_ns - monotonic_ns()) / 1e9)
