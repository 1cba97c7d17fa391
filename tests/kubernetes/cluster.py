# SPDX-License-Identifier: Apache-2.0
"""A Kubernetes cluster of one node, with a real containerd under NRI, for the time of a test."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.runtime.testbed.packages import TestbedError

from . import node as node_process
from .certificates import write_certificates
from .programs import Programs, programs

ROOT = Path(__file__).parent.parent.parent
START_TIMEOUT = 180.0
"""Seconds for a node to be ready; it takes 10 on two idle cores."""


class Cluster:
    """A running cluster; start it with `running`."""

    def __init__(self, folder: Path, found: Programs, pid: int) -> None:
        self.folder = folder
        self.name = folder.name
        self._programs = found
        self._pid = pid

    @property
    def nri_socket(self) -> Path:
        """NRI socket of the node's containerd."""
        return self.folder / "run/nri/nri.sock"

    def connections(self, plugin: str) -> int:
        """Return how often containerd has added ``NN-name`` to the chain, according to the log."""
        logs = [self.folder / f"{name}.log" for name in ("containerd", "crio")]
        text = "".join(log.read_text(errors="replace") for log in logs if log.exists())
        return len(re.findall(rf'plugin \\?"{re.escape(plugin)}\\?" connected', text))

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        """Run kubectl and return its output.

        :raises TestbedError: it failed; the message has its errors.
        """
        config = self.folder / "certificates/admin.conf"
        kubectl = str(self._programs.kubernetes / "kubectl")
        command = ("nsenter", f"--target={self._pid}", "--net", "--", kubectl)
        done = subprocess.run(
            [*command, f"--kubeconfig={config}", *arguments],
            input=stdin,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise TestbedError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout


@contextmanager
def running(profile: str) -> Iterator[Cluster]:
    """Provide a cluster for the duration of a block, and remove it completely afterwards.

    :raises TestbedError: the machine does not allow it, or the node does not start.
    """
    if os.geteuid() != 0:
        raise TestbedError("the test cluster starts real containers: it needs root on Linux")
    found = programs(profile)
    # A short path, because it contains sockets.
    folder = Path(tempfile.mkdtemp(prefix="nsk-", dir="/tmp"))
    os.environ["PATH"] = found.path
    write_certificates(folder / "certificates")
    outer = _start(folder, profile)
    try:
        yield Cluster(folder, found, _wait_ready(folder, outer))
    finally:
        _end(outer)
        _remove_cgroups(folder.name)
        shutil.rmtree(folder)


def _start(folder: Path, profile: str) -> subprocess.Popen[bytes]:
    with (folder / "node.log").open("wb") as log:
        return subprocess.Popen(
            [
                *("unshare", "--mount", "--net", "--pid", "--uts", "--ipc"),
                *("--fork", "--mount-proc", "--kill-child"),
                *(sys.executable, "-m", node_process.__name__, folder, profile),
            ],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            # Ctrl-C must reach only the test, which takes the cluster down.
            start_new_session=True,
        )


def _wait_ready(folder: Path, outer: subprocess.Popen[bytes]) -> int:
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
    children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()
    return int(children[0])


def _end(outer: subprocess.Popen[bytes]) -> None:
    """Kill the first process of the node, with which all others, mounts and interfaces end."""
    with suppress(OSError, ValueError):
        children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()
        os.kill(int(children[0]), signal.SIGKILL)
    if outer.poll() is None:
        try:
            outer.wait(20)
        except subprocess.TimeoutExpired:
            outer.kill()
            outer.wait()


def _remove_cgroups(name: str) -> None:
    """Remove the node's cgroups, also those of huge pages, which only the node had mounted."""
    base = Path("/sys/fs/cgroup")
    tops = [base / name, *(each / name for each in base.iterdir())]
    script = 'find "$0" -depth -type d -exec rmdir {} +'
    for top in tops:
        if top.is_dir():
            _retried("sh", "-c", script, str(top))
    if not (base / "cgroup.controllers").exists() and not (base / "hugetlb").exists():
        # The hierarchy ends when it is unmounted without a dying cgroup.
        mounted = (
            f'mount -t cgroup -o hugetlb cgroup /mnt && {{ [ ! -e "$0" ] || {script}; }}'
            " && umount /mnt && sleep 0.1 && grep -q '^hugetlb[[:space:]]0' /proc/cgroups"
        )
        _retried("unshare", "--mount", "sh", "-c", mounted, f"/mnt/{name}")


def _retried(*command: str) -> None:
    """Run a command until it succeeds: cgroups are busy until killed processes are gone."""
    for _ in range(50):
        if subprocess.run(command, capture_output=True).returncode == 0:
            return
        time.sleep(0.1)
    raise TestbedError(f"cgroups are left behind: {' '.join(command)}")
