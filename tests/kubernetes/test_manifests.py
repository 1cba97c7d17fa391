# SPDX-License-Identifier: Apache-2.0
"""The manifests for installation, as kustomize and Helm render them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from nri_scope import __version__
from nri_scope.cluster.agent_pods import LABEL, NAMESPACE
from nri_scope.filter.moments import parse_size
from nri_scope.recording.file.heartbeat import heartbeat_of
from scripts.make_image import NAME

from .programs import cache_folder

DEPLOY = Path(__file__).parents[2] / "deploy"
OVERLAYS = ("validate", "redact", "openshift", "authorize")
VARIANTS = ("base", *OVERLAYS)
Manifest = dict[str, Any]

# Volumes of https://kubernetes.io/docs/concepts/security/pod-security-standards/, "restricted".
_VOLUMES = {
    *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim"),
    *("projected", "secret"),
}
_SELINUX_TYPES = {None, "", "container_t", "container_init_t", "container_kvm_t"}
_SELINUX_TYPES |= {"container_engine_t"}
EXCEPTIONS = {
    "volume nri: hostPath",
    "volume recordings: hostPath",
    "volume state: hostPath",
    "recorder: runs as root",
    "agent: runs as root",
}
"""Exceptions from the profile "restricted", which docs/kubernetes.md explains."""


def program(name: str) -> str:
    """Return the path of a program, or skip the test."""
    path = cache_folder() / "bin" / name
    if path.exists():
        return str(path)
    pytest.skip(f"no {name} in {path.parent}; python -m tests.kubernetes.programs builds it")


def kustomized(variant: str | Path) -> list[Manifest]:
    """Return the objects that kustomize renders, of a variant or a folder."""
    kubectl = program("kubectl")
    rendered = subprocess.run(
        [kubectl, "kustomize", DEPLOY / "kustomize" / variant], capture_output=True, check=True
    )
    return list(yaml.safe_load_all(rendered.stdout))


def templated(*options: str, namespace: str = "nri-scope") -> list[Manifest]:
    """Return the objects that Helm renders."""
    command = [program("helm"), "template", "nri-scope", str(DEPLOY / "helm" / "nri-scope")]
    rendered = subprocess.run(
        [*command, f"--namespace={namespace}", "--kube-version=1.34", *options],
        capture_output=True,
        check=True,
    )
    return [each for each in yaml.safe_load_all(rendered.stdout) if each is not None]


def violations(pod: Manifest) -> set[str]:
    """Return where a pod's specification exceeds the Pod Security profile "restricted"."""
    found = {
        f"host namespace: {each}" for each in ("hostNetwork", "hostPID", "hostIPC") if pod.get(each)
    }
    for volume in pod["volumes"]:
        found |= {
            f"volume {volume['name']}: {kind}" for kind in volume.keys() - _VOLUMES - {"name"}
        }
    shared = pod.get("securityContext", {})
    for container in [*pod["containers"], *pod.get("initContainers", [])]:
        name, own = container["name"], container.get("securityContext", {})
        context = shared | own
        if context.get("privileged"):
            found.add(f"{name}: privileged")
        if context.get("allowPrivilegeEscalation") is not False:
            found.add(f"{name}: privilege escalation")
        capabilities = own.get("capabilities", {})
        if "ALL" not in capabilities.get("drop", ()) or set(capabilities.get("add", ())) - {
            "NET_BIND_SERVICE"
        }:
            found.add(f"{name}: capabilities")
        if not context.get("runAsNonRoot") or context.get("runAsUser") == 0:
            found.add(f"{name}: runs as root")
        if context.get("seccompProfile", {}).get("type") not in ("RuntimeDefault", "Localhost"):
            found.add(f"{name}: seccomp")
        selinux = context.get("seLinuxOptions", {})
        if selinux.get("type") not in _SELINUX_TYPES or selinux.keys() & {"user", "role"}:
            found.add(f"{name}: SELinux")
        if context.get("procMount") not in (None, "Default") or context.get("windowsOptions"):
            found.add(f"{name}: procMount or windowsOptions")
        if context.get("appArmorProfile", {}).get("type") == "Unconfined":
            found.add(f"{name}: AppArmor")
        found |= {f"{name}: host port" for port in container.get("ports", ()) if "hostPort" in port}
    return found


def daemon_set(objects: list[Manifest]) -> Manifest:
    """Return the DaemonSet among objects."""
    (found,) = [each for each in objects if each["kind"] == "DaemonSet"]
    return found


