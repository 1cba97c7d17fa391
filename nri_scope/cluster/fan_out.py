# SPDX-License-Identifier: Apache-2.0
"""Ask many nodes, a few at a time."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import TypeVar

from .agent_client import AgentError
from .agent_pods import AgentPod

TOGETHER = min(32, 8 * (os.cpu_count() or 1))
"""Number of nodes that are asked at the same time.

Each needs a process of kubectl. That of Kubernetes 1.34 uses a processor for 0.1 s and 53 MiB to
forward a port: with more of them, some would exceed their timeout.
"""
TIMEOUT_S = 30.0
"""Default seconds for one node."""
_T = TypeVar("_T")


async def each_node(
    agents: Mapping[str, AgentPod],
    ask: Callable[[AgentPod], Awaitable[_T]],
    *,
    timeout: float | None = TIMEOUT_S,
    together: int = TOGETHER,
) -> AsyncIterator[tuple[str, _T | AgentError]]:
    """Yield the answer of each node, or why there is none, in the order in which they arrive.

    Another exception of ``ask`` ends the iteration.
    """
    slots = asyncio.Semaphore(together)

    async def asked(agent: AgentPod) -> tuple[str, _T | AgentError]:
        async with slots:
            try:
                async with asyncio.timeout(timeout):
                    return agent.node, await ask(agent)
            except AgentError as error:
                return agent.node, error
            except TimeoutError:
                return agent.node, AgentError(agent.node, f"no answer within {timeout:g} s")

    tasks = [asyncio.create_task(asked(agent)) for agent in agents.values()]
    try:
        for done in asyncio.as_completed(tasks):
            yield await done
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
