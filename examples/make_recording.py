# SPDX-License-Identifier: Apache-2.0
"""Recreate the recordings of the examples: pods with their annotations on a real containerd.

As root on Debian, with ``runc`` and ``busybox-static`` installed, in the project's folder::

    .venv/bin/python -m examples.make_recording annotated workloads

The example plugins do not run: the recordings contain the events that they would receive.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from scripts.make_recordings import set_host_name
from tests.cri.driver import Resources
from tests.runtime.testbed.containerd import Containerd, running
from tests.runtime.testbed.driver import Driver
from tests.runtime.testbed.packages import check_machine, containerd_binaries
from tests.runtime.testbed.record import recording

FOLDER = Path(__file__).parent / "recordings"

PODS = {
    ("media", "encoder"): {
        "devices.example.com/ffmpeg": "fuse, tun",
    },
    ("data", "cache"): {
        "ulimits.example.com/cache": "nofile=65536, memlock=67108864:134217728",
    },
    ("data", "greedy"): {
        "devices.example.com/app": "nuke",
        "ulimits.example.com/app": "nofile=lots",
    },
    ("shop", "web"): {},
}
"""Annotations by pod. Each pod has the annotated container, or ``app``, and a ``sidecar``."""


async def annotated(containerd: Containerd, file: Path) -> None:
    """Record the life of all pods of `PODS`, one after the other."""
    driver = Driver(containerd)
    async with recording(file, containerd) as record:
        for (namespace, name), annotations in PODS.items():
            pod = await driver.run_pod(namespace, name, annotations)
            container_name = next((key.partition("/")[2] for key in annotations), "app")
            containers = [await driver.run(pod, one) for one in (container_name, "sidecar")]
            for container in containers:
                await driver.stop(container)
                await driver.remove(container)
            await driver.stop_pod(pod)
            await driver.remove_pod(pod)
        await record.end()


def whole_cpus(count: int) -> Resources:
    """Return the resources of a container whose request and limit are ``count`` CPUs."""
    return Resources(cpu_shares=1024 * count, cpu_quota=100_000 * count, cpu_period=100_000)


async def workloads(containerd: Containerd, file: Path) -> None:
    """Record pods that start and end beside shop/web, which runs before the recording begins."""
    driver = Driver(containerd)
    web = await driver.run_pod("shop", "web")
    await driver.run(web, "app", resources=Resources(cpu_shares=512))
    await driver.run(web, "sidecar", resources=Resources(cpu_shares=2))
    async with recording(file, containerd) as record:
        solver_pod = await driver.run_pod("hpc", "solver", {
            "cdi-devices.noderesource.dev/container.solver":
                "- example.com/gpu=0\n- example.com/gpu=1\n",
            "hooks.example.com/profile": "on",
        })  # fmt: skip
        solver = await driver.run(solver_pod, "solver", resources=whole_cpus(2))
        await driver.run(solver_pod, "sidecar", resources=Resources(cpu_shares=2))
        tuner_pod = await driver.run_pod("hpc", "tuner", {
            "cdi-devices.noderesource.dev/pod": "- example.com/fpga=all\n",
            "hooks.example.com/profile": "off",
        })  # fmt: skip
        script = ("sh", "-c", "sleep 1000000")
        tuner = await driver.run(tuner_pod, "tuner", script, resources=whole_cpus(1))
        greedy_pod = await driver.run_pod("data", "greedy", {
            "cdi-devices.noderesource.dev": "gpu=0",
        })  # fmt: skip
        await driver.run(greedy_pod, "app", resources=whole_cpus(8))
        for container in (solver, tuner):
            await driver.stop(container)
            await driver.remove(container)
        late_pod = await driver.run_pod("hpc", "late")
        await driver.run(late_pod, "late", resources=whole_cpus(3))
        for pod in (solver_pod, tuner_pod, greedy_pod, late_pod):
            await driver.stop_pod(pod)
            await driver.remove_pod(pod)
        await record.end()
    await driver.stop_pod(web)
    await driver.remove_pod(web)


RECORDINGS: dict[str, Callable[[Containerd, Path], Awaitable[None]]] = {
    "annotated": annotated,
    "workloads": workloads,
}


async def main(names: list[str]) -> None:
    """Make the named recordings."""
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            file = Path(folder) / f"{name}.nriscope.db"
            async with running(containerd_binaries("1.7")) as containerd:
                await RECORDINGS[name](containerd, file)
            (FOLDER / file.name).write_bytes(file.read_bytes())


if __name__ == "__main__":
    check_machine()
    set_host_name()
    asyncio.run(main(sys.argv[1:] or list(RECORDINGS)))
