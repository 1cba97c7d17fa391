# SPDX-License-Identifier: Apache-2.0
"""What views tell of a disturbed cluster, against what plugins in Go saw on each node.

Recorders, agents, runtimes and a plugin are killed and stopped, disks filled, the DaemonSet rolled
and pods deleted, at random times. Afterwards: an event that a view does not have is in a gap that
the view shows, no gap covers a recorded event, and `missing` calls no container connected that the
plugin did not get.

NRI_SCOPE_DRIVER_SECONDS (900) is the duration of the disturbances, NRI_SCOPE_DRIVER_SEED the seed
of a run to repeat.
"""

from __future__ import annotations

import faulthandler
import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.runtime.testbed.packages import SeriesUnavailable

from . import node as node_process
from .cluster import ROOT, Cluster, image_archive, running, wait_for
from .witness import Seen, Witness

pytestmark = pytest.mark.kubernetes

PROFILE = os.environ.get("KUBERNETES_PROFILE", "containerd-2.4")
SECONDS = float(os.environ.get("NRI_SCOPE_DRIVER_SECONDS", "900"))
SEED = int(os.environ.get("NRI_SCOPE_DRIVER_SEED") or time.time())
NODES = (1, 2)
PLUGIN = "10-gpu"
RECORDINGS = "/var/lib/nri-scope"
DISK = "64m"
PATIENCE = 180.0
"""Seconds for anything that a busy machine may delay."""
LATE_NS = 8_000_000_000
"""Maximum time in ns between an event's request to the first plugin and the last one's reply."""

_WORKLOAD = """
apiVersion: apps/v1
kind: Deployment
metadata: {{name: checkout-api-{node}}}
spec:
  replicas: 3
  selector: {{matchLabels: {{app: checkout-api, place: node{node}}}}}
  template:
    metadata: {{labels: {{app: checkout-api, place: node{node}}}}}
    spec:
      nodeSelector: {{kubernetes.io/hostname: node{node}}}
      terminationGracePeriodSeconds: 0
      containers:
        - name: app
          image: localhost/busybox:1
          imagePullPolicy: IfNotPresent
          command: [sleep, "1000000"]
---
"""


class View(NamedTuple):
    """What a command printed: the events, and the gaps as times in ns with their reason."""

    seen: list[Seen]
    gaps: list[tuple[int, int, str]]
    stalls: list[tuple[int, int, str]]
    """Gaps of one recorder that was stopped."""


class Disturber:
    """Random disturbances of a cluster; each lasts for some time."""

    def __init__(
        self, cluster: Cluster, plugins: dict[int, Witness], chance: random.Random
    ) -> None:
        self._cluster = cluster
        self._plugins = plugins
        self._chance = chance
        self._active: dict[tuple[str, int], tuple[float, ExitStack]] = {}
        self.count: Counter[str] = Counter()

    def run(self, seconds: float) -> None:
        """Disturb the cluster for some time, and end all disturbances."""
        lasting: dict[str, Callable[[int], AbstractContextManager[None]]] = {
            "recorder stopped": self._stopped_recorder,
            "disk filled": self._filled_disk,
            "plugin killed": lambda node: self._plugins[node].killed(),
            "plugin stopped": lambda node: self._plugins[node].stopped(),
        }
        momentary: dict[str, Callable[[int], None]] = {
            "recorder killed": partial(self._kill, "record"),
            "agent killed": partial(self._kill, "agent"),
            "runtime restarted": self._restart_runtime,
            "DaemonSet rolled": self._roll,
            "pod deleted": self._delete_pod,
            "pod deleted again": self._delete_pod,
        }
        end = time.monotonic() + seconds
        try:
            while time.monotonic() < end:
                node = self._chance.choice(NODES)
                name = self._chance.choice([*lasting, *momentary])
                if name in momentary:
                    momentary[name](node)
                elif (name, node) not in self._active:
                    stack = ExitStack()
                    stack.enter_context(lasting[name](node))
                    until = time.monotonic() + self._chance.uniform(1, 15)
                    self._active[name, node] = until, stack
                self.count[name] += 1
                # A pod is created during most disturbances.
                self._delete_pod(node)
                time.sleep(self._chance.uniform(0.2, 4))
                self._end(time.monotonic())
        finally:
            self._end(float("inf"))

    def _end(self, now: float) -> None:
        for key, (until, stack) in list(self._active.items()):
            if until <= now:
                del self._active[key]
                stack.close()

    def _kill(self, command: str, node: int) -> None:
        for pid in self._cluster.processes(node, "nri-scope", command):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    @contextmanager
    def _stopped_recorder(self, node: int) -> Iterator[None]:
        pids = self._cluster.processes(node, "nri-scope", "record")
        for number in (signal.SIGSTOP, signal.SIGCONT):
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
            if number is signal.SIGSTOP:
                yield

    @contextmanager
    def _filled_disk(self, node: int) -> Iterator[None]:
        filler = recordings_of(self._cluster, node) / "filler"
        with suppress(OSError), filler.open("wb", buffering=0) as file:
            while file.write(bytes(1 << 16)):
                pass
        try:
            yield
        finally:
            filler.unlink(missing_ok=True)

    def _restart_runtime(self, node: int) -> None:
        self._cluster.restart(node, "containerd")

    def _roll(self, node: int) -> None:
        self._cluster.kubectl("rollout", "restart", "ds/nri-scope", "--namespace=nri-scope")

    def _delete_pod(self, node: int) -> None:
        pods = names_of_pods(self._cluster, node)
        if pods:
            self._cluster.run("kubectl", "delete", "pod", self._chance.choice(pods), "--wait=false")


