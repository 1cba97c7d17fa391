# SPDX-License-Identifier: Apache-2.0
"""The DaemonSet on a cluster of two nodes: what its recordings tell, and what disturbs it.

A second recorder on each node, outside of the cluster, tells what the runtime sent.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
import yaml

from nri_scope.events import Gap, Session
from nri_scope.recording.reading.reader import Recording
from tests.agent.prometheus import program
from tests.runtime.testbed.packages import SeriesUnavailable

from . import node as node_process
from .cluster import PATIENCE, ROOT, Cluster, image_archive, roll_out, running, wait_for

pytestmark = pytest.mark.kubernetes

PROFILE = os.environ.get("KUBERNETES_PROFILE", "containerd-2.1")
"""Profile of `RUNTIMES`."""
RUNTIME, PROGRAM = ("cri-o", "crio") if PROFILE == "cri-o" else ("containerd", "containerd")
"""Name of the runtime, and that of its process."""
NODES = (1, 2)
_KUBECTL = ("--namespace=nri-scope",)
_COMMAND = Path(sys.executable).parent / "nri-scope"
Key = tuple[str, str, str]
SAME_NS = 1_000_000_000
"""Maximum difference of the times of an event in two recordings, in ns."""

_WEB = """
apiVersion: v1
kind: Pod
metadata: {{name: web-{node}, labels: {{app: web}}}}
spec:
  nodeSelector: {{kubernetes.io/hostname: node{node}}}
  terminationGracePeriodSeconds: 0
  containers:
    - name: app
      image: localhost/busybox:1
      imagePullPolicy: IfNotPresent
      command: [sleep, "1000000"]
      env: [{{name: PASSWORD, value: hunter2-correct-horse}}]
---
"""
_LOAD = """
apiVersion: batch/v1
kind: Job
metadata: {{name: {name}-{node}}}
spec:
  completions: {pods}
  parallelism: 3
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      nodeSelector: {{kubernetes.io/hostname: node{node}}}
      containers:
        - {{name: app, image: "localhost/busybox:1", command: ["true"]}}
---
"""


def folder_of(cluster: Cluster, node: int) -> Path:
    """Return the folder of a node's recordings, as the machine sees it."""
    return node_process.node_folder(cluster.folder, node) / "lib/nri-scope"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A cluster with the DaemonSet, a pod on each node, and another recorder on each node."""
    try:
        stack = ExitStack()
        one = stack.enter_context(running(PROFILE, len(NODES), [image_archive()]))
    except SeriesUnavailable as error:
        pytest.skip(str(error))
    with stack:
        began = time.monotonic()
        one.kubectl("apply", "-k", str(ROOT / "deploy/kustomize/base"))
        roll_out(one)
        report("installed and synchronised on two nodes", began)
        wait_for(lambda: "default" in one.kubectl("get", "serviceaccount", "-o", "name"))
        for node in NODES:
            stack.enter_context(observer(one, node))
        one.kubectl("apply", "-f", "-", stdin="".join(_WEB.format(node=node) for node in NODES))
        one.kubectl("wait", "--for=condition=Ready", "pod", "-l", "app=web", "--timeout=60s")
        before = containers(one)
        yield one
        assert containers(one) == before, "a pod was disturbed"


@contextmanager
def observer(cluster: Cluster, node: int) -> Iterator[None]:
    """Record outside of the cluster what the runtime of a node sends."""
    socket = node_process.node_folder(cluster.folder, node) / "run/nri/nri.sock"
    with (cluster.folder / f"observer{node}.log").open("wb") as log:
        process = subprocess.Popen(
            [
                *(_COMMAND, "record", "--socket", socket, "--index", "99"),
                *("--name", "observer", "-o", observed_by(cluster, node)),
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        wait_for(lambda: "recording" in (cluster.folder / f"observer{node}.log").read_text())
        yield
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)


def observed_by(cluster: Cluster, node: int) -> Path:
    """Return the recording of the other recorder."""
    return cluster.folder / f"observer{node}.nriscope.db"


def containers(cluster: Cluster) -> object:
    """Return ids and restarts of the containers of the pods on both nodes."""
    pods = json.loads(cluster.kubectl("get", "pods", "-l", "app=web", "-o", "json"))["items"]
    return {
        (pod["metadata"]["uid"], one["containerID"], one["restartCount"])
        for pod in pods
        for one in pod["status"]["containerStatuses"]
    }


def status(cluster: Cluster) -> dict[str, dict[str, object]]:
    """Return the states of the nodes by name."""
    done = cluster.run("kubectl", "nri-scope", "status", "--format", "json")
    assert done.stdout, done.stderr
    return {each["node"]: each for each in json.loads(done.stdout)["nodes"]}


def are_synchronized(cluster: Cluster) -> bool:
    states = status(cluster)
    return len(states) == len(NODES) and all(each.get("synchronized") for each in states.values())


def report(what: str, began: float) -> None:
    print(f"{what}: {time.monotonic() - began:.1f} s")


# -- load and its events ----------------------------------------------------------------------


@contextmanager
def load(cluster: Cluster, name: str, pods: int) -> Iterator[None]:
    """Run jobs on both nodes during a block; none of their pods may fail."""
    jobs = "".join(_LOAD.format(name=name, node=node, pods=pods) for node in NODES)
    cluster.kubectl("apply", "-f", "-", stdin=jobs)
    wait_for(lambda: "node1" in cluster.kubectl("get", "pods", "-l", "job-name", "-o", "wide"))
    yield
    names = [f"job/{name}-{node}" for node in NODES]
    cluster.kubectl("wait", "--for=condition=Complete", *names, f"--timeout={PATIENCE:g}s")
    failed = cluster.kubectl("get", *names, "-o", "jsonpath={.items[*].status.failed}")
    assert failed.split() == [], f"pods failed: {failed}"
    cluster.kubectl("delete", *names, "--wait")


def events(path: Path) -> dict[Key, list[int]]:
    """Return the times of a recording's events by kind, pod and container."""
    found: dict[Key, list[int]] = {}
    with Recording.open(path) as recording:
        for event in recording.events():
            if event.event != "Synchronize":
                key = event.event, event.pod_id or "", event.container_id or ""
                found.setdefault(key, []).append(event.at_ns)
    return found