def test_the_recorder_is_alive_by_the_age_of_its_heartbeat(tmp_path: Path) -> None:
    manifest = yaml.safe_load((DEPLOY / "kustomize/base/daemonset.yaml").read_text())
    recorder = manifest["spec"]["template"]["spec"]["containers"][0]
    program, *arguments = recorder["livenessProbe"]["exec"]["command"]
    assert (recorder["name"], program) == ("recorder", "python3")
    arguments[-1] = arguments[-1].replace("/var/lib/nri-scope", str(tmp_path))
    (output,) = (each for each in recorder["args"] if each.startswith("--output="))
    heartbeat = heartbeat_of(tmp_path / Path(output.replace("$(POD_UID)", "some-uid")).name)
    for age, status in ((None, 0), (1.0, 0), (20.0, 0), (40.0, 1)):
        if age is not None:
            heartbeat.touch()
            at = time.time() - age
            os.utime(heartbeat, (at, at))
        environment = {**os.environ, "POD_UID": "some-uid"}
        done = subprocess.run([sys.executable, *arguments], env=environment, check=False)
        assert done.returncode == status, age


@pytest.mark.parametrize("variant", VARIANTS)
def test_helm_renders_the_same_objects_as_kustomize(variant: str) -> None:
    options = [] if variant == "base" else [f"--set={variant}=true"]
    rendered = templated("--set=createNamespace=true", *options)
    assert sorted(rendered, key=_order) == sorted(kustomized(variant), key=_order)


READER = {
    "apiGroup": "rbac.authorization.k8s.io",
    "kind": "Group",
    "name": "nri-scope-readers",
}
PROMETHEUS = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
VALUES = {
    "readers": f"--set-json=readers={json.dumps([READER])}",
    "networkpolicy": f"--set-json=networkPolicy={json.dumps([PROMETHEUS])}",
}
"""Options of Helm for components whose values are no switches."""


@pytest.mark.parametrize(
    "chosen",
    [
        *(("redact", "openshift"), ("validate", "redact", "openshift"), ("readers",)),
        *(("networkpolicy",), ("networkpolicy", "readers", "openshift", "authorize")),
    ],
)
def test_components_are_combined_as_values_of_helm_are(
    tmp_path: Path, chosen: tuple[str, ...]
) -> None:
    folder = os.path.relpath(DEPLOY / "kustomize", tmp_path)
    kustomization = {
        "resources": [f"{folder}/base"],
        "components": [f"{folder}/components/{each}" for each in chosen],
    }
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    options = [VALUES.get(each, f"--set={each}=true") for each in chosen]
    rendered = templated("--set=createNamespace=true", *options)
    assert sorted(rendered, key=_order) == sorted(kustomized(tmp_path), key=_order)


def _order(one: Manifest) -> tuple[str, str]:
    return one["kind"], one["metadata"]["name"]


def test_helm_uses_its_namespace_and_leaves_it_to_the_cluster() -> None:
    every = ("--set=openshift=true,authorize=true", *VALUES.values())
    rendered = templated(*every, namespace="other")
    assert "Namespace" not in [each["kind"] for each in rendered]
    assert {each["metadata"].get("namespace", "other") for each in rendered} == {"other"}
    accounts = [one for each in rendered for one in each.get("subjects", ()) if one != READER]
    assert accounts == [{"kind": "ServiceAccount", "name": "nri-scope", "namespace": "other"}]
    assert "nri-scope:nri-scope" not in json.dumps(rendered)


@pytest.mark.parametrize(
    "option",
    [
        *("--set-string=validate=false", "--set=validates=true", "--set=imagePullPolicy=Alwayz"),
        *("--set=image=null", "--set=image=", "--set-json=agentArgs=[1]"),
        # Helm would write a large number as 2e+09.
        *("--set=maxFolderSize=null", "--set=maxFolderSize=2000000000", "--set=maxFolderSize=2X"),
    ],
)
def test_helm_refuses_values_that_mean_nothing(option: str) -> None:
    with pytest.raises(subprocess.CalledProcessError) as failed:
        templated(option)
    assert b"values don't meet the specifications of the schema" in failed.value.stderr


@pytest.mark.parametrize("size", ["2000000000", "512M", "64KiB", "1.5g"])
def test_helm_accepts_sizes_that_record_accepts(size: str) -> None:
    found = daemon_set(templated(f"--set-string=maxFolderSize={size}"))
    recorder = found["spec"]["template"]["spec"]["containers"][0]
    assert f"--max-folder-size={size}" in recorder["args"]
    assert parse_size(size)


