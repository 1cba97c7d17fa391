# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
from pathlib import Path

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from nri_scope.errors import UsageError
from nri_scope.runtime import PROFILES
from nri_scope.scenario.manifest_scenario import ManifestPod, pods_of
from tests.kubernetes.observation import MANIFESTS

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers:
  - name: app
    image: busybox
"""


def converted(text: str) -> list[ManifestPod]:
    return pods_of(text, PROFILES["containerd-2.1"], source="pod.yaml")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "pod.yaml: there are no pods in it"),
        (POD.replace("Pod", "Pdo"), "pod.yaml:2: kind: there is no kind Pdo; did you mean Pod?"),
        (
            POD.replace("v1", "v2"),
            "pod.yaml:1: apiVersion: 'v2' is not an API version of Pod; write v1",
        ),
        (
            "apiVersion: batch.example.com/v1\nkind: Job\nmetadata: {name: a}",
            "pod.yaml:2: kind: a Job has no pods; kinds with pods are Pod,",
        ),
        ("[1]", "pod.yaml:1: the document: a mapping is needed, not a list"),
        ("a: b", "pod.yaml:1: kind: is missing"),
        ("kind: Pod\n\tb: c", "pod.yaml:2: not YAML"),
        ("\n\nkind: Service", "pod.yaml:3: kind: a Service has no pods; kinds with pods are Pod,"),
        (POD.replace("Pod", "pod"), "pod.yaml:2: kind: there is no kind pod; did you mean Pod?"),
        (POD.replace("web", "Web"), "pod.yaml:3: metadata.name: 'Web' is not a name"),
        (POD.replace("name: web", ""), "pod.yaml:3: metadata.name: is missing"),
        ("kind: Job\nmetadata: {name: a}", "pod.yaml:1: spec.template.spec: is missing"),
        (f"{POD}---\n{POD}", "pod.yaml:11: metadata: there are two pods default/web"),
        (
            POD + "  - name: app\n    image: b",
            "pod.yaml:8: spec.containers[1].name: there are two containers named app",
        ),
        (
            POD.replace("spec:", "spec:\n  restartPolicy: Maybe"),
            "pod.yaml:5: spec.restartPolicy: 'Maybe' is not one of Always, OnFailure, Never",
        ),
        ("kind: List\nitems:\n- kind: Pod\n", "pod.yaml:3: items[0].metadata.name: is missing"),
    ],
)
def test_errors_name_line_and_field(text: str, error: str) -> None:
    with pytest.raises(UsageError) as caught:
        converted(text)
    assert str(caught.value).startswith(error)


@pytest.mark.parametrize(
    ("field", "error"),
    [
        ("resources: {limits: {cpu: 1x}}", "resources.limits.cpu: '1x' is not a quantity"),
        ("resources: {limits: {memory: -1Gi}}", "resources.limits.memory: a quantity must not"),
        ("resources: {limits: {a b: 1}}", "resources.limits[a b]: is not the name of a resource"),
        (
            "resources: {limits: {cpu: 1500m}, requests: {cpu: 2}}",
            "resources.requests.cpu: is more than the limit",
        ),
        (
            "resources: {limits: {hugepages-2Mi: 3Mi, memory: 1Gi}}",
            "resources.limits.hugepages-2Mi: is no multiple of the page size",
        ),
        ("imagePullPolicy: Sometimes", "imagePullPolicy: 'Sometimes' is not one of Always,"),
        ("restartPolicy: OnError", "restartPolicy: 'OnError' is not one of Always, OnFailure,"),
        ("resource: {}", "resource: is not a field; did you mean resources?"),
        ("command: sleep", "command: a list is needed, not 'sleep'"),
        ("args: [1]", "args[0]: 1 is a number, not text; quote it"),
        ("env: [{name: A, value: yes}]", "env[0].value: yes is true or false, not text"),
        ("env: [{name: A=B}]", "env[0].name: 'A=B' is not a name of a variable"),
        ("tty: 1", "tty: true or false is needed, not '1'"),
        ("volumeMounts: [{name: d, mountPath: /d}]", "volumeMounts[0].name: there is no volume"),
        ("securityContext: {runAsUser: -1}", "securityContext.runAsUser: -1 is not between 0"),
        ("ports: [{containerPort: 0}]", "ports[0].containerPort: 0 is not between 1 and 65535"),
        (
            "env: [{name: A, valueFrom: {fieldRef: {fieldPath: spec.x}}}]",
            "env[0].valueFrom.fieldRef.fieldPath: 'spec.x' is not a field of the downward API",
        ),
        (
            "securityContext: {seccompProfile: {type: None}}",
            "securityContext.seccompProfile.type: 'None' is not one of RuntimeDefault, Unconfined,",
        ),
    ],
)
def test_errors_name_the_field_of_a_container(field: str, error: str) -> None:
    with pytest.raises(UsageError) as caught:
        converted(f"{POD}    {field}\n")
    assert str(caught.value).startswith(f"pod.yaml:8: spec.containers[0].{error}")


# With at least one use of every field that the conversion needs.
WHOLE = """\
apiVersion: batch/v1
kind: CronJob
metadata: {name: web}
spec:
  jobTemplate:
    spec:
      template:
        spec:
          securityContext: {runAsUser: 1}
          volumes:
          - {name: data, hostPath: {path: /data}}
          - {name: disk, persistentVolumeClaim: {claimName: disk}}
          containers:
          - name: app
            image: busybox
            command: [sleep]
            volumeMounts: [{name: data, mountPath: /data}]
            volumeDevices: [{name: disk, devicePath: /dev/disk}]
            resources: {limits: {cpu: 1}, requests: {cpu: 1}}
            securityContext: {seccompProfile: {type: Localhost, localhostProfile: a.json}}
            envFrom: [{configMapRef: {name: a}}]
            env:
            - {name: A, value: a}
            - {name: B, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
            - {name: C, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}
            - {name: D, valueFrom: {configMapKeyRef: {name: a, key: b}}}
"""
OPTIONAL = {"apiVersion", "cpu", "type", "claimName"}


def keys(value: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    return [place for place in places(value, path) if isinstance(place[-1], str)]


@given(st.data())
def test_a_misspelt_field_is_named_with_the_right_one(data: st.DataObject) -> None:
    changed: dict[str, object] = yaml.safe_load(WHOLE)
    *path, right = data.draw(
        st.sampled_from([key for key in keys(changed) if key[-1] not in OPTIONAL])
    )
    assert isinstance(right, str)
    at = data.draw(st.integers(0, len(right) - 1))
    head, letter, tail = right[:at], right[at], right[at + 1 :]
    wrong = data.draw(
        st.sampled_from(
            [f"{head}{tail}", f"{head}x{tail}", f"{head}{letter}x{tail}", right.capitalize()]
            + ([f"{head}{tail[0]}{letter}{tail[1:]}"] if tail else [])
        )
    )
    holder: object = changed
    for key in path:
        holder = holder[key]  # type: ignore[index]
    assert isinstance(holder, dict)
    assume(wrong and wrong not in holder and wrong != right)
    renamed = {wrong if key == right else key: value for key, value in holder.items()}
    holder.clear()
    holder.update(renamed)
    with pytest.raises(UsageError) as caught:
        converted(yaml.safe_dump(changed, sort_keys=False))
    assert f"{wrong}: is not a field; did you mean {right}?" in str(caught.value)


def test_values_of_later_versions_are_noted() -> None:
    (pod,) = converted(f"{POD}    quantumState: {{}}\n")
    assert "line 8: spec.containers[0].quantumState is unknown and was ignored" in pod.notes


def test_expansion_is_bounded() -> None:
    env = ", ".join(
        ["{name: A0, value: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa}"]
        + [f"{{name: A{n}, value: '{f'$(A{n - 1})' * 10}'}}" for n in range(1, 12)]
    )
    with pytest.raises(UsageError, match="longer than"):
        converted(f"{POD}    env: [{env}]\n")


def test_many_references_to_one_value_do_not_fill_the_memory() -> None:
    env = "{name: A, value: %s}" % ("a" * 100_000)
    env += "".join(f", {{name: A{number}, value: $(A)$(A)}}" for number in range(30))
    with pytest.raises(UsageError, match=r"env\[21\]: longer than 4194304 characters with"):
        converted(f"{POD}    env: [{env}]\n")


DOCUMENTS = [
    document
    for path in sorted(MANIFESTS.glob("*.yaml"))
    for document in yaml.safe_load_all(Path(path).read_text())
]
JUNK: st.SearchStrategy[object] = st.sampled_from(
    [None, True, 0, -1, 10**30, 1.5, "", "x" * 300, "../..", "\u202e", "a=b\0", "1x", [], {}, [1]]
)


def places(value: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    found = [path] if path else []
    if isinstance(value, dict):
        for key, item in value.items():
            found += places(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            found += places(item, (*path, index))
    return found


@given(st.data(), st.sampled_from(DOCUMENTS), st.sampled_from(sorted(PROFILES)))
def test_a_changed_manifest_is_converted_or_refused_in_one_line(
    data: st.DataObject, document: dict[str, object], profile: str
) -> None:
    changed = copy.deepcopy(document)
    *path, last = data.draw(st.sampled_from(places(changed)))
    holder: object = changed
    for key in path:
        assert isinstance(holder, dict | list)
        holder = holder[key]  # type: ignore[index]
    assert isinstance(holder, dict | list)
    holder[last] = data.draw(JUNK)  # type: ignore[index]
    error = ""
    try:
        for pod in pods_of(yaml.safe_dump(changed), PROFILES[profile]):
            assert pod.pod.SerializeToString()
            assert all(container.container.SerializeToString() for container in pod.containers)
    except UsageError as found:
        error = str(found)
    assert error.isprintable() and len(error) < 1000