def test_what_was_not_observed_is_told(tmp_path: Path) -> None:
    print(f"seed {SEED}, {SECONDS:g} s, {PROFILE}")
    # pytest's limit of a test's time, after which the process ends without any cleaning up.
    faulthandler.cancel_dump_traceback_later()
    with ExitStack() as stack:
        try:
            cluster = stack.enter_context(running(PROFILE, len(NODES), [image_archive()]))
        except SeriesUnavailable as error:
            pytest.skip(str(error))
        for node in NODES:
            enter(cluster, node, "mkdir", "-p", RECORDINGS)
            enter(cluster, node, "mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", RECORDINGS)
        # These pods are older than every recorder.
        cluster.kubectl("apply", "-f", "-", stdin="".join(map(workload, NODES)))
        observers = {
            node: stack.enter_context(plugin(cluster, tmp_path, node, "99-observer"))
            for node in NODES
        }
        plugins = {
            node: stack.enter_context(plugin(cluster, tmp_path, node, PLUGIN)) for node in NODES
        }
        wait_for(
            lambda: len(names_of_pods(cluster, 1)) == len(names_of_pods(cluster, 2)) == 3, PATIENCE
        )
        cluster.kubectl("apply", "-k", str(ROOT / "deploy/kustomize/validate"))
        wait_for(partial(are_synchronized, cluster), PATIENCE)
        time.sleep(2)
        since_ns = time.time_ns()
        disturber = Disturber(cluster, plugins, random.Random(SEED))
        try:
            disturber.run(SECONDS)
            cluster.kubectl(
                "rollout",
                "status",
                "ds/nri-scope",
                "--namespace=nri-scope",
                f"--timeout={PATIENCE:g}s",
            )
            wait_for(partial(are_synchronized, cluster), PATIENCE)
            cluster.kubectl(
                "wait",
                "--for=condition=Ready",
                "pod",
                "-l",
                "app=checkout-api",
                f"--timeout={PATIENCE:g}s",
            )
            time.sleep(3)
            print(dict(disturber.count))
            problems = [
                *(
                    text
                    for node in NODES
                    for text in of_node(cluster, node, observers[node], since_ns)
                ),
                *of_missing(cluster, observers, plugins, since_ns),
            ]
        finally:
            keep(cluster, tmp_path)
        assert problems == [], "\n".join([f"{len(problems)} problems", *problems[:40]])


# -- laws -------------------------------------------------------------------------------------


