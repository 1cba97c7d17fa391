# SPDX-License-Identifier: Apache-2.0
"""Profiles of runtimes, compared with captures of real ones."""

from __future__ import annotations

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import (
    ConnectionClosed,
    DeadlineExceeded,
    NriScopeError,
    RemoteProtocolError,
    RpcError,
    UsageError,
)
from nri_scope.nri.events import METHODS, EventKind
from nri_scope.nri.merging import CreationMerging
from nri_scope.nri.request_subject import (
    container_of,
    decode_request,
    name_of_container,
    name_of_pod,
    pod_of,
)
from nri_scope.nri.runtime_setup import introduction_of
from nri_scope.nri.versions import infer
from nri_scope.oci.runtime_rules import runtime_rules_of
from nri_scope.runtime import (
    PROFILES,
    Profile,
    nearest_profile,
    profile_named,
    recorded_profile,
)
from nri_scope.runtime.lifecycle import own_request
from nri_scope.runtime.operations import go_wording

from .captures import exchanges

EXPECTED = ("containerd-1.7", "containerd-1.7.26", "containerd-1.7.30", "containerd-2.0",
            "containerd-2.1", "containerd-2.2", "containerd-2.3", "containerd-2.4", "nri-0.12.5",
            "cri-o-1.33", "cri-o-1.33.10", "cri-o-1.34", "cri-o-1.34.5", "cri-o-1.35", "cri-o-1.36",
            "cri-o", "docker", "isulad")  # fmt: skip


def test_every_kind_of_runtime_has_a_profile() -> None:
    assert tuple(PROFILES) == EXPECTED
    assert all(profile_named(name) is PROFILES[name] for name in EXPECTED)


def test_recorded_profile_is_taken_from_the_recording() -> None:
    mine = Profile.of("recorded", "containerd", "2.1.9", "0.8.0")
    assert profile_named("recorded", mine) is mine
    with pytest.raises(UsageError, match="no profile 'recorded'"):
        profile_named("recorded")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("containerd-2.5", "did you mean containerd-2"),
        ("crio", "did you mean cri-o?"),
        ("CRI-O", "did you mean cri-o?"),
        ("rkt", "profiles are containerd-1.7, "),
    ],
)
def test_unknown_profile_s_error_names_the_nearest(name: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        profile_named(name)
    assert repr(name) in caught.value.problem
    assert caught.value.hint.startswith(hint)


@pytest.mark.parametrize(
    ("name", "event"),
    [
        ("containerd-1.7", EventKind.UpdatePodSandbox),
        ("containerd-2.1", EventKind.ValidateContainerAdjustment),
        ("containerd-2.2", EventKind.UpdatePodSandbox),
        ("containerd-2.2", EventKind.PostUpdatePodSandbox),
        ("cri-o", EventKind.PostUpdatePodSandbox),
        ("docker", EventKind.PostCreateContainer),
        ("docker", EventKind.StartContainer),
        ("isulad", EventKind.PostUpdatePodSandbox),
    ],
)
def test_event_that_a_runtime_never_sends_has_a_skip_reason(name: str, event: EventKind) -> None:
    profile = PROFILES[name]
    assert event.name in profile.skip_reason(event)
    assert profile.nri_version in profile.skip_reason(event)


def test_captured_events_are_not_skipped() -> None:
    for capture, name in (
        ("containerd-1.7.24", "containerd-1.7"),
        ("containerd-2.1.9", "containerd-2.1"),
        ("containerd-2.4-beta", "containerd-2.3"),
        ("cri-o-1.37", "cri-o"),
        ("docker-29.2", "docker"),
    ):
        for stored, _ in exchanges(capture):
            decoded = decode_request(stored.method, stored.request)
            if decoded.event in EventKind.__members__:
                assert not PROFILES[name].skip_reason(EventKind[decoded.event]), (
                    capture,
                    decoded.event,
                )


def test_container_states_match_captures() -> None:
    """Check the states of captures against those of the profile."""
    for capture, name in (
        ("containerd-1.7.24", "containerd-1.7"),
        ("containerd-2.1.9", "containerd-2.1"),
        ("containerd-2.4-beta", "containerd-2.3"),
        ("cri-o-1.37", "cri-o"),
        ("docker-29.2", "docker"),
    ):
        profile = PROFILES[name]
        for stored, _ in exchanges(capture):
            decoded = decode_request(stored.method, stored.request)
            if decoded.container is None or decoded.container.name == "broken":
                # A container that never ran keeps its state.
                continue
            expected = profile.lifecycle_rules.states.get(
                EventKind[decoded.event], decoded.container.state
            )
            assert decoded.container.state == expected, (capture, decoded.event)


def test_profile_has_its_runtime_s_dispatch_rules() -> None:
    assert PROFILES["isulad"].dispatch_rules.closes_on_error
    crio = Profile.of("x", "cri-o", "1.33.10", "0.9.1")
    assert crio.dispatch_rules is PROFILES["cri-o"].dispatch_rules
    # An unknown runtime is assumed to dispatch like containerd.
    unknown = Profile.of("x", "else", "1", "")
    assert unknown.dispatch_rules is PROFILES["containerd-2.3"].dispatch_rules


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (RpcError(2, "no: such"), "rpc error: code = Unknown desc = no: such"),
        (RpcError(1, "x"), "rpc error: code = Canceled desc = x"),
        (RpcError(8, ""), "rpc error: code = ResourceExhausted desc = "),
        (RpcError(99, "x"), "rpc error: code = Code(99) desc = x"),
        (DeadlineExceeded("CreateContainer", 2), "context deadline exceeded"),
        (ConnectionClosed("anything"), "ttrpc: closed"),
        (RemoteProtocolError("rubbish"), "rubbish"),
    ],
)
def test_errors_have_go_s_wording(error: NriScopeError, words: str) -> None:
    assert go_wording(error) == words


