# SPDX-License-Identifier: Apache-2.0
"""Creations on a real engine with generated replies: what was recorded, and what really happened.

What happened is read from the API's answer, from ``docker inspect`` and from config.json, without
any code of nri-scope.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.plugin import Identity, serve, unix_socket

from .engine import ApiError, Engine
from .replies import APPLIED, DROPPED, INDICES, REFUSED, Reply, chain, single

CHAINS = 90
OF_THE_NODE = ("bind source path does not exist", "Duplicate mount point")
_SPEC: dict[str, Any] = {
    "Env": ["SPEC=of the client", "EMPTY="],
    "Labels": {"app": "demo"},
    "HostConfig": {"Annotations": {"note": "of the client"}},
}


@dataclass
class Creation:
    """One attempt to create a container."""

    name: str
    replies: Mapping[str, Reply]
    error: str = ""
    """The API's error; "" if it was created."""
    inspected: dict[str, object] = field(default_factory=dict)
    config: dict[str, object] = field(default_factory=dict)
    """config.json of the started container."""
    start_error: str = ""

    @property
    def error_of_the_node(self) -> bool:
        """Whether the error depends on the node or on the order of mounts: no reply shows it."""
        return any(words in self.error for words in OF_THE_NODE)


@dataclass
class Experiment:
    """All creations, and the recordings of them."""

    creations: dict[str, Creation]
    tapped: Path
    """A recording of all plugins by a tap."""
    probed: Path
    """A recording of passive connections around the plugins."""
    validated: Path
    """A recording of the requests to a validator before the plugins."""
    baseline: Creation
    """A container that no plugin adjusted."""


class Replying:
    """Plugin with a reply for each container."""

    def __init__(self, index: str, creations: Mapping[str, Creation]) -> None:
        self._index = index
        self._creations = creations

    def create_container(self, _: api.PodSandbox, container: api.Container) -> object:
        """Return this plugin's reply, or raise it."""
        creation = self._creations.get(container.name.removeprefix("/"))
        reply = creation.replies[self._index] if creation else None
        if isinstance(reply, Exception):
            raise reply
        return reply


@asynccontextmanager
async def command(*words: str, says: str) -> AsyncIterator[None]:
    """Run a command of nri-scope during a block, from the line that ``says`` that it is ready."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "nri_scope", *words),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    try:
        async with asyncio.timeout(30):
            while says.encode() not in (line := await process.stderr.readline()):
                assert line, f"{words[0]} ended"
        yield
    finally:
        if process.returncode is None:
            process.terminate()
        await process.communicate()


async def perform(engine: Engine, folder: Path, seed: int) -> Experiment:
    """Create containers with each kind of reply alone, and with chains of several."""
    rng, mounted = Random(seed), str(engine.folder)
    (engine.folder / "missing").unlink(missing_ok=True)
    other = await asyncio.to_thread(engine.create, f"other-{seed}")
    kinds = {**APPLIED, **REFUSED, **DROPPED}
    replies = [single(kind, rng, mounted) for kind in kinds.values()]
    replies += [single(REFUSED["odd mount"], rng, mounted) for _ in range(20)]
    harmless = {**APPLIED, **DROPPED}
    replies += [
        chain(rng, mounted, other, rng.choice((kinds, APPLIED, harmless, harmless)))
        for _ in range(CHAINS)
    ]
    creations = {f"app-{n}": Creation(f"app-{n}", reply) for n, reply in enumerate(replies)}
    baseline = Creation("baseline", dict.fromkeys(INDICES))
    tapped, probed = folder / "tap.nriscope.db", folder / "probes.nriscope.db"
    validated = folder / "validator.nriscope.db"
    tap, runtime = engine.folder / "tap.sock", str(engine.nri_socket)
    async with AsyncExitStack() as stack:
        options: tuple[str, ...] = ("--socket", runtime, "--listen", str(tap), "-o", str(tapped))
        await stack.enter_async_context(command("tap", *options, says="plugins can connect"))
        for index in INDICES:
            plugin = serve(
                Replying(index, creations), Identity(index, "replying"), unix_socket(tap)
            )
            task = asyncio.create_task(plugin)
            stack.callback(task.cancel)
        options = ("--live", "--probes", "00,99", "--socket", runtime, "-o", str(probed))
        await stack.enter_async_context(command("diff", *options, says="99-"))
        options = ("--validate", "--index", "05", "--socket", runtime, "-o", str(validated))
        await stack.enter_async_context(command("record", *options, says="recording"))
        await asyncio.sleep(2)
        for creation in (baseline, *creations.values()):
            await asyncio.to_thread(_create, engine, creation)
        await asyncio.sleep(1)
    return Experiment(creations, tapped, probed, validated, baseline)


def _create(engine: Engine, creation: Creation) -> None:
    try:
        container = engine.create(creation.name, **_SPEC)
    except ApiError as error:
        creation.error = str(error)
        return
    creation.inspected = engine.inspect(container)
    try:
        engine.start_container(container)
        creation.config = engine.config_json(container)
    except ApiError as error:
        creation.start_error = str(error)
    engine.remove(container)
