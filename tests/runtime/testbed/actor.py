# SPDX-License-Identifier: Apache-2.0
"""A Python plugin with several behaviours, selected by ``$PART``.

It adjusts only containers named ``app`` or ``checkout-api``.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable

from nri_scope._gen.nri.api_pb2 import Container, ContainerAdjustment, PodSandbox, POSIXRlimit
from nri_scope.plugin import run
from tests.plugin_builders import adjust, bind
from tests.sample_names import API

SLOW_REPLY_S = 3.0
"""Longer than the runtimes' deadline of two seconds."""


class Actor:
    """Plugin that handles the creation of these containers."""

    def __init__(self, part: str) -> None:
        self._part = PARTS[part]

    async def create_container(
        self, pod: PodSandbox, container: Container
    ) -> ContainerAdjustment | None:
        """Reply with the selected behaviour."""
        return await self._part(container) if container.name in ("app", API) else None


async def _labels(container: Container) -> ContainerAdjustment:
    """Set the owner as variable and annotation."""
    return adjust(
        env={"OWNER": "payments", "-FOO": "", "FOO": "from-labels"},
        annotations={"labels.example.com/owner": "payments"},
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
