# SPDX-License-Identifier: Apache-2.0
"""A Python plugin with many adjustments and updates, which logs its requests and replies.

The log is the file ``$NOTES``, in JSON lines.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from google.protobuf.message import Message

from nri_scope._gen.nri.api_pb2 import (
    Container,
    ContainerUpdate,
    CreateContainerResponse,
    LinuxDevice,
    LinuxResources,
    Mount,
    OptionalFileMode,
    PodSandbox,
    POSIXRlimit,
)
from nri_scope.plugin import run
from tests.plugin_builders import adjust, bind, update


class Adjuster:
    """Plugin that handles all events up to NRI 0.9."""

    def __init__(self, notes: Path) -> None:
        self._notes = notes.open("a", encoding="utf-8")
        self._running: dict[str, str] = {}

    def synchronize(
        self, pods: Sequence[PodSandbox], containers: Sequence[Container]
    ) -> list[ContainerUpdate]:
        """Update the CPU shares of all existing containers."""
        self._running = {container.name: container.id for container in containers}
        updates = [update(container.id, cpu={"shares": 300}) for container in containers]
        return self._note("Synchronize", [*pods, *containers], updates)

    def run_pod_sandbox(self, pod: PodSandbox) -> None:
        """Log the event."""
        self._note("RunPodSandbox", [pod], [])

    def create_container(self, pod: PodSandbox, container: Container) -> CreateContainerResponse:
        """Make most kinds of adjustments, and update the container named main."""
        mode = OptionalFileMode(value=0o666)
        adjustment = adjust(
            env={"PYTHON": container.name, "-FOO": "", "SHARED": "of-python"},
            annotations={"python.example.com/was": "here"},
            mounts=[bind("/etc/python", "/etc/hostname", "ro"), Mount(destination="-/dev/mqueue")],
            rlimits=[POSIXRlimit(type="RLIMIT_NOFILE", soft=100, hard=200)],
            devices=[LinuxDevice(path="/dev/null2", type="c", major=1, minor=3, file_mode=mode)],
            cpu={"shares": 700},
        )
        cpu = {"quota": 50_000, "period": 100_000}
        updates = [update(self._running["main"], cpu=cpu)] if "main" in self._running else []
        self._note("CreateContainer", [pod, container], [adjustment, *updates])
        return CreateContainerResponse(adjust=adjustment, update=updates)

    def post_create_container(self, pod: PodSandbox, container: Container) -> None:
        """Log the event."""
        self._note("PostCreateContainer", [pod, container], [])

    def start_container(self, pod: PodSandbox, container: Container) -> None:
        """Log the event."""
        self._note("StartContainer", [pod, container], [])

    def post_start_container(self, pod: PodSandbox, container: Container) -> None:
        """Log the event, and add the container to the updatable ones."""
        self._running[container.name] = container.id
        self._note("PostStartContainer", [pod, container], [])

    def update_container(
        self, pod: PodSandbox, container: Container, resources: LinuxResources
    ) -> list[ContainerUpdate]:
        """Set other CPU shares than requested."""
        updates = [update(container.id, cpu={"shares": resources.cpu.shares.value + 100})]
        return self._note("UpdateContainer", [pod, container, resources], updates)

    def post_update_container(self, pod: PodSandbox, container: Container) -> None:
        """Log the event."""
        self._note("PostUpdateContainer", [pod, container], [])

    def stop_container(self, pod: PodSandbox, container: Container) -> list[ContainerUpdate]:
        """Update the CPU shares of the remaining containers."""
        self._running.pop(container.name, None)
        updates = [update(one, cpu={"shares": 900}) for one in self._running.values()]
        return self._note("StopContainer", [pod, container], updates)

    def remove_container(self, pod: PodSandbox, container: Container) -> None:
        """Log the event."""
        self._note("RemoveContainer", [pod, container], [])

    def stop_pod_sandbox(self, pod: PodSandbox) -> None:
        """Log the event."""
        self._note("StopPodSandbox", [pod], [])

    def remove_pod_sandbox(self, pod: PodSandbox) -> None:
        """Log the event."""
        self._note("RemovePodSandbox", [pod], [])

    def _note(
        self, event: str, request: Sequence[Message], reply: Sequence[Message]
    ) -> list[ContainerUpdate]:
        note = {
            "event": event,
            # protobuf's text format sorts maps.
            "request": [str(one) for one in request],
            "reply": [str(one) for one in reply],
        }
        # Flush: the launching runtime ends the plugin with SIGKILL.
        print(json.dumps(note), file=self._notes, flush=True)
        return [one for one in reply if isinstance(one, ContainerUpdate)]


if __name__ == "__main__":
    run(Adjuster(Path(os.environ["NOTES"])), name="adjuster", index="10")
