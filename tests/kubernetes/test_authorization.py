# SPDX-License-Identifier: Apache-2.0
"""A reader who is limited to a namespace, on a real cluster whose agents authorize callers."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from tests.runtime.testbed.packages import SeriesUnavailable

from .cluster import ROOT, Cluster, image_archive, roll_out, running, wait_for

pytestmark = pytest.mark.kubernetes

PROFILE = os.environ.get("KUBERNETES_PROFILE", "containerd-2.1")
_ACCOUNT = ("-n", "shop", "reader")
_MANIFESTS = """
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: Namespace
metadata: {name: vault}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: reader, namespace: shop}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader, namespace: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{kind: ServiceAccount, name: reader, namespace: shop}]
"""
_POD = """
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: {namespace}, labels: {{app: {name}}}}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
    - name: app
      image: localhost/busybox:1
      imagePullPolicy: IfNotPresent
      command: [sleep, "1000000"]
---
"""
_READER = {"kind": "ServiceAccount", "name": "reader", "namespace": "shop"}


def has_accounts(cluster: Cluster) -> bool:
    """Return whether pods can be created in both namespaces."""
    accounts = cluster.kubectl("get", "serviceaccount", "--all-namespaces", "-o", "json")
    named = {
        (one["metadata"]["namespace"], one["metadata"]["name"])
        for one in json.loads(accounts)["items"]
    }
    return {("shop", "default"), ("vault", "default")} <= named


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A node with the DaemonSet, as several components change it, and pods in two namespaces."""
    folder = tmp_path_factory.mktemp("kustomization")
    source = os.path.relpath(ROOT / "deploy/kustomize", folder)
    names = ("networkpolicy", "readers", "authorize")
    kustomization = {
        "resources": [f"{source}/base"],
        "components": [f"{source}/components/{name}" for name in names],
        "patches": [
            {
                "target": {"kind": "RoleBinding", "name": "nri-scope-readers"},
                "patch": json.dumps([{"op": "replace", "path": "/subjects/0", "value": _READER}]),
            }
        ],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    with ExitStack() as stack:
        try:
            one = stack.enter_context(running(PROFILE, 1, [image_archive()]))
        except SeriesUnavailable as error:
            pytest.skip(str(error))
        one.kubectl("apply", "-k", str(folder))
        one.kubectl("apply", "-f", "-", stdin=_MANIFESTS)
        roll_out(one)
        wait_for(lambda: has_accounts(one))
        pods = _POD.format(name="web", namespace="shop") + _POD.format(name="db", namespace="vault")
        one.kubectl("apply", "-f", "-", stdin=pods)
        for namespace in ("shop", "vault"):
            one.kubectl(
                *("wait", "--for=condition=Ready", "pod", "--all", "-n", namespace),
                "--timeout=60s",
            )
        yield one


@pytest.fixture(scope="module")
def reader(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the kubeconfig of the reader, who has a token of a ServiceAccount."""
    token = cluster.kubectl("create", "token", *_ACCOUNT).strip()
    return with_user(cluster, tmp_path_factory.mktemp("reader") / "config", {"token": token})


def with_user(cluster: Cluster, path: Path, user: dict[str, str]) -> Path:
    """Write the administrator's kubeconfig with another user."""
    config = yaml.safe_load(Path(cluster.environment["KUBECONFIG"]).read_text())
    config["users"][0]["user"] = user
    path.write_text(yaml.safe_dump(config))
    return path


def ask(cluster: Cluster, config: Path | None, *arguments: str) -> tuple[int, str, str]:
    given = () if config is None else (f"--kubeconfig={config}",)
    done = cluster.run("kubectl", "nri-scope", *arguments, *given)
    return done.returncode, done.stdout, done.stderr


def test_the_reader_reads_the_own_namespace(cluster: Cluster, reader: Path) -> None:
    status, output, errors = ask(cluster, reader, "log", "shop/web")
    assert (status, errors) == (0, "")
    assert "CreateContainer" in output and "vault" not in output
    status, output, errors = ask(cluster, reader, "log", "-l", "app=web", "--namespace", "shop")
    assert status == 0 and "StartContainer" in output, errors
    assert ask(cluster, reader, "blame", "shop/web/app")[0] == 0
    status, output, errors = ask(cluster, reader, "status")
    assert "synchronised" in output, errors


@pytest.mark.parametrize(
    "arguments", [("log", "--node", "node1"), ("missing", "--plugin", "10-gpu")]
)
def test_the_reader_does_not_read_a_node(
    cluster: Cluster, reader: Path, arguments: tuple[str, ...]
) -> None:
    status, output, errors = ask(cluster, reader, *arguments)
    assert (status, output) == (2, "")
    user = "system:serviceaccount:shop:reader"
    refusal = f"node1: its agent refuses access: user {user} may not get pods/log in all namespaces"
    assert refusal in errors


def test_the_reader_does_not_read_another_namespace_through_the_port(
    cluster: Cluster, reader: Path
) -> None:
    pod = cluster.kubectl("get", "pods", "-n", "nri-scope", "-o", "name").split()[0]
    # Without the API server's own refusal to get the pod, as the command asks for.
    script = f"""
import asyncio
from grpclib.exceptions import GRPCError
from nri_scope._gen.agent.nri_scope.agent import v1
from nri_scope.cluster.agent_client import AgentClient
from nri_scope.cluster.agent_pods import AgentPod, agent_pods
from nri_scope.cluster.kubectl import Kubectl

async def main():
    kubectl = Kubectl(("--kubeconfig={reader}",))
    client = AgentClient(kubectl, (await agent_pods(kubectl))["node1"])
    for names in (["vault"], [], [""], ["shop", "vault"], ["shop"]):
        request = v1.GetEventsRequest(where="-ns:shop", namespaces=names)
        try:
            seen = [one.event async for one in client.events(request) if one.event is not None]
        except Exception as error:
            print(names, "refused" if "may not get pods/log" in str(error) else error)
        else:
            print(names, sorted({{one.method for one in seen}} | {{
                "vault" for one in seen if b"vault" in one.request + one.reply}}))

asyncio.run(main())
"""
    done = cluster.run(sys.executable, "-c", script)
    assert pod and done.stdout.splitlines() == [
        *("['vault'] refused", "[] refused", "[''] refused", "['shop', 'vault'] refused"),
        "['shop'] ['Synchronize']",
    ], done


def test_a_user_with_a_certificate_gives_a_token_for_agents(
    cluster: Cluster, tmp_path: Path
) -> None:
    status, output, errors = ask(cluster, None, "log", "shop/web")
    assert (status, output) == (2, "")
    assert "it has no token, which the agents ask for" in errors
    given = tmp_path / "token"
    given.write_text(cluster.kubectl("create", "token", *_ACCOUNT, "--audience=nri-scope"))
    status, output, errors = ask(cluster, None, "log", "shop/web", f"--token-file={given}")
    assert (status, errors) == (0, "") and "CreateContainer" in output
    status, output, errors = ask(cluster, None, "log", "vault/db", f"--token-file={given}")
    assert (status, output) == (2, "")
    assert "may not get pods/log in namespace vault" in errors
    # The API server itself does not accept this token.
    alone = with_user(cluster, tmp_path / "config", {"token": given.read_text().strip()})
    refused = cluster.run("kubectl", f"--kubeconfig={alone}", "get", "pods")
    assert refused.returncode == 1 and re.search("Unauthorized|logged in", refused.stderr)


def test_only_the_agent_has_a_token_and_cannot_write_recordings(cluster: Cluster) -> None:
    pod = cluster.kubectl("get", "pods", "-n", "nri-scope", "-o", "json")
    (one,) = json.loads(pod)["items"]
    mounts = {
        each["name"]: {mount["mountPath"] for mount in each["volumeMounts"]}
        for each in one["spec"]["containers"]
    }
    account = "/var/run/secrets/kubernetes.io/serviceaccount"
    assert account in mounts["agent"] and account not in mounts["recorder"]
    allowed = cluster.kubectl(
        *("auth", "can-i", "--list", "--as=system:serviceaccount:nri-scope:nri-scope")
    )
    assert "tokenreviews.authentication.k8s.io" in allowed
    assert not re.search(r"(?m)^(pods|secrets|nodes)\b", allowed)
