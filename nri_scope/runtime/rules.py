# SPDX-License-Identifier: Apache-2.0
"""Rules of runtimes outside the NRI library: dispatch of events, and data about the lifecycle.

Behaviour that depends on the NRI version is in ``profile``; this is the runtime's own. Read in
containerd 1.7.24 to 1.7.35, 2.0.0 to 2.0.14, 2.1 to 2.3.7 and 2.4.2 (``pkg/nri``, ``pkg/cri/nri``,
later ``internal/nri``, ``internal/cri``), in each release of CRI-O 1.33 to 1.36 and in 1.37
(``internal/nri``, ``server``) and in iSulad's master (``src/daemon/nri``,
``src/daemon/common/nri``), and in recorded traffic of containerd 1.7.24, 2.1.9, 2.4.0-beta and
CRI-O 1.37. The order of events is the same: every runtime sends an event when it happens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeVar

from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.events import EventKind
from nri_scope.nri.request_subject import container_of, name_of_container, name_of_pod, pod_of
from nri_scope.nri.versions import runtime_title, sort_key


@dataclass(frozen=True, slots=True)
class DispatchRules:
    """How a runtime dispatches events, and handles replies and failures."""

    failure_prefixes: Mapping[EventKind, str]
    """Events whose error fails the CRI request, with the text that the runtime puts before the
    error. An error in any other event is only logged."""
    undo_events: Mapping[EventKind, tuple[EventKind, ...]] = field(default_factory=dict)
    """Events that the runtime sends to undo a failed request, by the event that failed."""
    closes_on_error: bool = False
    """Whether an error status only closes the connection: the chain and the request continue."""
    shows_adjustments: bool = True
    """Whether each plugin sees the container as adjusted by the plugins before it."""
    orders_by_name: bool = False
    """Whether plugins are ordered by name instead of index."""
    synchronizes_launched: bool = True
    """Whether plugins that the runtime launches get Synchronize (with NRI 0.7 and later)."""
    keeps_unsynchronized: bool = False
    """Whether a plugin gets events even if its Synchronize failed."""


CONTAINERD_DISPATCH = DispatchRules(
    # Error texts of sandbox_run.go, sandbox_update_resources.go, container_create.go with
    # WithContainerAdjustment, container_start.go and container_update_resources.go.
    failure_prefixes=MappingProxyType(
        {
            EventKind.RunPodSandbox: "NRI RunPodSandbox failed: ",
            EventKind.UpdatePodSandbox: "NRI sandbox update failed: ",
            EventKind.CreateContainer: (
                "failed to create containerd container: "
                "failed to get NRI adjustment for container: "
            ),
            EventKind.StartContainer: "NRI container start failed: ",
            EventKind.UpdateContainer: "NRI container update failed: ",
        }
    ),
    # nri_api_linux.go (RunPodSandbox, UndoCreateContainer); container_start.go stops in a defer.
    undo_events=MappingProxyType(
        {
            EventKind.RunPodSandbox: (EventKind.StopPodSandbox, EventKind.RemovePodSandbox),
            EventKind.CreateContainer: (EventKind.StopContainer, EventKind.RemoveContainer),
            EventKind.StartContainer: (EventKind.StopContainer,),
        }
    ),
)

CRI_O_DISPATCH = DispatchRules(
    # No prefixes. An error in StartContainer is only logged. One in StopPodSandbox leaves the pod
    # running: the kubelet retries, and CRI-O sends the event again.
    failure_prefixes=MappingProxyType(
        dict.fromkeys(
            (
                EventKind.RunPodSandbox,
                EventKind.StopPodSandbox,
                EventKind.UpdatePodSandbox,
                EventKind.CreateContainer,
                EventKind.UpdateContainer,
            ),
            "",
        )
    ),
    # A creation is undone only if it fails after the chain.
    undo_events=MappingProxyType(
        {EventKind.RunPodSandbox: (EventKind.StopPodSandbox, EventKind.RemovePodSandbox)}
    ),
)

ISULAD_DISPATCH = DispatchRules(
    # nri_adaption.cc: the request continues after any error of a plugin. These fail if the merged
    # reply is unusable, or makes iSulad crash, as any UpdateContainer does.
    failure_prefixes=MappingProxyType(
        dict.fromkeys(
            (EventKind.CreateContainer, EventKind.UpdateContainer, EventKind.StopContainer), ""
        )
    ),
    closes_on_error=True,
    # All plugins get the original request.
    shows_adjustments=False,
    # m_storeMap has launched plugins by name and external ones by a random key, so the order of
    # external plugins is undefined; here they are also ordered by name.
    orders_by_name=True,
    synchronizes_launched=False,
    # NewExternalPlugin adds the plugin first, and removes it only if its registration fails.
    keeps_unsynchronized=True,
)

DOCKER_DISPATCH = DispatchRules(
    # The error of the API. A container that could not be created is undone without an event.
    failure_prefixes=MappingProxyType({EventKind.CreateContainer: ""}),
)

_RULES = {
    "CRI-O": CRI_O_DISPATCH,
    "Docker Engine": DOCKER_DISPATCH,
    "iSulad": ISULAD_DISPATCH,
}


_FAILED_STOPS = (((0, 0, 0), (1, 33, 10)), ((1, 34, 0), (1, 34, 5)))
"""Versions of CRI-O, from and before, in which an error in StopContainer fails the CRI request
(``stopContainer`` in server/container_stop.go); later ones only log it."""


def dispatch_rules_of(runtime_name: str, runtime_version: str = "") -> DispatchRules:
    """Return the rules of a runtime, by its name and version in Configure.

    They are containerd's if the name is unknown.
    """
    rules = _RULES.get(runtime_title(runtime_name), CONTAINERD_DISPATCH)
    key = sort_key(runtime_version)
    if rules is CRI_O_DISPATCH and key and any(a <= key[:3] < b for a, b in _FAILED_STOPS):
        prefixes = {**rules.failure_prefixes, EventKind.StopContainer: ""}
        return replace(rules, failure_prefixes=MappingProxyType(prefixes))
    return rules


_State = api.ContainerState
_RECORDED_STATES: Mapping[EventKind, api.ContainerState.ValueType] = MappingProxyType({})
M = TypeVar("M", bound=Message)


_SPEC_ANNOTATIONS = "io.kubernetes.cri."
"""Prefix of the annotations that containerd takes from the OCI spec of a pod's own container."""
_AFTER_START = frozenset(
    {
        EventKind.StartContainer,
        EventKind.PostStartContainer,
        EventKind.UpdateContainer,
        EventKind.PostUpdateContainer,
    }
)


