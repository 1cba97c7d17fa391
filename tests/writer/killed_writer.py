# SPDX-License-Identifier: Apache-2.0
"""The end of a writer process by SIGKILL."""

from __future__ import annotations

import asyncio
import os
import signal

from nri_scope.writer.supervisor import WriterProcess

PATIENCE = 60.0


def pid_of(process: WriterProcess) -> int:
    assert process._running is not None
    pid: int = process._running.process.pid
    return pid


async def kill(process: WriterProcess) -> None:
    """Kill the process, and wait until ``process`` has noticed."""
    os.kill(pid_of(process), signal.SIGKILL)
    async with asyncio.timeout(PATIENCE):
        while process._running is not None:
            await asyncio.sleep(0)