def test_profiles_that_show_rlimits() -> None:
    shown = {name for name, profile in PROFILES.items() if profile.shows_rlimits}
    assert shown == {
        "containerd-2.3", "containerd-2.4", "nri-0.12.5", "cri-o-1.36", "cri-o", "isulad",
    }  # fmt: skip


@pytest.mark.parametrize("capture", ["isulad", "isulad-launched"])
def test_isulads_requests_match_captures(capture: str) -> None:
    """Check names, ids and states: a request in Kubernetes' terms becomes the captured one."""
    rules = PROFILES["isulad"].lifecycle_rules
    checked = 0
    for exchange in exchanges(capture):
        decoded = decode_request(exchange.stored.method, exchange.stored.request)
        message = decoded.message
        method = METHODS[decoded.event]
        if message is None or method.event is None:
            continue
        if isinstance(message, api.StateChangeEvent):
            message = own_request(method.request, message)
        plain = type(message).FromString(message.SerializeToString())
        pod, container = pod_of(method.name, plain), container_of(method.name, plain)
        assert pod is not None
        pod.name = name_of_pod(pod)
        if container is not None:
            container.name = name_of_container(container)
            container.id = container.id or "assigned later"
            container.state = api.ContainerState.CONTAINER_RUNNING
        assert rules.adapted(method.event, plain) == message
        assert pod.name in ("web", "batch", "old", "last", "t1")
        checked += 1
    assert checked > 15


def test_dockers_requests_match_the_capture() -> None:
    """Check what is told of containers, which captured requests have more of in Kubernetes."""
    rules, checked = PROFILES["docker"].lifecycle_rules, 0
    for exchange in exchanges("docker-29.2"):
        if exchange.stored.plugin != "00-probe-a":
            # Others see the adjustments of earlier plugins.
            continue
        decoded = decode_request(exchange.stored.method, exchange.stored.request)
        message, container = decoded.message, decoded.container
        if decoded.event != "CreateContainer" or message is None or container is None:
            continue
        plain = type(message).FromString(message.SerializeToString())
        pod, full = pod_of("CreateContainer", plain), container_of("CreateContainer", plain)
        assert pod is not None
        assert full is not None
        pod.namespace, pod.name, pod.uid, pod.id = "shop", "web", "uid", "pod-id"
        full.name, full.pod_sandbox_id = name_of_container(full), pod.id
        full.state = api.ContainerState.CONTAINER_UNKNOWN
        full.mounts.add(destination="/etc/hosts")
        full.linux.resources.cpu.shares.value = 2
        sent = rules.adapted(EventKind.CreateContainer, plain)
        assert isinstance(sent, api.CreateContainerRequest)
        assert CreationMerging(sent, version=PROFILES["docker"].version).request == message
        checked += 1
    assert checked > 30


