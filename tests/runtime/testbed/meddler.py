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
from typing import TypeVar

from nri_scope.plugin import (
    Adjustment,
    Container,
    LinuxResources,
    PodSandbox,
    RuntimeHandle,
    Update,
    run,
)

OWN_LIMIT = {
    "20": "RLIMIT_LOCKS",
    "40": "RLIMIT_CORE",
    "50": "RLIMIT_MSGQUEUE",
    "60": "RLIMIT_FSIZE",
}
"""Limits by index: two plugins that set one limit are in conflict, as limits cannot be replaced.
The same applies to resources, see `_resources`.
"""

Asked = TypeVar("Asked", Adjustment, Update)


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
    ) -> list[Update]:
        self._running = [one.id for one in containers]
        return self._noted("Synchronize", "", [self._update(one) for one in self._running])

    def create_container(self, pod: PodSandbox, container: Container) -> list[Adjustment | Update]:
        asked: list[Adjustment | Update] = [self._adjustment(container.name)]
        if self._index == "60":
            asked += [self._update(one) for one in self._running[:1]]
        self._noted("CreateContainer", container.id, asked)
        return asked

    def post_start_container(self, pod: PodSandbox, container: Container) -> None:
        self._running.append(container.id)

    def update_container(
        self, pod: PodSandbox, container: Container, resources: LinuxResources
    ) -> list[Update]:
        return self._noted("UpdateContainer", container.id, [self._update(container.id)])

    def stop_container(self, pod: PodSandbox, container: Container) -> list[Update]:
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
            self._runtime.update_soon(self._noted("UpdateContainers", "", updates))

    def _adjustment(self, name: str) -> Adjustment:
        index, number = self._index, self._next()
        mine = f"{index}-{name}-{number}"
        adjustment = (
            Adjustment()
            .add_env(f"PLUGIN_{index}", mine)
            .add_annotation(f"{index}.example.com/plugin", mine)
            # Replaces a value of the pod or another plugin, if there is one.
            .remove_env("SHARED")
            .add_env("SHARED", mine)
            .add_rlimit(OWN_LIMIT[index], soft=number, hard=number)
        )
        if number % 2:
            adjustment.add_mount(f"/etc/plugin-{index}", "/etc/hostname", options=["ro"])
            adjustment.remove_mount("/etc/shared")
            adjustment.add_mount("/etc/shared", f"/usr/{'lib' if index == '40' else 'bin'}")
            adjustment.add_hook("create_runtime", "/bin/true", args=["true", mine])
        if number % 3 == 0:
            # Runtimes add and remove in the random order of Go's maps: the result may lack it.
            adjustment.remove_annotation("shared.example.com/by")
            adjustment.add_annotation("shared.example.com/by", mine)
            adjustment.add_device(f"/dev/plugin-{index}", type="c", major=1, minor=3)
        if number % 5 == 0:
            adjustment.remove_mount("/dev/mqueue").remove_env("POD_ONLY")
        if index == "60":
            adjustment.set_pids_limit(number)
        elif index == "40":
            adjustment.set_oom_score_adj(500 + number % 500)
        return _resources(index, adjustment, number)

    def _update(self, container: str) -> Update:
        # Without effect if the container was removed in the meantime.
        return _resources(self._index, Update(container, ignore_failure=True), self._next())

    def _next(self) -> int:
        self._number += 1
        return int(self._index) * 1000 + self._number

    def _noted(
        self, event: str, container: str, asked: Sequence[Adjustment | Update]
    ) -> list[Update]:
        updates = [one for one in asked if isinstance(one, Update)]
        note = {
            "event": event,
            "container": container,
            "adjust": [_text(one) for one in asked if isinstance(one, Adjustment)],
            "updates": [_text(one) for one in updates],
        }
        # Flush: the plugin may be killed at any time.
        print(json.dumps(note), file=self._notes, flush=True)
        return updates


def _resources(index: str, asked: Asked, number: int) -> Asked:
    match index:
        case "20":
            return asked.set_cpu(cpus="0")
        case "40":
            return asked.set_cpu(quota=number, period=100_000)
        case "50":
            return asked.set_memory(limit=number << 12)
        case _:
            return asked.set_cpu(shares=number)


def _text(one: Adjustment | Update) -> str:
    return base64.b64encode(one.message.SerializeToString(deterministic=True)).decode()


if __name__ == "__main__":
    run(Meddler(os.environ["INDEX"], Path(os.environ["NOTES"])), name="meddler")