@dataclass(frozen=True, slots=True)
class ContentRules:
    """What a runtime tells about a pod and a container in each event."""

    pid_events: frozenset[EventKind] = _AFTER_START | {EventKind.StopContainer}
    """Events in which a container has its process id."""
    tells_times: bool = False
    """Whether a container has the times of its creation, start and end, and its exit status."""
    tells_process: bool = True
    """Whether a container has its user and rlimits."""
    starts_late: bool = False
    """Whether the time of the start is not yet known in PostStartContainer."""
    keeps_created: bool = False
    """Whether a container that was not started is stopped and removed with the state CREATED."""
    pid_of_stopped_pod: bool = False
    """Whether a pod has a process id in StopPodSandbox and later."""
    forgets_spec: EventKind | None = None
    """Event from which on a pod lacks what containerd takes from the OCI spec of its container."""

    def set_container(
        self, container: api.Container, event: EventKind, *, was_started: bool
    ) -> None:
        """Remove what the runtime does not tell about a container in ``event``.

        ``was_started``: whether this or an earlier event is StartContainer.
        """
        has_pid = was_started or EventKind.PostCreateContainer in self.pid_events
        if event not in self.pid_events or not has_pid:
            container.ClearField("pid")
        created = event is not EventKind.CreateContainer
        started = was_started and event is not EventKind.StartContainer
        if event is EventKind.PostStartContainer and self.starts_late:
            started = False
        ended = event in (EventKind.StopContainer, EventKind.RemoveContainer)
        if not self.tells_process:
            container.ClearField("user")
            container.ClearField("rlimits")
        if not (created and self.tells_times):
            container.ClearField("created_at")
        if not (started and self.tells_times):
            container.ClearField("started_at")
        if not (ended and self.tells_times):
            container.ClearField("finished_at")
            container.ClearField("exit_code")
        if ended and self.keeps_created and not was_started:
            container.state = api.ContainerState.CONTAINER_CREATED
        if created and not container.hooks.ListFields():
            container.ClearField("hooks")

    def set_pod(self, pod: api.PodSandbox, event: EventKind, *, is_stopped: bool) -> None:
        """Remove what the runtime does not tell about a pod in ``event``.

        ``is_stopped``: whether this or an earlier event is StopPodSandbox.
        """
        if is_stopped and not self.pid_of_stopped_pod:
            pod.ClearField("pid")
        if self.forgets_spec is EventKind.StopPodSandbox:
            forgets = is_stopped
        else:
            forgets = event is self.forgets_spec
        if not forgets or not pod.name:
            return
        for key in [key for key in pod.annotations if key.startswith(_SPEC_ANNOTATIONS)]:
            del pod.annotations[key]
        pod.linux.ClearField("cgroups_path")
        pod.linux.ClearField("namespaces")
        pod.linux.ClearField("resources")


