# SPDX-License-Identifier: Apache-2.0
"""Rules of runtimes for the content of messages over the life of a pod or a container.

`runtime.lifecycle_rules` has the states of containers and the names. Sources: recorded traffic of
containerd 1.7.24, 2.1.9 and 2.4.0-beta, CRI-O 1.37 and iSulad 2.1.6.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.events import Event
from nri_scope.nri.versions import V0_7, runtime_title
from nri_scope.runtime import Profile
from nri_scope.runtime.lifecycle_rules import CONTAINERD_2_3

_SPEC_ANNOTATIONS = "io.kubernetes.cri."
"""Prefix of the annotations that containerd takes from the OCI spec of a pod's own container."""
_AFTER_START = frozenset(
    {
        Event.StartContainer,
        Event.PostStartContainer,
        Event.UpdateContainer,
        Event.PostUpdateContainer,
    }
)


@dataclass(frozen=True, slots=True)
class ContentRules:
    """What a runtime tells about a pod and a container in each event."""

    pid_events: frozenset[Event]
    """Events in which a container has its process id."""
    tells_times: bool
    """Whether a container has the times of its creation, start and end, and its exit status."""
    starts_late: bool
    """Whether the time of the start is not yet known in PostStartContainer."""
    keeps_created: bool
    """Whether a container that was not started is stopped and removed with the state CREATED."""
    pid_of_stopped_pod: bool
    """Whether a pod has a process id in StopPodSandbox and later."""
    forgets_spec: Event | None
    """Event from which on a pod lacks what containerd takes from the OCI spec of its container."""

    def set_container(self, container: api.Container, event: Event, *, was_started: bool) -> None:
        """Remove what the runtime does not tell about a container in ``event``.

        ``was_started``: whether this or an earlier event is StartContainer.
        """
        has_pid = was_started or Event.PostCreateContainer in self.pid_events
        if event not in self.pid_events or not has_pid:
            container.ClearField("pid")
        created = event is not Event.CreateContainer
        started = was_started and event is not Event.StartContainer
        if event is Event.PostStartContainer and self.starts_late:
            started = False
        ended = event in (Event.StopContainer, Event.RemoveContainer)
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

    def set_pod(self, pod: api.PodSandbox, event: Event, *, is_stopped: bool) -> None:
        """Remove what the runtime does not tell about a pod in ``event``.

        ``is_stopped``: whether this or an earlier event is StopPodSandbox.
        """
        if is_stopped and not self.pid_of_stopped_pod:
            pod.ClearField("pid")
        if self.forgets_spec is Event.StopPodSandbox:
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


def content_rules_of(profile: Profile) -> ContentRules:
    """Return the rules of a runtime; those of containerd if it is unknown."""
    title = runtime_title(profile.runtime_name)
    if title == "CRI-O":
        return ContentRules(
            frozenset(Event) - {Event.CreateContainer},
            tells_times=True,
            starts_late=True,
            keeps_created=False,
            pid_of_stopped_pod=True,
            forgets_spec=None,
        )
    is_modern = profile.lifecycle_rules is CONTAINERD_2_3
    rules = ContentRules(
        _AFTER_START if title == "iSulad" else _AFTER_START | {Event.StopContainer},
        tells_times=is_modern,
        starts_late=False,
        keeps_created=False,
        pid_of_stopped_pod=False,
        forgets_spec=None,
    )
    if is_modern or title == "iSulad":
        return rules
    is_old = profile.version is not None and profile.version < V0_7
    return replace(
        rules,
        keeps_created=True,
        forgets_spec=Event.StopPodSandbox if is_old else Event.RemovePodSandbox,
    )
