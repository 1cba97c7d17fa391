# SPDX-License-Identifier: Apache-2.0
"""Event sequences that runtimes send about pods and containers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.events import METHODS, EventKind
from nri_scope.nri.request_subject import decode_request
from nri_scope.runtime import PROFILES, LifecycleState, Profile
from nri_scope.runtime.lifecycle import LifecycleStep

from .captures import exchanges
from .stored_requests import recorded_profile

POD = api.PodSandbox(id="pod", name="web", namespace="shop")
APP = api.Container(id="app", pod_sandbox_id="pod", name="app")
CONTAINERD = PROFILES["containerd-2.1"]
CRI_O = PROFILES["cri-o"]
ISULAD = PROFILES["isulad"]
RECORDED = Profile.of("recorded", "containerd", "2.1.9", "0.8.0")


def about(event: EventKind, container: api.Container = APP) -> api.StateChangeEvent:
    """Return the event's own request; typed as one that has both a pod and a container."""
    request = METHODS[event.name].request()
    request.pod.CopyFrom(POD)  # type: ignore[attr-defined]
    if not event.is_pod_event:
        request.container.CopyFrom(container)  # type: ignore[attr-defined]
    return request  # type: ignore[return-value]


def sent(course: LifecycleState, *events: EventKind) -> list[str]:
    """Return the names of the events that are sent for ``events``; skipped ones in brackets."""
    return [
        f"({step.event.name})" if step.skipped else step.event.name
        for event in events
        for step in course.steps_of(event, about(event))
    ]


LIFE = (
    EventKind.RunPodSandbox,
    EventKind.CreateContainer,
    EventKind.PostCreateContainer,
    EventKind.StartContainer,
    EventKind.PostStartContainer,
    EventKind.StopContainer,
    EventKind.RemoveContainer,
    EventKind.StopPodSandbox,
    EventKind.RemovePodSandbox,
)


@pytest.mark.parametrize("name", [name for name in PROFILES if name != "docker"])
def test_ordinary_lifecycle_is_sent_unchanged(name: str) -> None:
    course = LifecycleState(PROFILES[name])
    for event in LIFE:
        request = about(event)
        assert course.steps_of(event, request) == (LifecycleStep(event, request),)


@pytest.mark.parametrize(
    ("capture", "profile"),
    [
        ("containerd-1.7.24", "containerd-1.7"),
        ("containerd-2.1.9", "containerd-2.1"),
        ("containerd-2.4-beta", "containerd-2.3"),
        ("cri-o-1.37", "cri-o"),
        ("docker-29.2", "docker"),
    ],
)
def test_captured_lifecycle_is_sent_unchanged(capture: str, profile: str) -> None:
    course = LifecycleState(PROFILES[profile])
    for stored, _ in exchanges(capture):
        if stored.plugin != "00-probe-a":
            continue
        decoded = decode_request(stored.method, stored.request)
        if isinstance(decoded.message, api.SynchronizeRequest):
            course.note_containers(decoded.message.containers)
        if decoded.event not in EventKind.__members__:
            continue
        event = EventKind[decoded.event]
        request = METHODS[event.name].request()
        if decoded.pod is not None:
            request.pod.CopyFrom(decoded.pod)  # type: ignore[attr-defined]
        if decoded.container is not None:
            request.container.CopyFrom(decoded.container)  # type: ignore[attr-defined]
        assert course.steps_of(event, request) == (LifecycleStep(event, request),), event


# -- tracking -------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", [CONTAINERD, CRI_O], ids=lambda profile: profile.name)
def test_removal_of_a_running_container_adds_its_stop(profile: Profile) -> None:
    course = LifecycleState(profile)
    sent(course, *LIFE[:5])
    stop, removal = course.steps_of(EventKind.RemoveContainer, about(EventKind.RemoveContainer))
    assert (stop.event, stop.added, stop.skipped) == (EventKind.StopContainer, True, "")
    assert stop.request == about(EventKind.StopContainer)
    assert (removal.event, removal.added) == (EventKind.RemoveContainer, False)


@pytest.mark.parametrize("profile", [CONTAINERD, CRI_O], ids=lambda profile: profile.name)
def test_stop_is_sent_once(profile: Profile) -> None:
    course = LifecycleState(profile)
    stop = EventKind.StopContainer
    assert sent(course, *LIFE[:5], stop, stop)[5:] == ["StopContainer", "(StopContainer)"]


@pytest.mark.parametrize("profile", [RECORDED, ISULAD], ids=lambda profile: profile.name)
def test_runtime_without_tracking_sends_every_event(profile: Profile) -> None:
    events = (
        EventKind.StopContainer,
        EventKind.StopContainer,
        EventKind.RemoveContainer,
        EventKind.StopPodSandbox,
        EventKind.StopPodSandbox,
        EventKind.RemovePodSandbox,
    )
    assert sent(LifecycleState(profile), *events) == [event.name for event in events]


