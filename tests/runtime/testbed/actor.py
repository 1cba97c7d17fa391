# SPDX-License-Identifier: Apache-2.0
"""A plugin in Python that plays one of several parts; ``$PART`` says which.

It acts upon containers called ``app`` only: all others are left alone.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable

from nri_scope.plugin import Adjustment, Container, PodSandbox, run

TOO_LONG = 3.0
"""Seconds. Runtimes wait for two."""


class Actor:
    """Plays its part when ``app`` is created."""

    def __init__(self, part: str) -> None:
        self._part = PARTS[part]

    async def create_container(self, pod: PodSandbox, container: Container) -> Adjustment | None:
        """Answer as the part says."""
        return await self._part(container) if container.name == "app" else None


async def _labels(container: Container) -> Adjustment:
    """Tells a container whose it is."""
    return (
        Adjustment()
        .add_env("OWNER", "shop")
        .add_annotation("labels.example.com/owner", "shop")
        .remove_env("FOO")
        .add_env("FOO", "from-labels")
    )


async def _limits(container: Container) -> Adjustment:
    """Limits what it may use."""
    return (
        Adjustment()
        .set_cpu(shares=700)
        .set_pids_limit(100)
        .add_rlimit("RLIMIT_NOFILE", soft=100, hard=200)
        .add_mount("/etc/limits", "/etc/hostname", options=["ro"])
    )


async def _also_labels(container: Container) -> Adjustment:
    """Wants the same variable for itself."""
    return Adjustment().add_env("OWNER", "somebody-else")


async def _slow(container: Container) -> Adjustment:
    """Thinks for longer than any runtime waits."""
    await asyncio.sleep(TOO_LONG)
    return Adjustment().add_env("LATE", "too-late")


PARTS: dict[str, Callable[[Container], Awaitable[Adjustment]]] = {
    "labels": _labels,
    "limits": _limits,
    "also-labels": _also_labels,
    "slow": _slow,
}


if __name__ == "__main__":
    run(Actor(os.environ["PART"]), name="actor")
