# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import re

import pytest
import yaml

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import UsageError
from nri_scope.runtime import PROFILES
from nri_scope.scenario.manifest.node_facts import NodeFacts
from nri_scope.scenario.manifest_scenario import ManifestPod, pods_of
from tests.kubernetes.observation import MANIFESTS
from tests.nri.captures import ISULAD, exchanges

CONTAINERD = PROFILES["containerd-2.4"]
TEMPLATE = """
    metadata: {labels: {app: web}, annotations: {note: text}}
    spec: {restartPolicy: Always, containers: [{name: app, image: i}]}
"""


def only(text: str, profile: str = "containerd-2.4", node: NodeFacts | None = None) -> ManifestPod:
    (pod,) = pods_of(text, PROFILES[profile], node=node)
    return pod


def container(fields: str, profile: str = "containerd-2.4") -> api.Container:
    text = (
        f"{{kind: Pod, metadata: {{name: web}}, spec: {{containers: [{{name: app, {fields}}}]}}}}"
    )
    return only(text, profile).containers[0].container


def test_docker_runs_no_pods() -> None:
    text = next(MANIFESTS.glob("*.yaml")).read_text()
    with pytest.raises(UsageError, match="Docker Engine runs no pods"):
        pods_of(text, PROFILES["docker"])


@pytest.mark.parametrize("profile", [name for name in PROFILES if name != "docker"])
def test_conversion_is_repeatable_and_json_is_yaml(profile: str) -> None:
    for path in MANIFESTS.glob("*.yaml"):
        text = path.read_text()
        first = pods_of(text, PROFILES[profile])
        assert pods_of(text, PROFILES[profile]) == first
        documents = list(yaml.safe_load_all(text))
        as_list = json.dumps({"kind": "List", "items": documents}, indent="\t")
        for one, other in zip(first, pods_of(as_list, PROFILES[profile]), strict=True):
            assert (one.pod, one.containers) == (other.pod, other.containers)
        ids = [one.pod.id for one in first]
        ids += [one.container.id for pod in first for one in pod.containers]
        assert len(set(ids)) == len(ids)
        assert all(re.fullmatch("[0-9a-f]{64}", id_) for id_ in ids)


def test_a_typed_list_needs_no_kinds() -> None:
    text = (
        "kind: PodList\nitems: [{metadata: {name: a}, spec: {containers: [{name: b, image: c}]}}]"
    )
    assert only(text).pod.name == "a"


def test_the_namespace_is_that_of_the_manifest_or_the_default() -> None:
    text = "{{kind: Pod, metadata: {{name: a{}}}, spec: {{containers: [{{name: b, image: c}}]}}}}"
    assert only(text.format("")).pod.namespace == "default"
    (pod,) = pods_of(text.format(""), CONTAINERD, namespace="shop")
    assert pod.pod.namespace == "shop"
    (pod,) = pods_of(text.format(", namespace: other"), CONTAINERD, namespace="shop")
    assert pod.pod.namespace == "other"


@pytest.mark.parametrize(
    ("kind", "name", "labels"),
    [
        ("Deployment", r"web-\w{10}-\w{5}", {"app", "pod-template-hash"}),
        ("ReplicaSet", r"web-\w{5}", {"app"}),
        ("DaemonSet", r"web-\w{5}", {"app", "controller-revision-hash", "pod-template-generation"}),
        (
            "StatefulSet",
            "web-0",
            {
                "app",
                "apps.kubernetes.io/pod-index",
                "controller-revision-hash",
                "statefulset.kubernetes.io/pod-name",
            },
        ),
        (
            "Job",
            r"web-\w{5}",
            {
                "app",
                "batch.kubernetes.io/controller-uid",
                "batch.kubernetes.io/job-name",
                "controller-uid",
                "job-name",
            },
        ),
    ],
)
def test_pods_of_workloads_are_named_and_labelled(kind: str, name: str, labels: set[str]) -> None:
    pod = only(f"kind: {kind}\nmetadata: {{name: web}}\nspec:\n  template: {TEMPLATE}")
    assert re.fullmatch(name, pod.pod.name)
    assert {key for key in pod.pod.labels if not key.startswith("io.")} - labels == {
        "oci_runtime_type"
    }
    assert pod.pod.annotations["note"] == "text"
    assert any("made up" in note for note in pod.notes)


def test_a_cron_job_runs_a_job() -> None:
    text = (
        "kind: CronJob\nmetadata: {name: nightly}\nspec:\n  schedule: '0 0 * * *'\n"
        "  jobTemplate: {spec: {template: {spec: {containers: [{name: a, image: i}]}}}}"
    )
    pod = only(text).pod
    job = pod.labels["batch.kubernetes.io/job-name"]
    assert re.fullmatch(r"nightly-29\d{6}", job) and pod.name.startswith(f"{job}-")


