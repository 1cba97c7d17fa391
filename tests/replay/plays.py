# SPDX-License-Identifier: Apache-2.0
"""Replays to plugins in this process: objects with handlers, and peers that store every byte."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api
from nri_scope._gen.nri.api_pb2 import Container, ContainerAdjustment, PodSandbox
from nri_scope.nri.events import METHODS
from nri_scope.replay.faults import parse_faults
from nri_scope.replay.playback import PlaybackOptions
from nri_scope.replay.plugins import InProcess, PluginSet
from nri_scope.replay.report import junit
from nri_scope.replay.result import Replayed
from nri_scope.replay.run import Job, replay
from nri_scope.replay.script import ReplaySelection
from nri_scope.runtime.lifecycle import own_request
from nri_scope.transport.loop import run
from nri_scope.wire import RequestReceived
from tests.plugin_builders import adjust
from tests.runtime_emulation.small_plugin import SmallPlugin


def job_of(
    recording: Path,
    plugins: Mapping[str, object],
    *,
    selection: ReplaySelection | None = None,
    profile: str = "recorded",
    effects: bool = True,
    faults: Sequence[str] = (),
    output: Path | None = None,
) -> Job:
    """``plugins`` are objects with handlers by their ``NN-name``."""
    plugin_set = PluginSet(
        tuple(InProcess(name[:2], name[3:], one) for name, one in plugins.items())
    )
    playback = PlaybackOptions(faults=parse_faults(faults), effects=effects)
    return Job(recording, plugin_set, selection or ReplaySelection(), playback, profile, output)


def played(recording: Path, plugins: Mapping[str, object], **options: object) -> Replayed:
    """Replay to objects with handlers."""
    return run(replay(job_of(recording, plugins, **options)))  # type: ignore[arg-type]


def played_to_peers(job: Job, *peers: SmallPlugin) -> Replayed:
    """Replay to peers that connect to a socket."""

    async def main() -> Replayed:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "nri.sock"
            plugin_set = replace(job.plugin_set, listen=path, expect=len(peers))
            playing = asyncio.create_task(replay(replace(job, plugin_set=plugin_set)))
            joining = asyncio.create_task(_join(path, peers))
            await asyncio.wait({playing, joining}, return_when=asyncio.FIRST_COMPLETED)
            if joining.done():
                await joining
            return await playing

    return run(main())


async def _join(path: Path, peers: Sequence[SmallPlugin]) -> None:
    while not path.exists():
        await asyncio.sleep(0)
    for peer in peers:
        await peer.connect(path)
        await peer.register()


def decode_events(requests: Sequence[RequestReceived]) -> list[tuple[str, Message]]:
    """Return the name and request message of each event, also of those in a StateChange."""
    return [decode_event(request.method, request.payload) for request in requests]


def decode_event(method: str, payload: bytes) -> tuple[str, Message]:
    """Return the name and request message of one event, also of one in a StateChange."""
    if method != "StateChange":
        return method, METHODS[method].request.FromString(payload)
    change = api.StateChangeEvent.FromString(payload)
    name = next(
        one.event.name for one in METHODS.values() if one.event and one.event.value == change.event
    )
    return name, own_request(METHODS[name].request, change)


def junit_failures(replayed: Replayed) -> list[str]:
    """Return the messages of the failures in the result as JUnit XML."""
    found = ElementTree.fromstring(junit(replayed, {})).findall(".//failure")
    return [one.get("message", "") for one in found]


class CallCounter:
    """Plugin that adds the number of its calls to containers."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.created: list[Container] = []

    async def create_container(self, pod: PodSandbox, container: Container) -> ContainerAdjustment:
        self.calls.append("CreateContainer")
        self.created.append(container)
        return adjust(env={"CALL": str(len(self.calls))})

    async def stop_container(self, pod: PodSandbox, container: Container) -> None:
        self.calls.append("StopContainer")