def missing(cluster: Cluster, node: int, since_ns: int) -> list[int]:
    """Return when events happened that no recording of the DaemonSet on a node has."""
    observed = events(observed_by(cluster, node))
    lost = {(key, at_ns) for key, times in observed.items() for at_ns in times}
    for path in folder_of(cluster, node).glob("*.nriscope.db"):
        recorded = events(path)
        for key, times in observed.items():
            # A kubelet may stop a pod several times.
            left = recorded.get(key, [])
            for at_ns in times:
                distance, nearest = min(
                    ((abs(one - at_ns), one) for one in left), default=(SAME_NS, 0)
                )
                if distance < SAME_NS:
                    left.remove(nearest)
                    lost.discard((key, at_ns))
    return sorted(at_ns for _, at_ns in lost if at_ns >= since_ns)


def gaps(cluster: Cluster, node: int) -> list[Gap]:
    """Return all gaps of the DaemonSet's recordings on a node."""
    found: list[Gap] = []
    for path in folder_of(cluster, node).glob("*.nriscope.db"):
        with Recording.open(path) as recording:
            found += recording.gaps()
    return found


def sessions(path: Path) -> list[Session]:
    """Return the sessions of a recording."""
    with Recording.open(path) as recording:
        return list(recording.sessions())


def settled(cluster: Cluster) -> None:
    """Wait until the recorders have written what the runtimes sent."""
    wait_for(lambda: are_synchronized(cluster))
    time.sleep(1)


# -- commands ---------------------------------------------------------------------------------


def test_status_knows_both_nodes(cluster: Cluster) -> None:
    done = cluster.run("kubectl", "nri-scope", "status")
    assert done.returncode == 0, done
    assert re.findall(rf"(?m)^(node\d) .*synchronised.* {RUNTIME} ", done.stdout) == [
        "node1",
        "node2",
    ]


@pytest.mark.parametrize("node", NODES)
def test_commands_show_a_pod_on_either_node(cluster: Cluster, node: int) -> None:
    pod = f"default/web-{node}"
    log = cluster.run("kubectl", "nri-scope", "log", pod, "--format", "jsonl")
    names = [json.loads(line).get("event") for line in log.stdout.splitlines()]
    assert {"RunPodSandbox", "CreateContainer", "StartContainer"} <= set(names), log
    blame = cluster.run("kubectl", "nri-scope", "blame", f"{pod}/app")
    assert (blame.returncode, blame.stderr) == (0, ""), blame
    assert "no plugin was seen to change any of" in blame.stdout
    show = cluster.run("kubectl", "nri-scope", "show", f"{pod}/app")
    redacted = "this recording is redacted: tokens and made-up addresses replace values\n"
    assert (show.returncode, show.stderr) == (0, redacted), show
    assert "PASSWORD" in show.stdout
    # The agent redacts what it sends, although the recording has the value.
    assert "hunter2" not in show.stdout
    assert any(
        b"hunter2" in request
        for path in folder_of(cluster, node).glob("*.nriscope.db")
        for request in requests(path)
    )