def test_docker_tells_no_version_from_which_nri_is_inferred() -> None:
    assert infer("docker", "29.2.0") is None


@pytest.mark.parametrize(
    "name", [name for name in PROFILES if not name.startswith(("nri-", "docker"))]
)
def test_the_version_of_each_release_is_inferred(name: str) -> None:
    profile = PROFILES[name]
    assert infer(profile.runtime_name, profile.runtime_version) == profile.version


@pytest.mark.parametrize(
    ("version", "fails"),
    [
        ("1.32.13", True), ("1.33.0", True), ("1.33.9", True), ("1.33.10", False),
        ("1.34.0", True), ("1.34.4", True), ("1.34.5", False), ("1.35.0", False),
        ("1.37.0", False), ("main", False),
    ],
)  # fmt: skip
def test_older_cri_o_fails_the_stop_of_a_container(version: str, fails: bool) -> None:
    prefixes = Profile.of("x", "cri-o", version, "").dispatch_rules.failure_prefixes
    assert (EventKind.StopContainer in prefixes) == fails
    assert EventKind.StopPodSandbox in prefixes


@pytest.mark.parametrize(
    ("runtime", "version", "drops"),
    [
        ("containerd", "1.7.25", False), ("containerd", "1.7.26", True),
        ("containerd", "1.7.29", True), ("containerd", "1.7.30", False),
        ("containerd", "2.0.14", True), ("containerd", "2.1.0", False),
        ("cri-o", "1.31.13", False), ("cri-o", "1.33.13", True), ("cri-o", "1.34.0", False),
    ],
)  # fmt: skip
def test_versions_that_drop_cdi_devices(runtime: str, version: str, drops: bool) -> None:
    assert bool(runtime_rules_of(runtime, version).drops_cdi_devices) == drops


@pytest.mark.parametrize(
    ("runtime", "version", "creates"),
    [
        ("containerd", "1.7.35", False), ("containerd", "2.0.0", True),
        ("containerd", "2.2.5", True), ("containerd", "2.2.6", False),
        ("containerd", "2.3.2", True), ("containerd", "2.3.3", False),
        ("containerd", "2.4.0", False), ("containerd", "main", False),
        ("cri-o", "1.33.0", False), ("podd", "1.0", True),
    ],
)  # fmt: skip
def test_versions_that_create_containers_in_stopped_pods(
    runtime: str, version: str, creates: bool
) -> None:
    assert runtime_rules_of(runtime, version).creates_in_stopped_pods == creates


@pytest.mark.parametrize("name", PROFILES)
def test_the_nearest_profile_of_a_profile_is_itself(name: str) -> None:
    profile = PROFILES[name]
    nearest = nearest_profile(profile.runtime_name, profile.runtime_version, profile.nri_version)
    # The profile of a newer NRI has the rules of the newest containerd.
    assert nearest.name == ("containerd-2.4" if name.startswith("nri-") else name)
    recorded = recorded_profile(profile.runtime_name, profile.runtime_version, profile.nri_version)
    assert recorded.dispatch_rules == profile.dispatch_rules
    assert recorded.mask == profile.mask


@pytest.mark.parametrize(
    ("sent", "name"),
    [
        (("v2", "v2.0.0"), "containerd"),
        (("v2", "2.0.3"), "containerd"),
        (("v2", "2.0.0-beta.2+unknown"), "v2"),
        (("v2", ""), "v2"),
        (("containerd", "2.0.4"), "containerd"),
        (("cri-o", "1.36.0"), "cri-o"),
    ],
)
def test_containerd_2_0_that_calls_itself_v2_is_recognised(
    sent: tuple[str, str], name: str
) -> None:
    configure = api.ConfigureRequest(runtime_name=sent[0], runtime_version=sent[1])
    introduction = introduction_of(configure)
    assert introduction.runtime_name == name
    if sent[0] == "v2" and name == "containerd":
        assert str(introduction.version) == "0.8.0"


def test_each_runtime_has_rules() -> None:
    rules = [runtime_rules_of(profile.runtime_name) for profile in PROFILES.values()]
    assert runtime_rules_of("unknown") not in rules