def test_values_of_helm_add_options_volumes_and_nodes() -> None:
    rules = "--redact=/etc/nri-scope/rules.toml"
    values: dict[str, Any] = {
        "redact": True,
        "recorderArgs": [rules],
        "agentArgs": [rules, "--metrics-namespaces"],
        "volumes": [{"name": "rules", "configMap": {"name": "nri-scope-rules"}}],
        "volumeMounts": [{"name": "rules", "mountPath": "/etc/nri-scope"}],
        "nodeSelector": {"nri": "yes"},
        "imagePullSecrets": [{"name": "registry"}],
        "podLabels": {"team": "platform"},
        "podAnnotations": {"example.com/scrape": "no"},
        "priorityClassName": "system-node-critical",
        "tolerations": [],
    }
    options = [f"--set-json={name}={json.dumps(value)}" for name, value in values.items()]
    template = daemon_set(templated(*options))["spec"]["template"]
    plain_template = daemon_set(templated("--set=redact=true"))["spec"]["template"]
    plain_template["metadata"]["labels"] |= values["podLabels"]
    plain_template["metadata"]["annotations"] |= values["podAnnotations"]
    assert template["metadata"] == plain_template["metadata"]
    changed, plain = template["spec"], plain_template["spec"]
    plain["imagePullSecrets"] = values["imagePullSecrets"]
    plain["priorityClassName"] = values["priorityClassName"]
    for container, added in zip(plain["containers"], ("recorderArgs", "agentArgs"), strict=True):
        container["args"] += values[added]
        container["volumeMounts"] += values["volumeMounts"]
    plain["volumes"] += values["volumes"]
    plain["nodeSelector"] |= values["nodeSelector"]
    del plain["tolerations"]
    assert changed == plain


@pytest.mark.parametrize("variant", VARIANTS)
def test_pods_are_restricted_with_named_exceptions(variant: str) -> None:
    pod = daemon_set(kustomized(variant))["spec"]["template"]["spec"]
    expected = EXCEPTIONS
    if variant == "openshift":
        expected = expected | {"recorder: SELinux", "agent: SELinux"}
    assert violations(pod) == expected


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_reaches_nri_has_no_port_and_no_account(variant: str) -> None:
    objects = kustomized(variant)
    pod = daemon_set(objects)["spec"]["template"]["spec"]
    recorder, agent = pod["containers"]
    mounted = {
        each["name"]: {mount["name"] for mount in each["volumeMounts"]}
        for each in (recorder, agent)
    }
    account = {"account"} if variant == "authorize" else set[str]()
    assert mounted == {
        "recorder": {"nri", "recordings"},
        "agent": {"recordings", "state", "tmp"} | account,
    }
    writable = {
        mount["name"] for mount in agent["volumeMounts"] if not mount.get("readOnly", False)
    }
    assert writable == {"state", "tmp"}
    assert "ports" not in recorder
    assert pod["automountServiceAccountToken"] is False
    rules = [one for each in objects for one in each.get("rules", ())]
    assert {one for each in rules for one in each["verbs"]} <= {"create"}
    reviews = {"tokenreviews", "subjectaccessreviews"} if account else set[str]()
    assert {one for each in rules for one in each["resources"]} == reviews
    assert all("cpu" not in each["resources"]["limits"] for each in (recorder, agent))
    assert all(each["securityContext"]["readOnlyRootFilesystem"] for each in (recorder, agent))


def test_objects_are_found_by_the_commands_and_use_the_image_of_this_version() -> None:
    objects = kustomized("base")
    found = daemon_set(objects)
    key, value = LABEL.split("=")
    assert found["spec"]["template"]["metadata"]["labels"][key] == value
    assert {each["metadata"].get("namespace", NAMESPACE) for each in objects} == {NAMESPACE}
    images = {each["image"] for each in found["spec"]["template"]["spec"]["containers"]}
    assert images == {NAME}
    chart = yaml.safe_load((DEPLOY / "helm/nri-scope/Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == __version__


def test_prometheus_finds_the_pods_and_names_their_job_as_the_rules_do() -> None:
    template = daemon_set(kustomized("base"))["spec"]["template"]
    labels, (_, agent) = template["metadata"]["labels"], template["spec"]["containers"]
    monitor = yaml.safe_load((DEPLOY / "prometheus/podmonitor.yaml").read_text())["spec"]
    assert monitor["selector"]["matchLabels"].items() <= labels.items()
    (endpoint,) = monitor["podMetricsEndpoints"]
    assert endpoint["port"] in [port["name"] for port in agent["ports"]]
    job = yaml.safe_load((DEPLOY / "prometheus/scrape.yaml").read_text())["scrape_configs"][0]
    assert job["job_name"] == labels[monitor["jobLabel"]]
    assert f'up{{job="{job["job_name"]}"}} == 0' in (DEPLOY / "prometheus/rules.yaml").read_text()


@pytest.mark.parametrize("variant", VARIANTS)
def test_arguments_are_options_of_the_commands(variant: str) -> None:
    pod = daemon_set(kustomized(variant))["spec"]["template"]["spec"]
    for container in pod["containers"]:
        command, *arguments = container["args"]
        known = subprocess.run(
            [Path(sys.executable).parent / "nri-scope", command, "--help"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for each in arguments:
            assert not each.startswith("--") or each.partition("=")[0] in known