def requests(path: Path) -> list[bytes]:
    with Recording.open(path) as recording:
        return [request for _, request, _ in recording.exchanges()]


def test_a_pod_that_is_unknown_is_one_line(cluster: Cluster) -> None:
    done = cluster.run("kubectl", "nri-scope", "log", "default/no-such-pod")
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr


def test_the_api_server_finds_only_the_documented_exceptions(cluster: Cluster) -> None:
    label = "pod-security.kubernetes.io/enforce=restricted"
    done = cluster.run("kubectl", "label", "--dry-run=server", "--overwrite", "ns/nri-scope", label)
    (found,) = re.findall(r"(?m)^Warning: nri-scope-\S+ .*?: (.*)$", done.stderr)
    assert found == "restricted volume types, runAsNonRoot != true, runAsUser=0"


def test_the_terminal_interface_works_in_the_container(cluster: Cluster) -> None:
    path = next(folder_of(cluster, 1).glob("*.nriscope.db"))
    pod = cluster.kubectl(
        *("get", "pods", *_KUBECTL, "--field-selector=spec.nodeName=node1"),
        *("-o", "jsonpath={.items[0].metadata.name}"),
    )
    command = ("exec", "-it", *_KUBECTL, pod, "-c", "agent", "--", "nri-scope", "tui")
    assert_shows_the_interface(cluster, *command, f"/var/lib/nri-scope/{path.name}")


def test_the_terminal_interface_works_in_a_pod_for_debugging(
    cluster: Cluster, tmp_path: Path
) -> None:
    path = next(folder_of(cluster, 1).glob("*.nriscope.db"))
    image = cluster.kubectl(
        *("get", "ds/nri-scope", *_KUBECTL),
        *("-o", "jsonpath={.spec.template.spec.containers[0].image}"),
    )
    # The image's user is not root, who owns the recordings.
    root = tmp_path / "root.json"
    root.write_text('{"securityContext": {"runAsUser": 0}}')
    command = ("debug", "-it", "node/node1", f"--image={image}", "--image-pull-policy=Never")
    options = ("--profile=sysadmin", f"--custom={root}")
    file = f"/host/var/lib/nri-scope/{path.name}"
    try:
        assert_shows_the_interface(cluster, *command, *options, "--", "nri-scope", "tui", file)
    finally:
        pods = cluster.kubectl("get", "pods", "-o", "name").split()
        debuggers = [name for name in pods if "node-debugger" in name]
        cluster.kubectl("delete", *debuggers, "--wait", "--grace-period=0", "--force")


def assert_shows_the_interface(cluster: Cluster, *command: str) -> None:
    """Check that a command of kubectl shows the terminal interface, with events of the node."""
    main, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("4H", 40, 120, 0, 0))
    process = subprocess.Popen(
        cluster.entered("kubectl", *command),
        stdin=other,
        stdout=other,
        stderr=other,
        env=os.environ | cluster.environment | {"TERM": "xterm-256color"},
        start_new_session=True,
    )
    os.close(other)
    shown = b""
    try:
        end = time.monotonic() + PATIENCE
        while b"RunPodSandbox" not in shown and time.monotonic() < end:
            if select.select([main], [], [], 1)[0]:
                try:
                    shown += os.read(main, 65536)
                except OSError:
                    # The command has ended.
                    break
        assert b"RunPodSandbox" in shown, shown[-2000:]
    finally:
        process.kill()
        process.wait()
        os.close(main)


# -- disturbances -----------------------------------------------------------------------------


def test_a_killed_agent_interrupts_nothing(cluster: Cluster, tmp_path: Path) -> None:
    printed = tmp_path / "log.jsonl"
    with printed.open("wb") as output:
        process = subprocess.Popen(
            cluster.entered(
                *("kubectl", "nri-scope", "log", "-f", "--node", "node1", "--format", "jsonl")
            ),
            stdout=output,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | cluster.environment,
        )
    try:
        wait_for(lambda: shown_events(printed))
        since_ns = time.time_ns()
        with load(cluster, "agents", 6):
            for node in NODES:
                for agent in cluster.processes(node, "nri-scope", "agent"):
                    os.kill(agent, signal.SIGKILL)
        wait_for(lambda: are_synchronized(cluster))
        assert [missing(cluster, node, since_ns) for node in NODES] == [[], []]
        expected = sum(map(len, events(observed_by(cluster, 1)).values()))
        wait_for(lambda: shown_events(printed).total() >= expected)
    finally:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert re.sub(r"(?m)^node1: (.*; connecting|connected) again$", "", errors).strip() == ""
    # The command has each event once.
    assert set(shown_events(printed).values()) == {1}


