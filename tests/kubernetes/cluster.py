# SPDX-License-Identifier: Apache-2.0
"""A Kubernetes cluster with real runtimes under NRI, for the time of a test."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.runtime.testbed.packages import TestbedError

from . import node as node_process
from .certificates import write_certificates
from .programs import Programs, programs

ROOT = Path(__file__).parent.parent.parent
START_TIMEOUT = 180.0
"""Seconds for a node to be ready; it takes 10 on two idle cores."""
PATIENCE = 120.0
"""Seconds for anything that a busy machine may delay."""


class Cluster:
    """A running cluster; start it with `running`."""

    def __init__(self, folder: Path, found: Programs, pids: Sequence[int]) -> None:
        self.folder = folder
        self.name = folder.name
        self._programs = found
        self._pids = pids

    @property
    def path(self) -> str:
        """Value of PATH with kubectl."""
        return self._programs.path

    @property
    def nri_socket(self) -> Path:
        """NRI socket of the node's runtime."""
        return self.folder / "run/nri/nri.sock"

    def connections(self, plugin: str) -> int:
        """Return how often the runtime has added ``NN-name`` to the chain, according to the log."""
        logs = [self.folder / f"{name}.log" for name in ("containerd", "crio")]
        text = "".join(log.read_text(errors="replace") for log in logs if log.exists())
        return len(re.findall(rf'plugin \\?"{re.escape(plugin)}\\?" connected', text))

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        """Run kubectl and return its output.

        :raises TestbedError: it failed; the message has its errors.
        """
        done = self.run("kubectl", *arguments, stdin=stdin)
        if done.returncode:
            raise TestbedError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def run(self, *command: str | Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command in the network of the first node, as an administrator of the cluster."""
        return subprocess.run(
            [*self.entered(*command)],
            input=stdin,
            capture_output=True,
            text=True,
            env=os.environ | self.environment,
        )

    def entered(self, *command: str | Path) -> tuple[str | Path, ...]:
        """Return a command that runs another one in the network of the first node."""
        return "nsenter", f"--target={self._pids[0]}", "--net", "--", *command

    @property
    def environment(self) -> dict[str, str]:
        """Environment of commands for the cluster."""
        folders = f"{Path(sys.executable).parent}{os.pathsep}{self._programs.path}"
        return {"PATH": folders, "KUBECONFIG": str(self.folder / "certificates/admin.conf")}

    def first_process(self, node: int) -> int:
        """Return the first process of a node, as the machine numbers it."""
        return self._pids[node - 1]

    def restart(self, node: int, program: str) -> None:
        """Kill a program of a node with -9, and start it again at once."""
        with self.killed(node, program):
            pass

    @contextmanager
    def killed(self, node: int, program: str) -> Iterator[None]:
        """Kill a program of a node with -9; start it again after the block, with its arguments."""
        first = self._pids[node - 1]
        process = self._process(first, program)
        arguments = (process / "cmdline").read_bytes().decode().split("\0")[:-1]
        os.kill(int(process.name), signal.SIGKILL)
        try:
            yield
        finally:
            folder = node_process.node_folder(self.folder, node)
            script = f'cd {folder}; setsid "$@" </dev/null >>{program}.log 2>&1 &'
            entered = (f"--target={first}", "-m", "-n", "-p", "-u", "-i", "--")
            subprocess.run(
                ["nsenter", *entered, "sh", "-c", script, "sh", *arguments],
                check=True,
                env=os.environ | self.environment,
            )

    def _process(self, first: int, program: str) -> Path:
        namespace = Path(f"/proc/{first}/ns/pid").readlink()
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if (process / "comm").read_text() == f"{program}\n" and (
                    (process / "ns/pid").readlink() == namespace
                ):
                    return process
        raise TestbedError(f"{program} does not run on the node")

    def processes(self, node: int, *arguments: str) -> list[int]:
        """Return the processes of a node's pods whose command line has these arguments in a row."""
        cgroup = f"/{node_process.cgroup_name(self.folder, node)}/"
        wanted = "\0".join(arguments).encode()
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if (
                    wanted in (process / "cmdline").read_bytes()
                    and cgroup in (process / "cgroup").read_text()
                ):
                    found.append(int(process.name))
        return sorted(found)


def image_archive() -> Path:
    """Return nri-scope's image as an OCI archive, and build it if there is none."""
    archive = ROOT / "build/nri-scope-image.tar"
    if not archive.exists():
        subprocess.run([sys.executable, "-m", "scripts.make_image", archive], cwd=ROOT, check=True)
    return archive


def roll_out(cluster: Cluster) -> None:
    """Wait until the DaemonSet is rolled out."""
    wait = "--namespace=nri-scope", f"--timeout={PATIENCE:g}s"
    cluster.kubectl("rollout", "status", "ds/nri-scope", *wait)


def wait_for(is_done: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Wait until a condition holds; fail after some seconds."""
    end = time.monotonic() + seconds
    while not is_done():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.3)


@contextmanager
def running(profile: str, nodes: int = 1, images: Sequence[Path] = ()) -> Iterator[Cluster]:
    """Provide a cluster for the duration of a block, and remove it completely afterwards.

    ``images``: OCI archives for all nodes: containerd imports them, CRI-O pulls from a registry.

    :raises TestbedError: the machine does not allow it, or the node does not start.
    """
    if os.geteuid() != 0:
        raise TestbedError("the test cluster starts real containers: it needs root on Linux")
    found = programs(profile)
    # A short path, because it contains sockets.
    folder = Path(tempfile.mkdtemp(prefix="nsk-", dir="/tmp"))
    os.environ["PATH"] = found.path
    write_certificates(folder / "certificates", nodes)
    outers: list[subprocess.Popen[bytes]] = []
    try:
        for number in range(1, nodes + 1):
            outers.append(_start(folder, profile, number, images))
            if number > 1:
                _connect(number, _first_process(outers[0]), _first_process(outers[-1]))
        for number, outer in enumerate(outers, 1):
            _wait_ready(node_process.node_folder(folder, number), outer)
        yield Cluster(folder, found, [_first_process(outer) for outer in outers])
    finally:
        for outer in reversed(outers):
            _end(outer)
        numbers = range(1, nodes + 1)
        _remove_cgroups([node_process.cgroup_name(folder, number) for number in numbers])
        shutil.rmtree(folder)


def _connect(number: int, first: int, other: int) -> None:
    """Connect the network of another node to the bridge of the first one."""
    link = f"node-{number}"
    made = f"ip link add {link} netns {first} type veth peer name eth0 netns {other}"
    _retried(*made.split())
    joined = f"nsenter --target={first} --net -- ip link set {link} master node0 up"
    end = time.monotonic() + START_TIMEOUT
    while subprocess.run(joined.split(), capture_output=True).returncode:
        # The first node makes the bridge.
        if time.monotonic() > end:
            raise TestbedError("the nodes cannot be connected")
        time.sleep(0.1)


def _start(
    folder: Path, profile: str, number: int, images: Sequence[Path]
) -> subprocess.Popen[bytes]:
    log_folder = node_process.node_folder(folder, number)
    log_folder.mkdir(exist_ok=True)
    with (log_folder / "node.log").open("wb") as log:
        return subprocess.Popen(
            [
                *("unshare", "--mount", "--net", "--pid", "--uts", "--ipc"),
                *("--fork", "--mount-proc", "--kill-child"),
                *(sys.executable, "-m", node_process.__name__, folder, profile, str(number)),
                *images,
            ],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            # Ctrl-C must reach only the test, which takes the cluster down.
            start_new_session=True,
        )


def _wait_ready(folder: Path, outer: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + START_TIMEOUT
    while not (folder / "ready").exists():
        if outer.poll() is not None or time.monotonic() > end:
            logs = sorted(folder.glob("*.log"), key=lambda log: log.name != "node.log")
            lines = [
                f"{log.name}: {line}"
                for log in logs
                for line in log.read_text(errors="replace").splitlines()[-5:]
            ]
            raise TestbedError("\n".join(["the node did not start", *lines]))
        time.sleep(0.1)


def _first_process(outer: subprocess.Popen[bytes]) -> int:
    """Return the first process of a node, as the machine numbers it."""
    while outer.poll() is None:
        children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()
        if children:
            return int(children[0])
        time.sleep(0.05)
    raise TestbedError("the node ended at once")


def _end(outer: subprocess.Popen[bytes]) -> None:
    """Kill the first process of the node, with which all others, mounts and interfaces end."""
    with suppress(OSError, ValueError, IndexError):
        children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()
        os.kill(int(children[0]), signal.SIGKILL)
    if outer.poll() is None:
        try:
            outer.wait(20)
        except subprocess.TimeoutExpired:
            outer.kill()
            outer.wait()


def _remove_cgroups(names: list[str]) -> None:
    """Remove the nodes' cgroups, also those of huge pages, which only nodes had mounted."""
    base = Path("/sys/fs/cgroup")
    tops = [each / name for name in names for each in (base, *base.iterdir())]
    script = 'find "$@" -depth -type d -exec rmdir {} +'
    for top in tops:
        if top.is_dir():
            _retried("sh", "-c", script, "sh", str(top))
    if not (base / "cgroup.controllers").exists() and not (base / "hugetlb").exists():
        # The hierarchy ends when it is unmounted without a dying cgroup, or with the last cluster.
        mounted = (
            f'mount -t cgroup -o hugetlb cgroup /mnt && {{ [ ! -e "$1" ] || {script}; }}'
            " && others=$(find /mnt -maxdepth 1 -name 'nsk-*') && umount /mnt && sleep 0.1"
            " && { [ -n \"$others\" ] || grep -q '^hugetlb[[:space:]]0' /proc/cgroups; }"
        )
        _retried(
            *("unshare", "--mount", "sh", "-c", mounted, "sh"), *(f"/mnt/{name}" for name in names)
        )


def _retried(*command: str) -> None:
    """Run a command until it succeeds, e.g. while killed processes keep cgroups busy."""
    for _ in range(100):
        if subprocess.run(command, capture_output=True).returncode == 0:
            return
        time.sleep(0.1)
    raise TestbedError(f"failed again and again: {' '.join(command)}")