def of_node(cluster: Cluster, node: int, observer: Witness, since_ns: int) -> Iterator[str]:
    """Yield what is wrong in the views of a node and of its pods."""
    seen = [each for each in observer.seen() if each.at_ns >= since_ns]
    whole = view(cluster, "--node", f"node{node}")
    lost = unrecorded(seen, whole.seen)
    print(f"node{node}: {len(seen)} events seen, {len(lost)} not recorded, {len(whole.gaps)} gaps")
    yield from (f"node{node}: {text}" for text in untold(lost, whole))
    yield from (f"node{node}: {text}" for text in false_gaps(whole.gaps, whole.seen))
    for pod in names_of_pods(cluster, node):
        uid = cluster.kubectl("get", "pod", pod, "-o", "jsonpath={.metadata.uid}")
        ids = {each.pod for each in seen if each.event == "RunPodSandbox"} & sandboxes(
            cluster, node, uid
        )
        shown = view(cluster, f"default/{pod}")
        missed = [each for each in unrecorded(seen, shown.seen) if each.pod in ids]
        yield from (f"{pod}: {text}" for text in untold(missed, shown))
        yield from (f"{pod}: {text}" for text in false_gaps(shown.gaps, whole.seen))
        assert len(shown.gaps) <= len(whole.gaps)
    labelled = view(cluster, "-l", f"app=checkout-api,place=node{node}")
    yield from (f"-l place=node{node}: {text}" for text in false_gaps(labelled.gaps, whole.seen))


def unrecorded(seen: Sequence[Seen], recorded: Sequence[Seen]) -> list[Seen]:
    """Return what a view does not have."""
    times: dict[tuple[str, str, str], list[int]] = {}
    for event in recorded:
        times.setdefault(event.key, []).append(event.at_ns)
    return [
        event
        for event in seen
        if not any(abs(event.at_ns - at_ns) < LATE_NS for at_ns in times.get(event.key, ()))
    ]


def untold(lost: Sequence[Seen], shown: View) -> Iterator[str]:
    """Yield the events that a view neither has nor explains by a gap."""
    for event in lost:
        if not any(
            low <= event.at_ns and event.at_ns - LATE_NS <= high
            for low, high, _ in (*shown.gaps, *shown.stalls)
        ):
            subject = f"{event.pod[:12]} {event.container[:12]}"
            yield f"no gap at {words(event.at_ns)}: {event.event} of {subject}"


def false_gaps(gaps: Sequence[tuple[int, int, str]], recorded: Sequence[Seen]) -> Iterator[str]:
    """Yield the gaps in which events were recorded."""
    for low, high, reason in gaps:
        inside = [event for event in recorded if low < event.at_ns < high]
        if inside:
            first = inside[0]
            yield (
                f"gap {words(low)} to {words(high)} ({reason}) has {len(inside)} recorded events, "
                f"the first {first.event} at {words(first.at_ns)}"
            )


def of_missing(
    cluster: Cluster, observers: dict[int, Witness], plugins: dict[int, Witness], since_ns: int
) -> Iterator[str]:
    """Yield the containers for which `missing` tells something wrong."""
    done = cluster.run("kubectl", "nri-scope", "missing", "--plugin", PLUGIN, "--format", "json")
    document = json.loads(done.stdout)
    verdicts = {each["id"]: each["plugin"] for each in document["creations"]}
    counts: Counter[str] = Counter()
    for node in NODES:
        got = {each.container for each in plugins[node].seen() if each.event == "CreateContainer"}
        started = {
            each.container for each in observers[node].seen() if each.event == "PostStartContainer"
        }
        for event in observers[node].seen():
            if (
                event.event != "CreateContainer"
                or event.at_ns < since_ns
                or event.container not in started
            ):
                continue
            verdict = verdicts.get(event.container, "not listed")
            # A plugin that was stopped or killed at that time may have got a request too late.
            doubtful = any(
                low - LATE_NS <= event.at_ns <= high + LATE_NS
                for low, high in plugins[node].absences
            )
            passed = event.container in got
            counts[f"{'got' if passed else 'passed without'}: {verdict}"] += 1
            subject = f"node{node}: {event.container[:12]}, {verdict} at {words(event.at_ns)},"
            if passed and verdict == "missing" and not doubtful:
                yield f"{subject} had {PLUGIN}"
            is_silent = verdict == "not listed" and not is_told(document, node, event.at_ns)
            if not passed and (verdict == "connected" or is_silent):
                yield f"{subject} passed without {PLUGIN}"
    print(f"missing: {dict(counts)}, status {done.returncode}")
    if any(verdict != "connected" for verdict in verdicts.values()) and done.returncode != 1:
        yield f"missing: status {done.returncode}"


