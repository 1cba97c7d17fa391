# SPDX-License-Identifier: Apache-2.0
"""Recordings in which something is wrong, made by real parts: plugins in a real replay.

What happens to a plugin's connection, which replies conflict, what is merged and what is dropped,
all that the emulated runtime does by itself, and the replay's own recorder writes it down.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.plugin import Adjustment, Container, PodSandbox
from nri_scope.replay.run import replay
from nri_scope.transport.loop import run
from tests.replay.plays import job_of, played, played_to_peers
from tests.replay.recordings import POD, RECORDING, container, life, recording, run_pod
from tests.runtime_role.small_plugin import SmallPlugin

TIMEOUT_MS = 500
FIRST, SECOND = container("first"), container("second")
_BOTH: list[tuple[str, Message]] = [run_pod(), *life(FIRST), *life(SECOND)]


class Setting:
    """Sets one variable."""

    def __init__(self, value: str) -> None:
        self.value = value

    def create_container(self, pod: PodSandbox, container: Container) -> Adjustment:
        return Adjustment().add_env("MODE", self.value)


class Everything:
    """Subscribes to a container's whole life."""

    def create_container(self, pod: PodSandbox, container: Container) -> Adjustment | None:
        return None

    def post_create_container(self, pod: PodSandbox, container: Container) -> None:
        return None

    def start_container(self, pod: PodSandbox, container: Container) -> None:
        return None

    def stop_container(self, pod: PodSandbox, container: Container) -> None:
        return None

    def remove_container(self, pod: PodSandbox, container: Container) -> None:
        return None

    def stop_pod_sandbox(self, pod: PodSandbox) -> None:
        return None


class Unifying(Everything):
    """Sets what only cgroup v2 has."""

    def create_container(self, pod: PodSandbox, container: Container) -> Adjustment:
        adjustment = Adjustment()
        adjustment.message.linux.resources.unified["memory.high"] = "1000000"
        return adjustment


class Reserving:
    """Asks for what no runtime takes notice of."""

    def create_container(self, pod: PodSandbox, container: Container) -> Adjustment:
        adjustment = Adjustment()
        adjustment.message.linux.resources.memory.reservation.value = 1 << 20
        return adjustment


class Failing:
    """Answers with an error."""

    def create_container(self, pod: PodSandbox, container: Container) -> None:
        raise RuntimeError("not today")


class Watching:
    """Listens."""

    def create_container(self, pod: PodSandbox, container: Container) -> None:
        return None


def healthy(folder: Path) -> Path:
    """Two plugins, in peace."""
    return _replayed(folder, {"10-setting": Setting("a"), "20-watching": Watching()})


def near(folder: Path) -> Path:
    """A plugin takes three quarters of its time."""
    return _replayed(
        folder, {"10-slow": Setting("a")}, faults=(f"slow:CreateContainer:{TIMEOUT_MS * 3 // 4}ms",)
    )


def late(folder: Path) -> Path:
    """A plugin is not done in time with the first container; another one is there."""
    source = _source(folder)
    output = folder / "late.nriscope.db"
    stuck, other = SmallPlugin("10-stuck"), SmallPlugin("20-other")
    stuck.on["CreateContainer"] = lambda _: None
    played_to_peers(job_of(source, {}, output=output), stuck, other)
    return output


def twins(folder: Path) -> Path:
    """Two plugins of one name."""
    output, socket = folder / "twins.nriscope.db", folder / "nri.sock"
    # A replay counts names: the last one to come is the second name, and both twins are there then.
    peers = [SmallPlugin(name) for name in ("10-twin", "10-twin", "90-last")]
    job = job_of(_source(folder), {}, output=output)
    job = replace(job, casting=replace(job.casting, listen=socket, expect=2))

    async def main() -> None:
        playing = asyncio.create_task(replay(job))
        while not socket.exists():
            await asyncio.sleep(0)
        for peer in peers:
            await peer.connect(socket)
            await peer.register()
        await playing

    run(main())
    return output


def conflict(folder: Path) -> Path:
    """Two plugins set one variable."""
    return _replayed(folder, {"10-one": Setting("a"), "20-two": Setting("b")})


def failed(folder: Path) -> Path:
    """A plugin answers with an error."""
    return _replayed(folder, {"10-failing": Failing(), "20-watching": Watching()})


def dropped(folder: Path) -> Path:
    """A plugin asks for what no runtime does."""
    return _replayed(folder, {"10-reserving": Reserving()})


def unified(folder: Path) -> Path:
    """Settings for cgroup v2, with a recording of a node that has v1; one container never ran."""
    output = folder / "unified.nriscope.db"
    played(RECORDING, {"10-unifying": Unifying()}, output=output)
    return output


def missed(folder: Path) -> Path:
    """A plugin hears of containers that it was never told of."""
    return _replayed(folder, {"10-watching": Everything()}, faults=("skip:CreateContainer",))


def pod_first(folder: Path) -> Path:
    """The pod stops before its containers."""
    events = [*_BOTH, ("StopPodSandbox", api.StopPodSandboxRequest(pod=POD))]
    return _replayed(folder, {"10-watching": Everything()}, events, faults=("reorder",))


def repeated(folder: Path) -> Path:
    """One event comes twice."""
    return _replayed(folder, {"10-watching": Everything()}, faults=("duplicate:StopContainer",))


def _source(folder: Path, events: list[tuple[str, Message]] | None = None) -> Path:
    return recording(folder / "source.nriscope.db", events or _BOTH, timeout_ms=TIMEOUT_MS)


def _replayed(
    folder: Path,
    plugins: dict[str, object],
    events: list[tuple[str, Message]] | None = None,
    *,
    faults: tuple[str, ...] = (),
) -> Path:
    output = folder / "replayed.nriscope.db"
    played(_source(folder, events), plugins, output=output, faults=faults)
    return output
