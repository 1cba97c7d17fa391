# SPDX-License-Identifier: Apache-2.0
"""Run the manifests on a cluster and record what a plugin gets.

``python -m tests.kubernetes.observation PROFILE…`` writes the folders below tests/data/kubernetes,
with which the ordinary tests compare.
"""

from __future__ import annotations

import gzip
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path

from nri_scope.scenario.manifest.node_facts import NodeFacts
from tests.runtime.testbed.packages import TestbedError

from . import node as node_process
from .cluster import Cluster, running

MANIFESTS = Path(__file__).parent / "manifests"
STORED = Path(__file__).parent.parent / "data" / "kubernetes"
_PLUGIN = "00-nri-scope"
_TIMEOUT = 120.0


def observe(profile: str, folder: Path) -> None:
    """Run all manifests with a runtime; write a bundle, the pods and the node to ``folder``.

    :raises TestbedError: the cluster did not start, or a pod did not run.
    """
    folder.mkdir(parents=True, exist_ok=True)
    recording = folder / "recording.nriscope.db"
    recording.unlink(missing_ok=True)
    with running(profile) as cluster:
        recorder = _start_recorder(cluster, recording)
        try:
            names = _create(cluster)
            _wait_for(lambda: _are_settled(cluster, names), lambda: _unsettled(cluster))
            pods = cluster.kubectl("get", "pods", "--all-namespaces", "-o", "yaml")
            facts = node_facts(cluster, profile)
        finally:
            recorder.send_signal(signal.SIGINT)
            recorder.wait(60)
    packed = gzip.compress(pods.encode(), mtime=0)
    (folder / "pods.yaml.gz").write_bytes(packed)
    (folder / "node.json").write_text(json.dumps(asdict(facts), indent=1) + "\n")
    events = "event:RunPodSandbox OR event:CreateContainer"
    bundle = folder / "recording.nriscope.zip"
    bundle.unlink(missing_ok=True)
    _command("export", recording, "-o", bundle, "--where", events)
    recording.unlink()


def node_facts(cluster: Cluster, profile: str) -> NodeFacts:
    """Return the facts about a cluster's node, from the node and the machine."""
    allocatable = json.loads(
        cluster.kubectl("get", "node", "-o", "jsonpath={.items[0].status.allocatable}")
    )
    memory = next(
        int(line.split()[1])
        for line in Path("/proc/meminfo").read_text().splitlines()
        if line.startswith("MemTotal:")
    )
    cgroups = Path("/sys/fs/cgroup")
    is_v2 = (cgroups / "cgroup.controllers").exists()
    sizes = (
        int(each.name.removeprefix("hugepages-").removesuffix("kB"))
        for each in Path("/sys/kernel/mm/hugepages").iterdir()
    )
    return NodeFacts(
        name=node_process.NAME,
        ip=node_process.ADDRESS,
        cgroup_driver="cgroupfs",
        cgroup_version=2 if is_v2 else 1,
        cgroup_root=(cluster.name,),
        memory=memory << 10,
        is_memory_known=True,
        allocatable_memory=int(allocatable["memory"].removesuffix("Ki")) << 10,
        cpus=int(allocatable["cpu"]),
        huge_page_sizes=tuple(
            f"{size >> 20}GB" if size >= 1 << 20 else f"{size >> 10}MB" for size in sizes
        ),
        limits_huge_pages=profile.startswith("containerd-2") or None,
        has_swap_accounting=is_v2 or (cgroups / "memory/memory.memsw.limit_in_bytes").exists(),
        pause_image="localhost/pause:1",
    )


def _start_recorder(cluster: Cluster, recording: Path) -> subprocess.Popen[bytes]:
    command = Path(sys.executable).parent / "nri-scope"
    process = subprocess.Popen(
        [command, "record", "-o", recording, "--socket", cluster.nri_socket],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    _wait_for(lambda: cluster.connections(_PLUGIN) > 0, lambda: "the recorder did not connect")
    return process


def _create(cluster: Cluster) -> list[str]:
    """Create all objects and return the starts of the names of their pods."""
    # Controllers make the default account of each namespace.
    for namespace in ("default", "kube-system"):
        account = ("get", "serviceaccount", "default", "--namespace", namespace)
        _wait_for(partial(_succeeds, cluster, *account), lambda: "no service account")
    names = []
    for manifest in sorted(MANIFESTS.glob("*.yaml")):
        created = cluster.kubectl("create", "-f", "-", "-o", "name", stdin=manifest.read_text())
        for line in created.splitlines():
            kind, _, name = line.partition("/")
            if kind.partition(".")[0] in _WITH_PODS:
                names.append(name)
    return names


_WITH_PODS = ("pod", "deployment", "daemonset", "statefulset", "replicaset", "job")


def _are_settled(cluster: Cluster, names: list[str]) -> bool:
    pods = json.loads(cluster.kubectl("get", "pods", "--all-namespaces", "-o", "json"))["items"]
    found = [pod["metadata"]["name"] for pod in pods]
    return all(any(one.startswith(name) for one in found) for name in names) and all(
        pod["status"]["phase"] == "Succeeded"
        or (
            pod["status"]["phase"] == "Running"
            and all(one.get("started") for one in pod["status"]["containerStatuses"])
        )
        for pod in pods
    )


def _unsettled(cluster: Cluster) -> str:
    listed = cluster.kubectl("get", "pods", "--all-namespaces")
    events = cluster.kubectl("get", "events", "--all-namespaces", "--field-selector=type=Warning")
    return f"pods do not run:\n{listed}\n{events}"


def _succeeds(cluster: Cluster, *arguments: str) -> bool:
    try:
        cluster.kubectl(*arguments)
    except TestbedError:
        return False
    return True


def _wait_for(is_done: Callable[[], bool], problem: Callable[[], str]) -> None:
    end = time.monotonic() + _TIMEOUT
    while not is_done():
        if time.monotonic() > end:
            raise TestbedError(problem())
        time.sleep(0.3)


def _command(*arguments: str | Path) -> None:
    subprocess.run([Path(sys.executable).parent / "nri-scope", *arguments], check=True)


if __name__ == "__main__":
    for profile in sys.argv[1:]:
        observe(profile, STORED / profile)
