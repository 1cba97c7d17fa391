# SPDX-License-Identifier: Apache-2.0
"""A Python plugin with several behaviours, selected by ``$PART``.

It adjusts only containers named ``app``.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable

from nri_scope.plugin import Adjustment, Container, PodSandbox, run

SLOW_REPLY_S = 3.0
"""Longer than the runtimes' deadline of two seconds."""


class Actor:
    """Plugin that handles the creation of ``app``."""

    def __init__(self, part: str) -> None:
        self._part = PARTS[part]

    async def create_container(self, pod: PodSandbox, container: Container) -> Adjustment | None:
        """Reply with the selected behaviour."""
        return await self._part(container) if container.name == "app" else None


async def _labels(container: Container) -> Adjustment:
    """Set the owner as variable and annotation."""
    return (
        Adjustment()
        .add_env("OWNER", "shop")
        .add_annotation("labels.example.com/owner", "shop")
        .remove_env("FOO")
        .add_env("FOO", "from-labels")
    )


async def _limits(container: Container) -> Adjustment:
    """Set limits and add a mount."""
    return (
        Adjustment()
        .set_cpu(shares=700)
        .set_pids_limit(100)
        .add_rlimit("RLIMIT_NOFILE", soft=100, hard=200)
        .add_mount("/etc/limits", "/etc/hostname", options=["ro"])
    )


async def _also_labels(container: Container) -> Adjustment:
    """Set the same variable as `_labels`, which is a conflict."""
    return Adjustment().add_env("OWNER", "another-plugin")


async def _slow(container: Container) -> Adjustment:
    """Reply after every runtime's deadline."""
    await asyncio.sleep(SLOW_REPLY_S)
    return Adjustment().add_env("LATE", "too-late")


PARTS: dict[str, Callable[[Container], Awaitable[Adjustment]]] = {
    "labels": _labels,
    "limits": _limits,
    "also-labels": _also_labels,
    "slow": _slow,
}


if __name__ == "__main__":
    run(Actor(os.environ["PART"]), name="actor")
