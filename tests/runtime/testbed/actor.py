# SPDX-License-Identifier: Apache-2.0
"""A Python plugin with several behaviours, selected by ``$PART``.

It adjusts only containers named ``app``.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable

from nri_scope._gen.nri.api_pb2 import Container, ContainerAdjustment, PodSandbox, POSIXRlimit
from nri_scope.plugin import run
from tests.plugin_builders import adjust, bind

SLOW_REPLY_S = 3.0
"""Longer than the runtimes' deadline of two seconds."""


class Actor:
    """Plugin that handles the creation of ``app``."""

    def __init__(self, part: str) -> None:
        self._part = PARTS[part]

    async def create_container(
        self, pod: PodSandbox, container: Container
    ) -> ContainerAdjustment | None:
        """Reply with the selected behaviour."""
        return await self._part(container) if container.name == "app" else None


async def _labels(container: Container) -> ContainerAdjustment:
    """Set the owner as variable and annotation."""
    return adjust(
        env={"OWNER": "shop", "-FOO": "", "FOO": "from-labels"},
        annotations={"labels.example.com/owner": "shop"},
    )


async def _limits(container: Container) -> ContainerAdjustment:
    """Set limits and add a mount."""
    return adjust(
        cpu={"shares": 700},
        pids=100,
        rlimits=[POSIXRlimit(type="RLIMIT_NOFILE", soft=100, hard=200)],
        mounts=[bind("/etc/limits", "/etc/hostname", "ro")],
    )


async def _also_labels(container: Container) -> ContainerAdjustment:
    """Set the same variable as `_labels`, which is a conflict."""
    return adjust(env={"OWNER": "another-plugin"})


async def _slow(container: Container) -> ContainerAdjustment:
    """Reply after every runtime's deadline."""
    await asyncio.sleep(SLOW_REPLY_S)
    return adjust(env={"LATE": "too-late"})


PARTS: dict[str, Callable[[Container], Awaitable[ContainerAdjustment]]] = {
    "labels": _labels,
    "limits": _limits,
    "also-labels": _also_labels,
    "slow": _slow,
}


if __name__ == "__main__":
    run(Actor(os.environ["PART"]), name="actor")