def shown_events(printed: Path) -> Counter[tuple[object, ...]]:
    """Return the events in JSON lines, without Synchronize."""
    lines = [json.loads(line) for line in printed.read_text().splitlines()]
    return Counter(
        (line["id"], line["event"], line.get("pod_id"), line.get("container_id"), line.get("at"))
        for line in lines
        if line.get("event") and line["event"] != "Synchronize"
    )


def test_events_that_a_killed_recorder_misses_are_in_a_gap(cluster: Cluster) -> None:
    since_ns = time.time_ns()
    began = time.monotonic()
    with load(cluster, "recorders", 10):
        for node in NODES:
            for recorder in cluster.processes(node, "nri-scope", "record"):
                os.kill(recorder, signal.SIGKILL)
    settled(cluster)
    report("recorders killed under load, synchronised again", began)
    for node in NODES:
        lost = missing(cluster, node, since_ns)
        explained = [gap for gap in gaps(cluster, node) if gap.to_ns >= since_ns]
        print(f"node{node}: {len(lost)} events lost, gaps: {[gap.reason for gap in explained]}")
        assert explained
        # A request may have been answered before its time in the other recording.
        margin = 100_000_000
        assert [
            at_ns
            for at_ns in lost
            if not any(gap.from_ns - margin <= at_ns <= gap.to_ns + margin for gap in explained)
        ] == []


def test_a_restart_of_the_runtime_ends_no_recording(cluster: Cluster) -> None:
    for node in NODES:
        began, since_ns = time.monotonic(), time.time_ns()
        cluster.restart(node, PROGRAM)

        def is_back(name: str = f"node{node}", since_ns: int = since_ns) -> bool:
            state = status(cluster)[name]
            since = str(state.get("connected_since") or "")
            return bool(state.get("synchronized")) and since > _rfc3339(since_ns)

        wait_for(is_back)
        report(f"{RUNTIME} of node{node} killed and started, synchronised again", began)
        reasons = [gap.reason for gap in gaps(cluster, node) if gap.to_ns >= since_ns]
        print(f"node{node}: gaps: {reasons}")
        assert reasons
    since_ns = time.time_ns()
    with load(cluster, "afterwards", 3):
        pass
    settled(cluster)
    assert [missing(cluster, node, since_ns) for node in NODES] == [[], []]


def test_a_restart_of_the_kubelet_loses_nothing(cluster: Cluster) -> None:
    since_ns = time.time_ns()
    with load(cluster, "kubelets", 6):
        for node in NODES:
            cluster.restart(node, "kubelet")
    settled(cluster)
    for node in NODES:
        assert missing(cluster, node, since_ns) == []
        assert [gap for gap in gaps(cluster, node) if gap.from_ns >= since_ns] == []


def test_prometheus_scrapes_the_agents_and_fires_an_alert(cluster: Cluster, tmp_path: Path) -> None:
    pods = cluster.kubectl("get", "pods", *_KUBECTL, "-o", "jsonpath={.items[*].status.podIP}")
    # Without the five minutes that a recorder may be away.
    rules = re.sub(r"for: \w+", "for: 1s", (ROOT / "deploy/prometheus/rules.yaml").read_text())
    (tmp_path / "rules.yaml").write_text(rules)
    targets = [f"{address}:9644" for address in pods.split()]
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": ["rules.yaml"],
        "scrape_configs": [{"job_name": "nri-scope", "static_configs": [{"targets": targets}]}],
    }
    (tmp_path / "prometheus.yaml").write_text(yaml.safe_dump(config))
    arguments = (f"--config.file={tmp_path}/prometheus.yaml", f"--storage.tsdb.path={tmp_path}/db")
    with (tmp_path / "log").open("wb") as log:
        server = subprocess.Popen(
            cluster.entered(program("prometheus"), *arguments), stdout=log, stderr=log
        )
    try:
        wait_for(lambda: firing_and_connected(cluster)[1] == {"1"})
        assert "NriRecorderNotConnected" not in firing_and_connected(cluster)[0]
        with cluster.killed(1, PROGRAM):
            wait_for(lambda: "NriRecorderNotConnected" in firing_and_connected(cluster)[0])
        wait_for(lambda: "NriRecorderNotConnected" not in firing_and_connected(cluster)[0])
    finally:
        server.terminate()
        server.wait(30)