@dataclass(frozen=True, slots=True)
class LifecycleRules:
    """Lifecycle data sent by one runtime. The default sends each event as it happens."""

    tracks_containers: bool = False
    """Whether it tracks the containers sent to its plugins: StopContainer is sent no later than
    just before RemoveContainer; neither is sent for a container that no plugin got."""
    tracks_pods: bool = False
    """Whether it tracks pods: StopPodSandbox and RemovePodSandbox are sent only for pods run since
    the runtime started."""
    stops_once: bool = False
    """Whether StopContainer is sent once for each container, and StopPodSandbox once for each pod
    unless it fails."""
    name_annotation: str = ""
    """Annotation, or label, that has the name sent for a container; "" if the name is always sent.
    The kubelet sets it as a label, other clients of the CRI need not: they get no names."""
    forgets_pods: bool = False
    """Whether StopContainer after RemovePodSandbox has only the pod's id."""
    creates_without_id: bool = False
    """Whether CreateContainer has no container id, because the runtime assigns it later."""
    long_names: bool = False
    """Whether names are those of iSulad: ``k8s_POD_web_shop_UID_0`` for the pod ``shop/web``, and
    ``k8s_app_web_shop_UID_0`` for its container ``app``, but ``app`` in CreateContainer."""
    is_sparse: bool = False
    """Whether pods and containers are those of Docker Engine: of a pod it tells only the id and the
    name, of a container only names, labels, annotations, state, process id, arguments and
    variables. Each container is its own pod, with the same id and name."""
    tells_states: bool = True
    """Whether it tells the states of containers, and sends events of the containers of a pod that
    is stopped or removed. iSulad does neither."""
    states: Mapping[EventKind, api.ContainerState.ValueType] = field(
        default_factory=lambda: _RECORDED_STATES
    )
    """Container state sent with each event, for containers that have run. (Runtimes remove
    containers that never ran with other states; that is not emulated here.)"""
    contents: ContentRules = ContentRules()
    """What events tell in a scenario; requests from a recording keep what was recorded."""

    def recorded(self) -> LifecycleRules:
        """Return the rules for sending this runtime's requests as they were recorded."""
        return LifecycleRules(
            # The id of a later event is also that of the creation.
            creates_without_id=self.creates_without_id,
            # A replayed plugin may change the annotation.
            name_annotation=self.name_annotation,
            contents=self.contents,
        )

    def adapted(self, event: EventKind, request: M) -> M:
        """Return ``request`` as this runtime sends it; the same object if nothing differs."""
        container, pod = container_of(event.name, request), pod_of(event.name, request)
        state = container and self._state(event, container)
        name = container and self._name(container)
        omits_id = self.creates_without_id and event is EventKind.CreateContainer
        told = (state, name, omits_id)
        is_same = container is None or told == (container.state, container.name, False)
        if is_same and not ((self.long_names or (self.is_sparse and container)) and pod):
            return request
        adapted = deepcopy(request)
        container, pod = container_of(event.name, adapted), pod_of(event.name, adapted)
        if container is not None and state is not None:
            container.state, container.name = state, name or ""
            if omits_id:
                container.ClearField("id")
        if self.long_names and pod is not None:
            if container is not None and event is not EventKind.CreateContainer:
                _lengthen(container, pod)
            _lengthen(pod, pod)
        if self.is_sparse and pod is not None and container is not None:
            pod.CopyFrom(_strip(container))
        return adapted

    def adapted_state(
        self, pods: Sequence[api.PodSandbox], containers: Sequence[api.Container]
    ) -> tuple[list[api.PodSandbox], list[api.Container]]:
        """Return the pods and containers of Synchronize as this runtime sends them."""
        if self.is_sparse:
            own = [deepcopy(container) for container in containers]
            ids = {container.pod_sandbox_id for container in own}
            alone = [api.Container(id=pod.id, name=pod.name) for pod in pods if pod.id not in ids]
            return [_strip(container) for container in (*own, *alone)], own
        own = [deepcopy(container) for container in containers] if self.name_annotation else []
        for container in own:
            container.name = self._name(container)
        if not self.long_names:
            return list(pods), own or list(containers)
        copies = [deepcopy(pod) for pod in pods]
        by_id = {pod.id: pod for pod in pods}
        for pod in copies:
            _lengthen(pod, pod)
        own = [deepcopy(container) for container in containers]
        for container in own:
            if container.pod_sandbox_id in by_id:
                _lengthen(container, by_id[container.pod_sandbox_id])
        return copies, own

    def _state(self, event: EventKind, container: api.Container) -> api.ContainerState.ValueType:
        created = container.state == api.ContainerState.CONTAINER_CREATED
        ended = event in (EventKind.StopContainer, EventKind.RemoveContainer)
        is_kept = created and ended and self.contents.keeps_created
        return container.state if is_kept else self.states.get(event, container.state)

    def _name(self, container: api.Container) -> str:
        key = self.name_annotation
        if not key:
            return container.name
        return container.annotations.get(key) or container.labels.get(key, "")


