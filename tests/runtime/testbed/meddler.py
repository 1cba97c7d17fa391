# SPDX-License-Identifier: Apache-2.0
"""A Python plugin that changes every container differently, and logs its replies.

``$INDEX`` is its index. Most values contain the index and a unique number, which identify their
author. The log is the file ``$NOTES``, in JSON lines with messages in base64.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
from collections.abc import Sequence
from pathlib import Path

from google.protobuf.message import Message

from nri_scope._gen.nri.api_pb2 import (
    Container,
    ContainerAdjustment,
    ContainerUpdate,
    CreateContainerResponse,
    Hook,
    Hooks,
    LinuxDevice,
    LinuxResources,
    Mount,
    PodSandbox,
    POSIXRlimit,
)
from nri_scope.plugin import RuntimeHandle, run
from tests.plugin_builders import Settings, adjust, bind, update

OWN_LIMIT = {
    "20": "RLIMIT_LOCKS",
    "40": "RLIMIT_CORE",
    "50": "RLIMIT_MSGQUEUE",
    "60": "RLIMIT_FSIZE",
}
"""Limits by index: two plugins that set one limit are in conflict, as limits cannot be replaced.
The same applies to resources, see `_resources`.
"""


class Meddler:
    """Plugin that adjusts created containers, and updates updated and running ones."""

    def __init__(self, index: str, notes: Path) -> None:
        self._index = index
        self._notes = notes.open("a", encoding="utf-8")
        self._number = 0
        self._running: list[str] = []
        self._runtime: RuntimeHandle | None = None

    def configure(self, config: str, runtime: RuntimeHandle) -> None:
        self._runtime = runtime
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, self._update_out_of_turn)

    def synchronize(
        self, pods: Sequence[PodSandbox], containers: Sequence[Container]
    ) -> list[ContainerUpdate]:
        self._running = [container.id for container in containers]
        return self._noted("Synchronize", "", [self._update(one) for one in self._running])

    def create_container(self, pod: PodSandbox, container: Container) -> CreateContainerResponse:
        adjustment = self._adjustment(container.name)
        updates = [self._update(one) for one in self._running[:1]] if self._index == "60" else []
        self._noted("CreateContainer", container.id, updates, adjustment)
        return CreateContainerResponse(adjust=adjustment, update=updates)

    def post_start_container(self, pod: PodSandbox, container: Container) -> None:
        self._running.append(container.id)

    def update_container(
        self, pod: PodSandbox, container: Container, resources: LinuxResources
    ) -> list[ContainerUpdate]:
        return self._noted("UpdateContainer", container.id, [self._update(container.id)])

    def stop_container(self, pod: PodSandbox, container: Container) -> list[ContainerUpdate]:
        if container.id in self._running:
            self._running.remove(container.id)
        return self._noted(
            "StopContainer", container.id, [self._update(one) for one in self._running[:1]]
        )

    def _update_out_of_turn(self) -> None:
        """Send unsolicited updates; only safe while there are no events.

        containerd takes two locks, for events and unsolicited updates in opposite order: both at
        the same time can deadlock.
        """
        if self._runtime is not None:
            updates = [self._update(one) for one in self._running]
            self._runtime.update_containers(self._noted("UpdateContainers", "", updates))

    def _adjustment(self, name: str) -> ContainerAdjustment:
        index, number = self._index, self._next()
        mine = f"{index}-{name}-{number}"
        # Removals replace values of the pod or another plugin, if there are any.
        env = {f"PLUGIN_{index}": mine, "-SHARED": "", "SHARED": mine}
        annotations = {f"{index}.example.com/plugin": mine}
        mounts: list[Mount] = []
        hooks = Hooks()
        devices: list[LinuxDevice] = []
        if number % 2:
            mounts = [
                bind(f"/etc/plugin-{index}", "/etc/hostname", "ro"),
                Mount(destination="-/etc/shared"),
                bind("/etc/shared", f"/usr/{'lib' if index == '40' else 'bin'}"),
            ]
            hooks.create_runtime.append(Hook(path="/bin/true", args=["true", mine]))
        if number % 3 == 0:
            # Runtimes add and remove in the random order of Go's maps: the result may lack it.
            annotations |= {"-shared.example.com/by": "", "shared.example.com/by": mine}
            devices.append(LinuxDevice(path=f"/dev/plugin-{index}", type="c", major=1, minor=3))
        if number % 5 == 0:
            mounts.append(Mount(destination="-/dev/mqueue"))
            env["-POD_ONLY"] = ""
        adjustment = adjust(
            env=env,
            annotations=annotations,
            mounts=mounts,
            hooks=hooks if number % 2 else None,
            devices=devices,
            rlimits=[POSIXRlimit(type=OWN_LIMIT[index], soft=number, hard=number)],
            pids=number if index == "60" else None,
            **_resources(index, number),
        )
        if index == "40":
            adjustment.linux.oom_score_adj.value = 500 + number % 500
        return adjustment

    def _update(self, container: str) -> ContainerUpdate:
        # Without effect if the container was removed in the meantime.
        return update(container, ignore_failure=True, **_resources(self._index, self._next()))

    def _next(self) -> int:
        self._number += 1
        return int(self._index) * 1000 + self._number

    def _noted(
        self,
        event: str,
        container: str,
        updates: list[ContainerUpdate],
        adjustment: ContainerAdjustment | None = None,
    ) -> list[ContainerUpdate]:
        note = {
            "event": event,
            "container": container,
            "adjust": [] if adjustment is None else [_text(adjustment)],
            "updates": [_text(one) for one in updates],
        }
        # Flush: the plugin may be killed at any time.
        print(json.dumps(note), file=self._notes, flush=True)
        return updates


def _resources(index: str, number: int) -> dict[str, Settings]:
    match index:
        case "20":
            return {"cpu": {"cpus": "0"}}
        case "40":
            return {"cpu": {"quota": number, "period": 100_000}}
        case "50":
            return {"memory": {"limit": number << 12}}
        case _:
            return {"cpu": {"shares": number}}


def _text(message: Message) -> str:
    return base64.b64encode(message.SerializeToString(deterministic=True)).decode()


if __name__ == "__main__":
    run(Meddler(os.environ["INDEX"], Path(os.environ["NOTES"])), name="meddler")
