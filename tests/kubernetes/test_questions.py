# SPDX-License-Identifier: Apache-2.0
"""Questions to a whole cluster: targets as kubectl has them, Events, deleted pods, replicas."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.runtime.testbed.packages import SeriesUnavailable

from .cluster import PATIENCE, ROOT, Cluster, image_archive, running

pytestmark = pytest.mark.kubernetes

PROFILE = os.environ.get("KUBERNETES_PROFILE", "containerd-2.4")
_CONTAINER = """
        - name: istio-proxy
          image: localhost/busybox:1
          imagePullPolicy: IfNotPresent
          command: [sleep, "1000000"]
          env: [{name: DB_PASSWORD, value: hunter2-correct-horse}]
"""
_WORKLOADS = f"""
apiVersion: v1
kind: Namespace
metadata: {{name: payments-prod}}
---
apiVersion: v1
kind: Service
metadata: {{name: checkout-api, namespace: payments-prod}}
spec: {{selector: {{app: checkout-api}}, ports: [{{port: 80}}]}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: checkout-api, namespace: payments-prod}}
spec:
  replicas: 2
  selector: {{matchLabels: {{app: checkout-api}}}}
  template:
    metadata: {{labels: {{app: checkout-api}}}}
    spec:
      terminationGracePeriodSeconds: 0
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: DoNotSchedule
          labelSelector: {{matchLabels: {{app: checkout-api}}}}
      containers:{_CONTAINER}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {{name: node-exporter, namespace: payments-prod}}