def _strip(container: api.Container) -> api.PodSandbox:
    """Remove what Docker Engine does not tell about a container; return its pod."""
    name = container.name
    sparse = api.Container(
        id=container.id,
        pod_sandbox_id=container.id,
        name=name if name.startswith("/") else f"/{name}",
        state=container.state,
        labels=container.labels,
        annotations=container.annotations,
        args=container.args,
        env=container.env,
        linux=api.LinuxContainer(),
        pid=container.pid,
    )
    container.CopyFrom(sparse)
    return api.PodSandbox(id=sparse.id, name=sparse.name)


def _lengthen(subject: api.PodSandbox | api.Container, pod: api.PodSandbox) -> None:
    """Give a pod or its container the name that iSulad sends, unless it has one."""
    if isinstance(subject, api.PodSandbox):
        short, middle = name_of_pod(subject), "POD"
    else:
        short = middle = name_of_container(subject)
    if short == subject.name:
        subject.name = f"k8s_{middle}_{name_of_pod(pod)}_{pod.namespace}_{pod.uid}_0"


_COMMON = {
    EventKind.CreateContainer: _State.CONTAINER_UNKNOWN,
    EventKind.PostCreateContainer: _State.CONTAINER_CREATED,
    EventKind.StartContainer: _State.CONTAINER_CREATED,
    EventKind.PostStartContainer: _State.CONTAINER_RUNNING,
    EventKind.UpdateContainer: _State.CONTAINER_RUNNING,
    EventKind.PostUpdateContainer: _State.CONTAINER_RUNNING,
}

