# SPDX-License-Identifier: Apache-2.0
"""Plugins in this process and recordings for the debugger."""

from __future__ import annotations

from pathlib import Path

from nri_scope._gen.nri.api_pb2 import Container, ContainerAdjustment, PodSandbox
from nri_scope.replay.run import Job
from tests.plugin_builders import adjust
from tests.replay.plays import job_of
from tests.replay.recordings import container, life, recording, run_pod

NAME = "10-plugin"


class Adjuster:
    """Plugin that sets an environment variable, by default to the number of its calls."""

    def __init__(self, value: str = "") -> None:
        self.value = value
        self.created: list[Container] = []
        self.stopped = 0

    async def create_container(self, pod: PodSandbox, container: Container) -> ContainerAdjustment:
        self.created.append(container)
        return adjust(env={"CALL": self.value or str(len(self.created))})

    async def stop_container(self, pod: PodSandbox, container: Container) -> None:
        self.stopped += 1


def two_lives(folder: Path) -> Path:
    """A recording of a pod with two containers: events 3 to 15."""
    events = [run_pod(), *life(container()), *life(container("sidecar"))]
    return recording(folder / "lives.nriscope.db", events)


def job(folder: Path, plugin: object, **options: object) -> Job:
    """The job that replays it to a plugin in this process."""
    return job_of(two_lives(folder), {NAME: plugin}, **options)  # type: ignore[arg-type]
