# SPDX-License-Identifier: Apache-2.0
"""Follow the events of labelled pods on all nodes, each in a local recording."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from nri_scope._gen.agent.nri_scope.agent import v1
from nri_scope.errors import NriScopeError

from .agent_client import AgentClient
from .agent_pods import AgentPod, agent_pods, labelled_pods
from .gather import TOGETHER, by_node, pods_filter
from .kubectl import Kubectl
from .pull import pull

LIST_S = 5.0
"""Seconds between two lists of the pods that match."""


class Copy(NamedTuple):
    """A growing local recording of some pods of one node."""

    node: str
    path: Path


@dataclass(frozen=True, slots=True)
class LabelledQuery:
    """Which events of which pods."""

    selector: str
    namespace: str = ""
    where: str = ""
    since: str = ""
    until: str = ""
    last: int = 0
    follow: bool = False


class LabelledEvents:
    """Thread that pulls the events of all matching pods; a context manager.

    Pods that appear later get a recording of their own. ``say`` is called in the thread, with what
    is missing.
    """

    def __init__(
        self,
        kubectl: Kubectl,
        agent_namespace: str,
        query: LabelledQuery,
        folder: Path,
        say: Callable[[str], None],
    ) -> None:
        self._kubectl = kubectl
        self._agent_namespace = agent_namespace
        self._query = query
        self._folder = folder
        self._say = say
        self._asked: set[tuple[str, str]] = set()
        """Pods whose events are pulled, by namespace and name."""
        self._silent: set[str] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._run, name="pull", daemon=True)
        self.copies: list[Copy] = []
        """Recordings that have everything that was recorded before the command; only grows."""
        self.error: NriScopeError | None = None
        self.failed = False
        """Whether the events of a node are missing."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._loop is not None and self._task is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join(10)

    @property
    def is_done(self) -> bool:
        """Whether no more events come."""
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except asyncio.CancelledError:
            pass
        except NriScopeError as error:
            self.error = error

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        slots = asyncio.Semaphore(TOGETHER)
        pulling: set[asyncio.Task[None]] = set()
        try:
            while True:
                for agent, request in await self._new_requests(is_first=not pulling):
                    copy = Copy(agent.node, self._folder / f"{len(self._asked)}-{agent.node}.db")
                    pulling.add(asyncio.create_task(self._pull(agent, request, copy, slots)))
                if not self._query.follow:
                    await asyncio.gather(*pulling)
                    return
                await asyncio.sleep(LIST_S)
        finally:
            for task in pulling:
                task.cancel()
            await asyncio.gather(*pulling, return_exceptions=True)

    async def _new_requests(self, *, is_first: bool) -> list[tuple[AgentPod, v1.GetEventsRequest]]:
        query = self._query
        pods = await labelled_pods(self._kubectl, query.selector, query.namespace, some=is_first)
        new = by_node(pod for pod in pods if (pod.namespace, pod.name) not in self._asked)
        if not new:
            return []
        agents = await agent_pods(self._kubectl, self._agent_namespace)
        requests: list[tuple[AgentPod, v1.GetEventsRequest]] = []
        for node, some in sorted(new.items()):
            if node not in agents:
                if node not in self._silent:
                    self._silent.add(node)
                    self.failed = True
                    self._say(f"{node}: has no agent; the events of its pods are missing")
                continue
            self._asked |= {(pod.namespace, pod.name) for pod in some}
            where = pods_filter(some)
            request = v1.GetEventsRequest(
                where=f"({where}) ({query.where})" if query.where else where,
                since=query.since,
                until=query.until,
                last=query.last,
                follow=query.follow,
            )
            requests.append((agents[node], request))
        return requests

    async def _pull(
        self,
        agent: AgentPod,
        request: v1.GetEventsRequest,
        copy: Copy,
        slots: asyncio.Semaphore,
    ) -> None:
        def on_caught_up(_: int) -> None:
            if copy not in self.copies:
                self.copies.append(copy)
                slots.release()

        # A slot is free again when what was recorded before was sent.
        await slots.acquire()
        client = AgentClient(self._kubectl, agent, self._say)
        try:
            await pull(client, request, copy.path, on_caught_up)
        except NriScopeError as error:
            self.failed = True
            self._say(f"{error}; the events of its pods are missing from here on")
        finally:
            if copy not in self.copies:
                slots.release()
