# SPDX-License-Identifier: Apache-2.0
"""The plugins of the recording that `nri-scope demo` plays, selected by ``$PART``.

They leave containers alone that exist already when they connect.
"""

from __future__ import annotations

import asyncio
import os

from nri_scope._gen.nri.api_pb2 import (
    Container,
    ContainerAdjustment,
    CreateContainerResponse,
    LinuxDevice,
    Mount,
    PodSandbox,
)
from nri_scope.plugin import run
from tests.plugin_builders import adjust, update
from tests.sample_names import API, REPLICA_POD, REPORT_NAMESPACE

HALF_A_DEADLINE_S, MORE_THAN_A_DEADLINE_S = 1.2, 3.0
"""The runtimes' deadline is two seconds."""


class AuditLog:
    """Subscribe to all events, and change nothing."""

    def run_pod_sandbox(self, pod: PodSandbox) -> None:
        pass

    def stop_pod_sandbox(self, pod: PodSandbox) -> None:
        pass

    def remove_pod_sandbox(self, pod: PodSandbox) -> None:
        pass

    def create_container(self, pod: PodSandbox, container: Container) -> None:
        pass

    post_create_container = start_container = post_start_container = create_container
    post_update_container = stop_container = remove_container = create_container

    def update_container(self, pod: PodSandbox, container: Container, resources: object) -> None:
        pass


class DeviceInjector:
    """Add a device to each container named ``checkout-api``."""

    def create_container(self, pod: PodSandbox, container: Container) -> ContainerAdjustment | None:
        if container.name != API:
            return None
        return adjust(devices=[LinuxDevice(path="/dev/nri-null", type="c", major=1, minor=3)])


class EnvInjector:
    """Replace the variable FOO, and add a variable, a mount and an annotation."""

    def create_container(self, pod: PodSandbox, container: Container) -> ContainerAdjustment:
        env = {"INJECTED": "yes"}
        if any(one.startswith("FOO=") for one in container.env):
            env |= {"-FOO": "", "FOO": "overridden"}
        options = ["size=1m", "nosuid"]
        mount = Mount(destination="/mnt/tmp", source="tmpfs", type="tmpfs", options=options)
        annotations = {"example.com/injected-by": "env-injector"}
        return adjust(env=env, mounts=[mount], annotations=annotations)


class ImageCheck:
    """Reply slowly to ``checkout-api``, for the second replica after the deadline."""

    async def create_container(self, pod: PodSandbox, container: Container) -> ContainerAdjustment:
        if container.name == API:
            late = pod.name == REPLICA_POD
            await asyncio.sleep(MORE_THAN_A_DEADLINE_S if late else HALF_A_DEADLINE_S)
        return adjust(annotations={"example.com/image": "checked"})


class BatchEnv:
    """Set FOO in the namespace ``reporting``: a conflict with `EnvInjector`."""

    def create_container(self, pod: PodSandbox, container: Container) -> ContainerAdjustment | None:
        return adjust(env={"FOO": "batch"}) if pod.namespace == REPORT_NAMESPACE else None


class CpuPolicy:
    """Give each new container the first processor, and move the running ones to the second."""

    def __init__(self) -> None:
        self._running: list[str] = []

    def create_container(self, pod: PodSandbox, container: Container) -> CreateContainerResponse:
        return CreateContainerResponse(
            adjust=adjust(cpu={"shares": 2048, "cpus": "0"}, pids=64),
            update=[update(one, cpu={"cpus": "1"}) for one in self._running],
        )

    def post_start_container(self, pod: PodSandbox, container: Container) -> None:
        self._running.append(container.id)

    def stop_container(self, pod: PodSandbox, container: Container) -> None:
        if container.id in self._running:
            self._running.remove(container.id)


PLUGINS = {
    "00-audit-log": AuditLog,
    "20-device-injector": DeviceInjector,
    "30-env-injector": EnvInjector,
    "40-image-check": ImageCheck,
    "50-batch-env": BatchEnv,
    "60-cpu-policy": CpuPolicy,
}


if __name__ == "__main__":
    run(PLUGINS[os.environ["PART"]](), name="demo")
