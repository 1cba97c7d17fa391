# SPDX-License-Identifier: Apache-2.0
"""A CRI runtime in a process of its own, which knows every container: ``cri_server SOCKET``."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from nri_scope._gen.cri.runtime import v1
from tests.cri.fake_runtime import FakeRuntime, listening

_VARIABLES = 300
"""The answer then has about the size of one about a container in Kubernetes, 20 kB."""


@asynccontextmanager
async def serving(socket: Path) -> AsyncIterator[None]:
    """Run the server for the duration of a block."""
    process: Process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.cri_server", str(socket)), stdout=DEVNULL
    )
    try:
        while not os.path.exists(socket):  # noqa: PTH110, ASYNC240
            await asyncio.sleep(0.02)
        yield
    finally:
        process.kill()
        await process.wait()


async def _serve(socket: Path) -> None:
    runtime = FakeRuntime()
    env = [f"VARIABLE_{number}={'x' * 50}" for number in range(_VARIABLES)]
    info = json.dumps({"pid": 0, "runtimeSpec": {"process": {"env": env}}})
    runtime.status_answer = v1.ContainerStatusResponse(
        status=v1.ContainerStatus(id="x"), info={"info": info}
    )
    async with listening(runtime, socket):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1])))