def test_replicas_are_counted_not_repeated() -> None:
    pod = only(
        f"kind: Deployment\nmetadata: {{name: web}}\nspec:\n  replicas: 3\n  template: {TEMPLATE}"
    )
    assert pod.replicas == 3
    assert "Deployment web asks for 3 pods; this is one of them" in pod.notes


def test_a_status_overrides_what_is_assumed() -> None:
    text = """
kind: Pod
metadata: {name: web, uid: 11-22}
spec: {nodeName: worker, containers: [{name: app, image: i, env: [
  {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}},
  {name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]}]}
status:
  qosClass: Burstable
  podIP: 10.1.2.3
  hostIP: 10.0.0.1
  containerStatuses: [{name: app, restartCount: 7, containerID: containerd://abcdef}]
"""
    pod = only(text)
    assert list(pod.pod.ips) == ["10.1.2.3"] and pod.pod.uid == "11-22"
    assert "burstable" in pod.pod.linux.cgroup_parent
    app = pod.containers[0].container
    assert app.id == "abcdef"
    assert app.annotations["io.kubernetes.container.restartCount"] == "7"
    assert {"NODE=worker", "IP=10.1.2.3"} < set(app.env)


def test_unknown_values_are_named_in_their_place_and_noted() -> None:
    text = """
kind: Pod
metadata: {name: web}
spec:
  runtimeClassName: gvisor
  containers:
  - name: app
    image: i
    args: [-v]
    env: [{name: KEY, valueFrom: {secretKeyRef: {name: words, key: first}}}]
    envFrom: [{configMapRef: {name: all}}]
    volumeDevices: [{name: disk, devicePath: /dev/xvda}]
    resources: {limits: {example.com/gpu: 1}}
"""
    pod = only(text)
    assert "KEY=<first of Secret words>" in pod.containers[0].container.env
    assert pod.pod.runtime_handler == "gvisor"
    wanted = (
        "RuntimeClass gvisor",
        "variable KEY: the key first of Secret words is unknown",
        "the variables of ConfigMap all are unknown",
        "the device /dev/xvda was left out",
        "the entry point of its image is unknown",
        "the plugin of example.com/gpu",
    )
    for words in wanted:
        assert any(words in note for note in pod.notes), words


def test_references_in_commands_are_expanded_once() -> None:
    found = container(
        "command: [a, $(B), $$(B), $(C), $(B] , image: i, env: [{name: B, value: $$(B)}]"
    )
    assert list(found.args) == ["a", "$(B)", "$(B)", "$(C)", "$(B"]


@pytest.mark.parametrize("profile", ["containerd-1.7", "containerd-2.1", "cri-o", "isulad"])
def test_requested_mounts_are_sorted_by_depth_as_runtimes_do(profile: str) -> None:
    found = container("image: i", profile)
    own = [
        mount.destination
        for mount in found.mounts
        if "kubernetes" in mount.source or "pods" in mount.source
    ]
    token, hosts, log = (
        "/var/run/secrets/kubernetes.io/serviceaccount",
        "/etc/hosts",
        "/dev/termination-log",
    )
    assert own == ([token, hosts, log] if profile == "isulad" else [hosts, log, token])


def test_isulad_sends_the_request_with_its_own_labels() -> None:
    recorded = next(one.request for one in exchanges(ISULAD[0]) if one.method == "CreateContainer")
    request = api.CreateContainerRequest.FromString(recorded)
    text = (
        f"{{kind: Pod, metadata: {{name: web, namespace: shop, uid: {request.pod.uid}}},"
        " spec: {hostNetwork: true, containers: [{name: app, image: i, args: ['1000']}]}}"
    )
    pod = only(text, "isulad", NodeFacts(cgroup_version=1))
    assert dict(request.pod.annotations).items() <= dict(pod.pod.annotations).items()
    assert pod.pod.labels["cri.isulad.type"] == request.pod.labels["cri.isulad.type"]
    container = pod.containers[0].container
    assert list(container.args) == list(request.container.args)
    fields = {field.name for field, _ in request.container.linux.ListFields()}
    assert {field.name for field, _ in container.linux.ListFields()} == fields


def test_user_namespaces_are_joined() -> None:
    spec = "{hostUsers: false, containers: [{name: b, image: c}]}"
    text = f"{{kind: Pod, metadata: {{name: a}}, spec: {spec}}}"
    for profile in ("containerd-2.4", "cri-o"):
        pod = only(text, profile)
        for place in (pod.pod.linux, pod.containers[0].container.linux):
            (user,) = [namespace for namespace in place.namespaces if namespace.type == "user"]
            assert user.path
