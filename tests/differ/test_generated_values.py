# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy

import pytest
from hypothesis import given

from nri_scope.differ.generated_values import Generated
from nri_scope.events import Pod
from nri_scope.specs import Json, Spec, same
from tests.specs.generated import SPECS

CONTAINER = "3d616e25fb47ea93be490ee9c43f8e470e2da1ff73c8c38a0abe6412fb34c602"
SANDBOX = "d6e8c12818c4bf7a82f09ffd9e363300e9f6b07eda5861291d736f18a71950f1"
UID = "ee74aebc-6fa2-40e4-aef0-492f25feb888"
OTHER = "00000000-6fa2-40e4-aef0-492f25feb888"
GENERATED = Generated(CONTAINER, SANDBOX, UID)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"/k8s.io/{CONTAINER}", "/k8s.io/<container id>"),
        (
            f"/kubepods/burstable/pod{UID}/{CONTAINER}",
            "/kubepods/burstable/pod<pod uid>/<container id>",
        ),
        (
            f"kubepods-pod{UID.replace('-', '_')}.slice:cri-containerd:{CONTAINER}",
            "kubepods-pod<pod uid>.slice:cri-containerd:<container id>",
        ),
        (f"/run/x/sandboxes/{SANDBOX}/shm", "/run/x/sandboxes/<pod id>/shm"),
        (f"k8s_app_web_shop_{UID}_0", "k8s_app_web_shop_<pod uid>_0"),
        ("/proc/9744/ns/ipc", "/proc/<pid>/ns/ipc"),
        (f"/var/run/ipcns/{OTHER}", "/var/run/ipcns/<uuid>"),
        (f"/var/run/netns/cni-{OTHER}", "/var/run/netns/cni-<uuid>"),
        (f"/x/storage/overlay/{'ab' * 32}/merged", "/x/storage/overlay/<layer>/merged"),
        (
            f"/kubelet/pods/{UID}/volumes/kubernetes.io~projected/kube-api-access-x7k2p",
            "/kubelet/pods/<pod uid>/volumes/kubernetes.io~projected/kube-api-access-<name>",
        ),
        (
            f"/var/lib/kubelet/pods/{UID}/containers/app/1f3c90ab",
            "/var/lib/kubelet/pods/<pod uid>/containers/app/<file>",
        ),
        # Other texts are unchanged.
        *(
            (text, text)
            for text in (
                "",
                "app",
                f"/sandboxes/{CONTAINER[:-1]}",
                f"a{CONTAINER}",
                f"{CONTAINER}0",
                OTHER,
                f"busybox@sha256:{'ab' * 32}",
                "/proc/9744/environ",
                "/containers/app/data",
            )
        ),
    ],
)
def test_generated_values_become_placeholders(text: str, expected: str) -> None:
    assert GENERATED.text(text) == expected


def test_short_ids_are_unchanged() -> None:
    assert Generated("app", "web", "1").text("/app/web/1 and more") == "/app/web/1 and more"
    assert Generated("").text("any text of some length") == "any text of some length"


def test_keys_and_values_at_any_depth_are_renamed() -> None:
    spec: Spec = {
        "annotations": {CONTAINER: SANDBOX},
        "mounts": [{"options": [f"a={UID}"]}],
        "x": 1,
    }
    kept = copy.deepcopy(spec)
    assert GENERATED.comparable(spec).spec == {
        "annotations": {"<container id>": "<pod id>"},
        "mounts": [{"options": ["a=<pod uid>"]}],
        "x": 1,
    }
    assert spec == kept


def test_times_and_addresses_are_replaced_in_known_annotations() -> None:
    annotations: Spec = {
        "io.kubernetes.cri-o.Created": "2026-11-20T20:45:20.486171799Z",
        "io.kubernetes.cri-o.IP.0": "10.88.0.7",
        "example.com/time": "2026-11-20T20:45:20.486171799Z",
    }
    assert GENERATED.comparable({"annotations": annotations}).spec["annotations"] == {
        "io.kubernetes.cri-o.Created": "<time>",
        "io.kubernetes.cri-o.IP.0": "<pod address>",
        "example.com/time": "2026-11-20T20:45:20.486171799Z",
    }


def test_the_ids_of_a_pod_are_those_of_the_recording() -> None:
    known = Generated.of(CONTAINER, Pod(1, "another", "shop", "web", UID))
    assert known.text(SANDBOX) == SANDBOX
    assert known.text(UID) == "<pod uid>"
    assert Generated.of(CONTAINER, None).text(UID) == UID


def test_a_path_with_placeholders_maps_back_to_the_original() -> None:
    assert GENERATED.original("/annotations/<pod id>") == f"/annotations/{SANDBOX}"
    assert GENERATED.original(f"/x/{GENERATED.text(UID)}") == f"/x/{UID}"


@given(SPECS)
def test_a_spec_without_ids_is_unchanged(spec: Spec) -> None:
    assert same(GENERATED.comparable(spec).spec, spec)


def test_deep_nesting_is_supported() -> None:
    value: Json = CONTAINER
    for level in range(50_000):
        value = [value] if level % 2 else {"x": value}
    value = GENERATED.comparable({"annotations": value}).spec["annotations"]
    for level in reversed(range(50_000)):
        assert isinstance(value, list if level % 2 else dict)
        (value,) = value if isinstance(value, list) else value.values()
    assert value == "<container id>"
