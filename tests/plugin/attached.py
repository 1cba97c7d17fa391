# SPDX-License-Identifier: Apache-2.0
"""A plugin with handlers, connected to an emulated runtime within this process."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from nri_scope.nri.identity import plugin_id
from nri_scope.plugin import Identity, SessionEnd, inherited, serve
from nri_scope.runtime import EmulatedRuntime, Plugin
from tests.runtime_emulation.profiles import NEW, OLD, SPLITTING

__all__ = ["NEW", "OLD", "SPLITTING", "attached"]


@asynccontextmanager
async def attached(
    runtime: EmulatedRuntime, plugin: object, index: str = "10", name: str = "written"
) -> AsyncIterator[tuple[Plugin, asyncio.Task[SessionEnd]]]:
    """Serve ``plugin`` during the block; yield the runtime's object for it and the session task."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    serving = asyncio.create_task(serve(plugin, Identity(index, name), inherited(ours.detach())))
    taken = await runtime.adopt(theirs)
    assert taken.id == plugin_id(index, name)
    try:
        yield taken, serving
    finally:
        taken.drop("the test is over")
        await asyncio.wait({serving})