def is_told(document: dict[str, Any], node: int, at_ns: int) -> bool:
    """Return whether `missing` says that a time was not observed."""
    intervals = document["coverage"].get(f"node{node}", {}).get("unobserved", [])
    return any(
        nanoseconds(each["from"]) <= at_ns and at_ns - LATE_NS <= nanoseconds(each["to"])
        for each in intervals
    )


# -- the cluster ------------------------------------------------------------------------------


def workload(node: int) -> str:
    return _WORKLOAD.format(node=node)


@contextmanager
def plugin(cluster: Cluster, folder: Path, node: int, title: str) -> Iterator[Witness]:
    """Run a plugin in Go on a node."""
    index, _, name = title.partition("-")
    socket = node_process.node_folder(cluster.folder, node) / "run/nri/nri.sock"
    dedicated = PROFILE == "containerd-2.4"
    witness = Witness(folder / f"{name}{node}", socket, index, name, dedicated=dedicated)
    with witness.running():
        yield witness


def enter(cluster: Cluster, node: int, *command: str) -> str:
    """Run a command in the namespaces of a node."""
    entered = ("nsenter", f"--target={cluster.first_process(node)}", "-m", "-n", "-p", "-u", "-i")
    done = subprocess.run([*entered, "--", *command], capture_output=True, text=True, check=True)
    return done.stdout


def recordings_of(cluster: Cluster, node: int) -> Path:
    """Return the folder of a node's recordings, on a disk of its own."""
    return Path(f"/proc/{cluster.first_process(node)}/root{RECORDINGS}")


def keep(cluster: Cluster, folder: Path) -> None:
    """Copy the recordings, to examine a failure."""
    for node in NODES:
        kept = folder / f"node{node}"
        subprocess.run(["cp", "-a", f"{recordings_of(cluster, node)}/.", kept], check=False)


def names_of_pods(cluster: Cluster, node: int) -> list[str]:
    """Return the pods of the workload on a node."""
    output = ("-o", "jsonpath={.items[*].metadata.name}")
    return cluster.kubectl("get", "pods", "-l", f"place=node{node}", *output).split()


def sandboxes(cluster: Cluster, node: int, uid: str) -> set[str]:
    """Return the ids of a pod's sandboxes, as containerd names them."""
    found = enter(
        cluster,
        node,
        "ctr",
        "-n",
        "k8s.io",
        "containers",
        "ls",
        f'labels."io.kubernetes.pod.uid"=={uid}',
        "-q",
    )
    return set(found.split())


def are_synchronized(cluster: Cluster) -> bool:
    done = cluster.run("kubectl", "nri-scope", "status", "--format", "json")
    with suppress(ValueError):
        states = json.loads(done.stdout)["nodes"]
        return len(states) == len(NODES) and all(each.get("synchronized") for each in states)
    return False


def view(cluster: Cluster, *arguments: str) -> View:
    """Return what `log` shows."""
    done = cluster.run("kubectl", "nri-scope", "log", *arguments, "--format", "jsonl")
    assert done.returncode == 0, (arguments, done.stderr)
    found = View([], [], [])
    for line in done.stdout.splitlines():
        entry = json.loads(line)
        gap = entry.get("gap")
        if gap and gap["session"] is not None and "stalled" in gap["reason"]:
            # A gap of one recorder: others may have recorded during it.
            found.stalls.append((nanoseconds(gap["from"]), nanoseconds(gap["to"]), gap["reason"]))
        elif gap:
            found.gaps.append((nanoseconds(gap["from"]), nanoseconds(gap["to"]), gap["reason"]))
        elif entry.get("pod_id"):
            event = entry["event"], entry["pod_id"], entry["container_id"]
            found.seen.append(Seen(nanoseconds(entry["at"]), *event))
    return found


def nanoseconds(text: str) -> int:
    """Return a time of RFC 3339 in ns, exact to a microsecond."""
    moment = datetime.fromisoformat(text)
    return int(moment.timestamp()) * 10**9 + moment.microsecond * 1000


def words(at_ns: int) -> str:
    return datetime.fromtimestamp(at_ns / 1e9, UTC).strftime("%H:%M:%S.%f")[:-3]