spec:
  selector: {{matchLabels: {{app: node-exporter}}}}
  template:
    metadata: {{labels: {{app: node-exporter}}}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:{_CONTAINER}
---
apiVersion: batch/v1
kind: Job
metadata: {{name: settle-accounts, namespace: payments-prod}}
spec:
  template:
    metadata: {{labels: {{app: settle-accounts}}}}
    spec:
      restartPolicy: Never
      containers:
        - name: app
          image: localhost/busybox:1
          imagePullPolicy: IfNotPresent
          command: ["true"]
---
apiVersion: v1
kind: Pod
metadata: {{name: broken, namespace: payments-prod, labels: {{app: broken}}}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
    - name: app
      image: localhost/busybox:1
      imagePullPolicy: IfNotPresent
      command: [/no/such]
"""
_NEW = """
apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: payments-prod, labels: {app: checkout-api}}
spec:
  terminationGracePeriodSeconds: 0
  nodeSelector: {kubernetes.io/hostname: %s}
  containers:
    - name: app
      image: localhost/busybox:1
      imagePullPolicy: IfNotPresent
      command: [sleep, "1000000"]
"""
_OURS = ("-n", "payments-prod")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A cluster of two nodes with the DaemonSet, workloads, and a pod that was deleted."""
    try:
        context = running(PROFILE, 2, [image_archive()])
        with context as found:
            found.kubectl("apply", "-k", str(ROOT / "deploy/kustomize/base"))
            rolled_out = "rollout", "status", f"--timeout={PATIENCE:g}s"
            found.kubectl(*rolled_out, "ds/nri-scope", "--namespace=nri-scope")
            found.kubectl("apply", "-f", "-", stdin=_WORKLOADS)
            for workload in ("deploy/checkout-api", "ds/node-exporter"):
                found.kubectl(*rolled_out, workload, *_OURS)
            done = f"--timeout={PATIENCE:g}s"
            complete = "--for=condition=Complete"
            found.kubectl("wait", complete, "job/settle-accounts", *_OURS, done)
            found.kubectl("apply", "-f", "-", stdin=_NEW % ("deleted", "node2"))
            found.kubectl("wait", "--for=condition=Ready", "pod/deleted", *_OURS, done)
            found.kubectl("delete", "pod/deleted", *_OURS, "--wait")
            yield found
    except SeriesUnavailable as error:
        pytest.skip(str(error))


def wait_for(is_done: Callable[[], object]) -> float:
    """Wait, and return for how many seconds."""
    began = time.monotonic()
    while not is_done():
        assert time.monotonic() < began + PATIENCE, "it did not happen in time"
        time.sleep(0.1)
    return time.monotonic() - began


def printed(cluster: Cluster, *arguments: str, status: int = 0) -> str:
    """Return what a command of nri-scope for clusters prints."""
    done = cluster.run("kubectl", "nri-scope", *arguments)
    assert done.returncode == status, done
    return done.stdout


def replicas(cluster: Cluster) -> dict[str, str]:
    """Return the pods of the Deployment by node."""
    pods = json.loads(
        cluster.kubectl("get", "pods", "-l", "app=checkout-api", *_OURS, "-o", "json")
    )
    return {
        pod["spec"]["nodeName"]: pod["metadata"]["name"]
        for pod in pods["items"]
        if pod["metadata"]["name"].startswith("checkout-api-")
    }


def test_all_nodes_are_searched_also_for_deleted_pods(cluster: Cluster) -> None:
    where = "event:RunPodSandbox ns:payments-prod"
    text = printed(cluster, "log", "--all-nodes", "--where", where, "--since", "30m")
    for pod in (*replicas(cluster).values(), "deleted", "broken"):
        assert f"payments-prod/{pod}" in text
    assert "node1" in text and "node2" in text
    assert "CreateContainer" not in text


@pytest.mark.parametrize(
    ("target", "pods"),
    [("deploy/checkout-api", 2), ("ds/node-exporter", 2), ("job/settle-accounts", 1)],
)
def test_a_workload_is_all_of_its_pods(cluster: Cluster, target: str, pods: int) -> None:
    text = printed(cluster, "log", target, *_OURS, "--where", "event:RunPodSandbox")
    name = target.partition("/")[2]
    assert len(set(re.findall(rf"payments-prod/{name}-\S+", text))) == pods


def test_a_pod_is_named_as_for_kubectl(cluster: Cluster) -> None:
    pod = replicas(cluster)["node2"]
    for name in (pod, f"pod/{pod}", f"payments-prod/{pod}"):
        arguments = (name,) if "payments" in name else (name, *_OURS)
        assert f"  name: {pod}\n" in printed(cluster, "show", *arguments)
    blamed = printed(cluster, "blame", f"{pod}/istio-proxy", *_OURS)
    assert "no plugin was seen to change any of" in blamed


def test_replicas_differ_in_nothing_that_redaction_made(cluster: Cluster) -> None:
    one, other = replicas(cluster).values()
    text = printed(cluster, "diff", one, other, *_OURS, status=1)
    print(text)
    assert "DB_PASSWORD" not in text and "CHECKOUT_API" not in text
    assert "KUBERNETES_SERVICE_HOST" not in text


def test_events_of_kubernetes_say_what_no_recording_knows(cluster: Cluster) -> None:
    wait_for(lambda: "no such file" in cluster.kubectl("get", "events", *_OURS))
    for arguments in (["log"], ["report", "--diagnose"]):
        done = cluster.run("kubectl", "nri-scope", arguments[0], "broken", *_OURS, *arguments[1:])
        assert "no such file" in done.stdout, done
    followed = Followed(cluster, "broken")
    try:
        wait_for(partial(followed.has, "no such file"))
    finally:
        followed.end()


class Followed:
    """``kubectl nri-scope log -f`` in the background."""

    def __init__(self, cluster: Cluster, *arguments: str) -> None:
        self._file = cluster.folder / f"followed-{time.monotonic_ns()}"
        with self._file.open("wb") as output:
            self._process = subprocess.Popen(
                [*cluster.entered("kubectl", "nri-scope", "log", "-f", *_OURS, *arguments)],
                env=os.environ | cluster.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        self.pid = self._process.pid

    def text(self) -> str:
        """Return all output."""
        assert self._process.poll() is None, self._file.read_text()
        return self._file.read_text()

    def has(self, pattern: str) -> bool:
        """Return whether a line matches."""
        return re.search(pattern, self.text()) is not None

    def end(self) -> None:
        """End it as Ctrl-C does."""
        self._process.send_signal(signal.SIGINT)
        self._process.wait(30)


def test_new_pods_are_seen_again_after_an_agent_or_a_port_forward_was_killed(
    cluster: Cluster,
) -> None:
    followed = Followed(cluster, "-l", "app=checkout-api")
    try:
        for pod in replicas(cluster).values():
            wait_for(partial(followed.has, f"payments-prod/{pod}"))
        for number, kill in enumerate((kill_agent, kill_forwards)):
            kill(cluster, followed.pid)
            name = f"after-{number}"
            cluster.kubectl("apply", "-f", "-", stdin=_NEW % (name, "node1"))
            ready = "--for=condition=Ready", f"--timeout={PATIENCE:g}s"
            cluster.kubectl("wait", f"pod/{name}", *ready, *_OURS)
            seconds = wait_for(partial(followed.has, rf"StartContainer .*payments-prod/{name}"))
            print(f"{kill.__name__}: seen {seconds:.1f} s after the pod was ready")
    finally:
        followed.end()
    assert not children(followed.pid)


def kill_agent(cluster: Cluster, _: int) -> None:
    for pid in cluster.processes(1, "nri-scope", "agent"):
        os.kill(pid, signal.SIGKILL)


def kill_forwards(_: Cluster, pid: int) -> None:
    forwards = children(pid)
    assert forwards
    for each in forwards:
        os.kill(each, signal.SIGKILL)


def children(pid: int) -> list[int]:
    """Return the processes ``kubectl port-forward`` below another one."""
    found: list[int] = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(status.read_text().rpartition(")")[2].split()[1])
            words = (status.parent / "cmdline").read_bytes()
        except OSError:
            continue
        if parent == pid:
            child = int(status.parent.name)
            found += [child] if b"port-forward" in words else children(child)
    return found