def test_ends_of_containers_are_sent_only_if_plugins_know_the_container() -> None:
    ends = (EventKind.StopContainer, EventKind.RemoveContainer)
    course = LifecycleState(CONTAINERD)
    assert sent(course, *ends) == ["(StopContainer)", "(RemoveContainer)"]
    course.note_containers([api.Container(id="app", state=api.ContainerState.CONTAINER_RUNNING)])
    assert sent(course, *ends) == ["StopContainer", "RemoveContainer"]
    course.note_containers([api.Container(id="app", state=api.ContainerState.CONTAINER_STOPPED)])
    assert sent(course, *ends) == ["(StopContainer)", "RemoveContainer"]


def test_containerd_skips_ends_of_unknown_pods_and_cri_o_does_not() -> None:
    ends = (EventKind.StopPodSandbox, EventKind.StopPodSandbox, EventKind.RemovePodSandbox)
    assert sent(LifecycleState(CONTAINERD), *ends) == [
        "(StopPodSandbox)", "(StopPodSandbox)", "(RemovePodSandbox)",
    ]  # fmt: skip
    assert sent(LifecycleState(CRI_O), *ends) == [
        "StopPodSandbox", "(StopPodSandbox)", "RemovePodSandbox",
    ]  # fmt: skip
    assert sent(LifecycleState(CONTAINERD), EventKind.RunPodSandbox, *ends)[1:] == [
        "StopPodSandbox", "(StopPodSandbox)", "RemovePodSandbox",
    ]  # fmt: skip


def test_cri_o_creates_no_container_in_a_stopped_pod() -> None:
    events = (EventKind.RunPodSandbox, EventKind.StopPodSandbox, *LIFE[1:7])
    course = LifecycleState(CRI_O)
    assert sent(course, *events)[2:] == [f"({event.name})" for event in LIFE[1:7]]
    assert sent(LifecycleState(CONTAINERD), *events)[2:] == [event.name for event in LIFE[1:7]]


def test_cri_o_repeats_the_stop_of_a_pod_that_failed() -> None:
    course, stop = LifecycleState(CRI_O), EventKind.StopPodSandbox
    assert sent(course, EventKind.RunPodSandbox, stop) == ["RunPodSandbox", "StopPodSandbox"]
    assert course.steps_after_failure(stop, about(stop)) == ()
    assert sent(course, stop, stop) == ["StopPodSandbox", "(StopPodSandbox)"]


def test_ends_of_pods_from_before_are_sent_once_noted() -> None:
    course = LifecycleState(CONTAINERD)
    course.note_pods([POD])
    ends = (EventKind.StopPodSandbox, EventKind.StopPodSandbox, EventKind.RemovePodSandbox)
    assert sent(course, *ends) == ["StopPodSandbox", "(StopPodSandbox)", "RemovePodSandbox"]


def test_stop_after_its_pod_s_removal_has_only_the_pod_s_id_on_containerd() -> None:
    course = LifecycleState(CONTAINERD)
    sent(course, *LIFE[:5], EventKind.StopPodSandbox, EventKind.RemovePodSandbox)
    (step,) = course.steps_of(EventKind.StopContainer, about(EventKind.StopContainer))
    assert step.request == api.StopContainerRequest(pod=api.PodSandbox(id="pod"), container=APP)
    course = LifecycleState(CRI_O)
    sent(course, *LIFE[:5], EventKind.StopPodSandbox, EventKind.RemovePodSandbox)
    (step,) = course.steps_of(EventKind.StopContainer, about(EventKind.StopContainer))
    assert step.request == about(EventKind.StopContainer)


EVENT_SEQUENCES = st.lists(
    st.tuples(st.sampled_from(LIFE), st.sampled_from(["app", "sidecar"]), st.booleans()),
    max_size=30,
)
"""Events, each with a container and whether its CRI request fails."""


@pytest.mark.parametrize("name", PROFILES)
@given(sequence=EVENT_SEQUENCES)
def test_any_event_sequence_has_one_stop_and_removal_per_container(
    name: str, sequence: list[tuple[EventKind, str, bool]]
) -> None:
    """Check that each container has one stop, then one removal; nothing is undone twice."""
    profile = PROFILES[name]
    course = LifecycleState(profile)
    live: set[str] = set()
    for event, container_id, fails in sequence:
        container = api.Container(id=container_id, pod_sandbox_id="pod")
        request = about(event, container)
        steps = course.steps_of(event, request)
        # The event itself is the last step, sent or skipped.
        assert [(step.event, step.added) for step in steps][-1] == (event, False)
        assert sum(not step.added for step in steps) == 1
        failed = fails and not steps[-1].skipped
        if failed and event in profile.dispatch_rules.failure_prefixes:
            steps += course.steps_after_failure(event, request)
        if not profile.lifecycle_rules.tracks_containers:
            continue
        for step in steps:
            if step.skipped:
                continue
            match step.event:
                case EventKind.CreateContainer | EventKind.StartContainer:
                    live.add(container_id)
                case EventKind.StopContainer:
                    assert container_id in live
                    live.remove(container_id)
                case EventKind.RemoveContainer:
                    assert container_id not in live
                case _:
                    pass
        if failed and event is EventKind.CreateContainer:
            live.discard(container_id)


# -- failures -------------------------------------------------------------------------------------