VERBATIM = LifecycleRules()

CONTAINERD = LifecycleRules(
    tracks_containers=True,
    tracks_pods=True,
    stops_once=True,
    forgets_pods=True,
    # StopContainer is sent before the exit is stored: the container still counts as running.
    states=MappingProxyType(
        {
            **_COMMON,
            EventKind.StopContainer: _State.CONTAINER_RUNNING,
            EventKind.RemoveContainer: _State.CONTAINER_STOPPED,
        }
    ),
    contents=ContentRules(
        tells_process=False, keeps_created=True, forgets_spec=EventKind.RemovePodSandbox
    ),
)
"""containerd 2.1 and 2.2."""

CONTAINERD_1_7 = replace(
    CONTAINERD, contents=replace(CONTAINERD.contents, forgets_spec=EventKind.StopPodSandbox)
)
"""containerd 1.7 and 2.0."""

CONTAINERD_2_3 = replace(
    CONTAINERD,
    # StopContainer is sent after the exit is stored; RemoveContainer has an unknown state.
    states=MappingProxyType(
        {
            **_COMMON,
            EventKind.StopContainer: _State.CONTAINER_STOPPED,
            EventKind.RemoveContainer: _State.CONTAINER_UNKNOWN,
        }
    ),
    contents=ContentRules(tells_times=True),
)
"""containerd 2.3 and later; observed with 2.4.0-beta, whose code for this equals that of 2.3.0."""

CRI_O = LifecycleRules(
    tracks_containers=True,
    stops_once=True,
    states=MappingProxyType(
        {
            **_COMMON,
            # CRI-O reads the new state only after this event.
            EventKind.PostStartContainer: _State.CONTAINER_CREATED,
            EventKind.StopContainer: _State.CONTAINER_STOPPED,
            EventKind.RemoveContainer: _State.CONTAINER_STOPPED,
        }
    ),
    contents=ContentRules(
        frozenset(EventKind) - {EventKind.CreateContainer},
        tells_times=True,
        starts_late=True,
        pid_of_stopped_pod=True,
    ),
)

CRI_O_1_36 = replace(CRI_O, name_annotation="io.kubernetes.container.name")
"""CRI-O 1.36: ``criContainer.GetName`` in server/nri-api.go reads only the annotation of the spec.
(1.35.6 and 1.36.3 were run: without the label, a container has no name in any event.)"""

CRI_O_1_33 = replace(
    CRI_O_1_36,
    contents=ContentRules(frozenset(), tells_process=False, pid_of_stopped_pod=True),
)
"""CRI-O 1.33.0 to 1.33.9 and 1.34.0 to 1.34.4: ``containerToNRI`` has no process, times and exit
status."""

CRI_O_1_35 = replace(
    CRI_O_1_33,
    states=MappingProxyType({**CRI_O.states, EventKind.StopContainer: _State.CONTAINER_RUNNING}),
)
"""Later versions up to 1.35, which read the state after StopContainer (``postStopCleanup``)."""

DOCKER = LifecycleRules(
    states=MappingProxyType({EventKind.CreateContainer: _State.CONTAINER_CREATED}),
    is_sparse=True,
)

ISULAD = LifecycleRules(
    creates_without_id=True,
    long_names=True,
    tells_states=False,
    states=MappingProxyType(dict.fromkeys(EventKind, _State.CONTAINER_UNKNOWN)),
    contents=ContentRules(_AFTER_START),
)
