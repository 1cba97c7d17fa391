# SPDX-License-Identifier: Apache-2.0
"""Recreate ``annotated.nriscope.db``: pods with the examples' annotations on a real containerd.

As root on Debian, with ``runc`` and ``busybox-static`` installed, in the project's folder::

    .venv/bin/python -m examples.make_recording

The example plugins do not run: the recording contains the events that they would receive.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from scripts.make_recordings import set_host_name
from tests.runtime.testbed.containerd import running
from tests.runtime.testbed.driver import Driver
from tests.runtime.testbed.packages import check_machine, containerd_binaries
from tests.runtime.testbed.record import recording

FILE = Path(__file__).parent / "recordings" / "annotated.nriscope.db"

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


async def main() -> None:
    """Record the life of all pods."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / FILE.name
        async with running(containerd_binaries("1.7")) as containerd:
            driver = Driver(containerd)
            async with recording(file, containerd) as record:
                for (namespace, name), annotations in PODS.items():
                    pod = await driver.run_pod(namespace, name, annotations)
                    annotated = next((key.partition("/")[2] for key in annotations), "app")
                    containers = [await driver.run(pod, one) for one in (annotated, "sidecar")]
                    for container in containers:
                        await driver.stop(container)
                        await driver.remove(container)
                    await driver.stop_pod(pod)
                    await driver.remove_pod(pod)
                await record.end()
        FILE.parent.mkdir(exist_ok=True)
        FILE.write_bytes(file.read_bytes())


if __name__ == "__main__":
    check_machine()
    set_host_name()
    asyncio.run(main())