def firing_and_connected(cluster: Cluster) -> tuple[set[str], set[str]]:
    """Return the names of firing alerts, and the values of `nri_scope_connected` of both agents."""
    found = [
        json.loads(done.stdout)["data"]["result"]
        for query in ('ALERTS{alertstate="firing"}', "nri_scope_connected")
        if (done := cluster.run(sys.executable, "-c", _QUERY, query)).returncode == 0
    ]
    if len(found) < 2 or len(found[1]) < len(NODES):
        return set(), set()
    return {one["metric"]["alertname"] for one in found[0]}, {one["value"][1] for one in found[1]}


_QUERY = """
import sys, urllib.parse, urllib.request
query = urllib.parse.urlencode({"query": sys.argv[1]})
address = f"http://127.0.0.1:9090/api/v1/query?{query}"
print(urllib.request.urlopen(address, timeout=5).read().decode())
"""


def _rfc3339(at_ns: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at_ns // 10**9))


def test_no_event_is_lost_while_the_daemon_set_is_rolled_under_load(cluster: Cluster) -> None:
    before = {path.name for node in NODES for path in folder_of(cluster, node).glob("*.db")}
    since_ns = time.time_ns()
    with load(cluster, "rolled", 20):
        began = time.monotonic()
        cluster.kubectl("rollout", "restart", "ds/nri-scope", *_KUBECTL)
        roll_out(cluster)
        report("rolled on two nodes under load", began)
    settled(cluster)
    for node in NODES:
        assert missing(cluster, node, since_ns) == []
        both = [gap for gap in gaps(cluster, node) if gap.from_ns >= since_ns]
        assert both == []
        files = {path.name: path for path in folder_of(cluster, node).glob("*.db")}
        (new,) = files.keys() - before
        # Two recorders of one index and name were connected for some time.
        began_ns = sessions(files[new])[0].started_ns
        ended_ns = max(
            one.ended_ns or 0 for name in files.keys() & before for one in sessions(files[name])
        )
        assert since_ns < began_ns < ended_ns
        print(f"node{node}: both recorders for {(ended_ns - began_ns) / 1e9:.1f} s")


@pytest.mark.parametrize("variant", ["redact", "validate"])
def test_an_overlay_is_installed_over_another_one(cluster: Cluster, variant: str) -> None:
    cluster.kubectl("apply", "-k", str(ROOT / "deploy/kustomize" / variant))
    roll_out(cluster)
    settled(cluster)
    for node in NODES:
        (recorder,) = cluster.processes(node, "nri-scope", "record")
        assert f"--{variant}" in Path(f"/proc/{recorder}/cmdline").read_text().split("\0")
    if variant == "redact":
        for node in NODES:
            files = sorted(folder_of(cluster, node).glob("*.db"), key=lambda one: _began_ns(one))
            # Containers that exist are in Synchronize.
            assert not any(b"hunter2" in request for request in requests(files[-1]))
            assert any(b"hunter2" in request for request in requests(files[0]))


def _began_ns(path: Path) -> int:
    return sessions(path)[0].started_ns


def test_helm_installs_it(cluster: Cluster) -> None:
    began = time.monotonic()
    cluster.kubectl("delete", "-k", str(ROOT / "deploy/kustomize/base"), "--wait")
    cluster.kubectl("create", *("namespace", "nri-scope"))
    level = "pod-security.kubernetes.io/enforce=privileged"
    cluster.kubectl("label", *("namespace", "nri-scope"), level)
    chart = str(ROOT / "deploy/helm/nri-scope")
    options = (*_KUBECTL, "--wait", f"--timeout={PATIENCE:g}s")
    for words in (("install", "nri-scope", chart), ("upgrade", "nri-scope", chart)):
        done = cluster.run("helm", *words, *options)
        assert done.returncode == 0, done.stderr
    roll_out(cluster)
    settled(cluster)
    report("deleted, and installed and upgraded by Helm", began)
    # Recordings outlive the DaemonSet.
    log = cluster.run("kubectl", "nri-scope", "log", "default/web-1", "--format", "jsonl")
    assert "RunPodSandbox" in log.stdout


def test_memory_of_the_containers(cluster: Cluster) -> None:
    for node in NODES:
        for command in ("record", "agent"):
            (first,) = cluster.processes(node, "nri-scope", command)
            pids = in_container_of(first)
            sizes = [_resident(pid) for pid in pids]
            print(f"node{node}: {command}: {[size >> 20 for size in sizes]} MiB")
            assert 0 < sum(sizes) < 128 << 20


def in_container_of(pid: int) -> list[int]:
    """Return all processes of a process's container."""
    own = Path(f"/proc/{pid}/cgroup").read_text()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (process / "cgroup").read_text() == own:
                found.append(int(process.name))
    return found


def _resident(pid: int) -> int:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) << 10
