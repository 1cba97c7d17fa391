# SPDX-License-Identifier: Apache-2.0
"""Follow the events of labelled pods on all nodes, each in a local recording."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from nri_scope._gen.agent.nri_scope.agent import v1
from nri_scope.errors import NriScopeError, UsageError

from .agent_client import AgentClient
from .agent_pods import AgentPod, NamedPod, agent_pods, labelled_pods
from .gather import TOGETHER, by_node, pods_filters
from .kubectl import Kubectl
from .loop_thread import LoopThread
from .pull import pull

LIST_S = 5.0
"""Seconds between two lists of the pods that match."""


class Copy(NamedTuple):
    """A growing local recording of some pods of one node."""

    node: str
    path: Path
    last: int | None
    """Number of events to be shown of those that were recorded before it was made; None: all."""


@dataclass(frozen=True, slots=True)
class LabelledQuery:
    """Which events of which pods."""

    selector: str
    namespace: str = ""
    where: str = ""
    since: str = ""
    until: str = ""
    last: int | None = None
    """Number of events that were recorded before; with ``follow``, of each node. None: all."""
    follow: bool = False


class LabelledEvents(LoopThread):
    """Thread that pulls the events of all matching pods.

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
        super().__init__()
        self._kubectl = kubectl
        self._agent_namespace = agent_namespace
        self._query = query
        self._folder = folder
        self._say = say
        self._asked: dict[NamedPod, tuple[asyncio.Task[None], Copy]] = {}
        """Pods whose events are pulled."""
        self._number = 0
        self._gone: set[NamedPod] = set()
        """Pods that were not listed the last time."""
        self._silent: set[str] = set()
        self._told = ""
        self.copies: list[Copy] = []
        """Recordings that have everything that was recorded before the command; only grows."""
        self.failed = False
        """Whether the events of a node are missing."""

    async def _main(self) -> None:
        slots = asyncio.Semaphore(TOGETHER)
        try:
            await self._list(slots, is_first=True)
            while self._query.follow:
                await asyncio.sleep(LIST_S)
                try:
                    await self._list(slots, is_first=False)
                except UsageError as error:
                    self._tell(f"{error}; listing the pods again")
                else:
                    self._told = ""
            await asyncio.gather(*(task for task, _ in self._asked.values()))
        finally:
            tasks = {task for task, _ in self._asked.values()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _tell(self, text: str) -> None:
        if text != self._told:
            self._told = text
            self._say(text)

    async def _list(self, slots: asyncio.Semaphore, *, is_first: bool) -> None:
        """List the pods, and begin to pull the events of new ones."""
        query = self._query
        last = query.last if is_first else None
        pods = await labelled_pods(self._kubectl, query.selector, query.namespace, some=is_first)
        self._end_gone(set(pods))
        new = by_node(pod for pod in pods if pod not in self._asked)
        if not new:
            return
        agents = await agent_pods(self._kubectl, self._agent_namespace)
        for node, some_pods in sorted(new.items()):
            if node not in agents:
                if node not in self._silent:
                    self._silent.add(node)
                    self.failed = True
                    self._say(f"{node}: has no agent; the events of its pods are missing")
                continue
            for where, named in pods_filters(some_pods, query.where):
                request = v1.GetEventsRequest(
                    where=where,
                    since=query.since,
                    until=query.until,
                    last=0 if last is None else max(last, 1),
                    follow=query.follow,
                )
                self._number += 1
                copy = Copy(node, self._folder / f"{self._number}-{node}.db", last)
                task = asyncio.create_task(self._pull(agents[node], request, copy, slots))
                self._asked |= dict.fromkeys(named, (task, copy))

    def _end_gone(self, listed: set[NamedPod]) -> None:
        """End the calls all of whose pods were not listed the second time, as they are gone."""
        before, self._gone = self._gone, self._asked.keys() - listed
        gone = before & self._gone
        needed = {task for pod, (task, _) in self._asked.items() if pod not in gone}
        for pod in gone:
            task, copy = self._asked[pod]
            if task not in needed and copy in self.copies:
                task.cancel()
                del self._asked[pod]

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
        client = AgentClient(self._kubectl, agent)

        def say(text: str) -> None:
            self._say(text or f"{agent.node}: connected again")

        try:
            await pull(client, request, copy.path, on_caught_up, say)
        except UsageError as error:
            # kubectl fails for all nodes.
            self._fail(error)
        except NriScopeError as error:
            self.failed = True
            self._say(f"{error}; the events of its pods are missing from here on")
        finally:
            if copy not in self.copies:
                slots.release()