def added_after_failure(course: LifecycleState, event: EventKind) -> list[str]:
    steps = course.steps_after_failure(event, about(event))
    assert all(step.added and step.request == about(step.event) for step in steps)
    return [step.event.name for step in steps]


@pytest.mark.parametrize("profile", [CONTAINERD, RECORDED], ids=lambda profile: profile.name)
def test_containerd_undoes_a_failed_creation_and_skips_later_events(profile: Profile) -> None:
    course = LifecycleState(profile)
    sent(course, EventKind.RunPodSandbox, EventKind.CreateContainer)
    assert added_after_failure(course, EventKind.CreateContainer) == [
        "StopContainer",
        "RemoveContainer",
    ]
    assert sent(course, *LIFE[2:]) == [
        "(PostCreateContainer)", "(StartContainer)", "(PostStartContainer)", "(StopContainer)",
        "(RemoveContainer)", "StopPodSandbox", "RemovePodSandbox",
    ]  # fmt: skip
    # Another attempt with the same id may succeed.
    assert sent(course, *LIFE[:7]) == [event.name for event in LIFE[:7]]


def test_cri_o_does_not_undo_a_creation_that_plugins_rejected() -> None:
    course = LifecycleState(CRI_O)
    sent(course, EventKind.RunPodSandbox, EventKind.CreateContainer)
    assert added_after_failure(course, EventKind.CreateContainer) == []
    assert sent(course, *LIFE[5:7]) == ["(StopContainer)", "(RemoveContainer)"]


@pytest.mark.parametrize("profile", [CONTAINERD, CRI_O], ids=lambda profile: profile.name)
def test_pod_that_failed_to_run_is_stopped_and_removed_immediately(profile: Profile) -> None:
    course = LifecycleState(profile)
    sent(course, EventKind.RunPodSandbox)
    assert added_after_failure(course, EventKind.RunPodSandbox) == [
        "StopPodSandbox",
        "RemovePodSandbox",
    ]
    assert sent(course, *LIFE[1:]) == [f"({event.name})" for event in LIFE[1:]]


def test_failed_start_is_followed_by_a_stop_and_keeps_the_removal() -> None:
    course = LifecycleState(CONTAINERD)
    sent(course, *LIFE[:4])
    assert added_after_failure(course, EventKind.StartContainer) == ["StopContainer"]
    assert sent(course, *LIFE[4:7]) == [
        "(PostStartContainer)", "(StopContainer)", "RemoveContainer",
    ]  # fmt: skip


def test_failed_update_is_not_followed_by_its_post_event() -> None:
    course = LifecycleState(CONTAINERD)
    sent(course, *LIFE[:5], EventKind.UpdateContainer)
    assert added_after_failure(course, EventKind.UpdateContainer) == []
    both = (EventKind.PostUpdateContainer, EventKind.UpdateContainer, EventKind.PostUpdateContainer)
    assert sent(course, *both) == [
        "(PostUpdateContainer)", "UpdateContainer", "PostUpdateContainer",
    ]  # fmt: skip


# -- requests -------------------------------------------------------------------------------------


def test_isulad_creates_containers_without_an_id() -> None:
    request = api.CreateContainerRequest(pod=POD, container=APP)
    told = ISULAD.lifecycle_rules.adapted(EventKind.CreateContainer, request)
    assert told.container == api.Container(pod_sandbox_id="pod", name="app")
    assert request.container == APP


def test_isulad_sends_long_names_except_of_a_container_in_its_creation() -> None:
    pod = api.PodSandbox(id="pod", name="web", namespace="shop", uid="u-1")
    container = api.Container(id="app", name="app", pod_sandbox_id="pod")
    rules = ISULAD.lifecycle_rules
    create = rules.adapted(
        EventKind.CreateContainer, api.CreateContainerRequest(pod=pod, container=container)
    )
    assert (create.pod.name, create.container.name) == ("k8s_POD_web_shop_u-1_0", "app")
    stop = rules.adapted(
        EventKind.StopContainer, api.StopContainerRequest(pod=pod, container=container)
    )
    assert stop.container.name == "k8s_app_web_shop_u-1_0"
    assert rules.adapted(EventKind.StopContainer, stop) == stop
    pods, containers = rules.adapted_state([pod], [container])
    assert (pods, containers) == ([stop.pod], [stop.container])


def test_a_recorded_isulad_creates_containers_without_an_id() -> None:
    recorded = recorded_profile(api.ConfigureRequest(runtime_name="v2"))
    request = api.CreateContainerRequest(pod=POD, container=APP)
    sent = recorded.lifecycle_rules.adapted(EventKind.CreateContainer, request)
    assert (sent.container.id, sent.container.name, sent.pod) == ("", "app", POD)


def test_unchanged_request_is_not_copied() -> None:
    for profile in PROFILES.values():
        if profile is ISULAD:
            continue
        request = about(EventKind.CreateContainer, api.Container(name="app"))
        assert profile.lifecycle_rules.adapted(EventKind.RunPodSandbox, request) is request
    request = about(EventKind.StopContainer)
    assert RECORDED.lifecycle_rules.adapted(EventKind.StopContainer, request) is request
