# SPDX-License-Identifier: Apache-2.0
"""Follow the events of labelled pods on all nodes, each in a local recording."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from time import monotonic

from nri_scope._gen.agent.nri_scope.agent import v1
from nri_scope.errors import NriScopeError, UsageError

from .agent_client import TOGETHER, AgentClient
from .agent_pods import NamedPod, agent_pods, labelled_pods, nodes_without_agent, watched_pods
from .gather import by_node, namespaces_of, pods_filters
from .kubectl import Kubectl
from .pull import LoopThread, Responses, pull

LIST_S, LIST_MIN_S = 5.0, 1.0
"""Maximum and minimum seconds between two lists of the pods that match."""
SEEN_MAX = 10_000
"""Maximum number of pods that are noticed between two lists."""
TURN_S = 5.0
"""Seconds until a call ends that has caught up, if other calls wait for a forwarded port."""


@dataclass(slots=True, eq=False)
class Copy:
    """A growing local recording of some pods of one node."""

    node: str
    path: Path
    last: int | None
    """Number of events to be shown of those that were recorded before it was made; None: all."""
    is_complete: bool = False
    """Whether it grows no more."""


@dataclass(frozen=True, slots=True)
class LabelledQuery:
    """Which events of which pods."""

    selector: str
    """"": all events of all nodes, without ``follow``."""
    namespace: str = ""
    where: str = ""
    since: str = ""
    until: str = ""
    last: int | None = None
    """Number of events that were recorded before; with ``follow``, of each node. None: all."""
    follow: bool = False


class LabelledEvents(LoopThread):
    """Thread that pulls the events of all matching pods.

    Each node has one call, or several if its pods do not fit in one filter. A call is replaced when
    pods appear; their earlier events get a recording of their own. ``say`` is called in the thread,
    with what is missing.
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
        self.query = query
        """Pods and events that were selected."""
        self._folder = folder
        self._say = say
        self._calls: dict[_Calls, asyncio.Task[None]] = {}
        self._number = 0
        self._seen: set[NamedPod] = set()
        """Pods that there were since the last list; some may be gone."""
        self._appeared = asyncio.Event()
        """Set when there is a pod without a call."""
        self._gone: set[NamedPod] = set()
        """Pods that were not listed the last time."""
        self._silent: set[str] = set()
        self._told = ""
        self.copies = SimpleQueue[Copy]()
        """Recordings that have everything that was recorded before the command."""
        self.failed = False
        """Whether the events of a node are missing."""

    async def _main(self) -> None:
        slots = asyncio.Semaphore(TOGETHER)
        watching = [asyncio.create_task(self._watch())] if self.query.follow else []
        try:
            if self.query.selector:
                await self._list(slots, is_first=True)
            else:
                await self._ask_nodes(slots)
            while self.query.follow:
                await asyncio.sleep(LIST_MIN_S)
                with suppress(TimeoutError):
                    async with asyncio.timeout(LIST_S - LIST_MIN_S):
                        await self._appeared.wait()
                self._appeared.clear()
                try:
                    await self._list(slots, is_first=False)
                except UsageError as error:
                    self._tell(f"{error}; listing the pods again")
                else:
                    self._told = ""
            await asyncio.gather(*self._calls.values())
        finally:
            tasks = [*self._calls.values(), *watching]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _watch(self) -> None:
        """Notice also pods that exist for less time than there is between two lists."""
        query = self.query
        while True:
            # `_list` says what fails.
            with suppress(UsageError):
                pods = watched_pods(self._kubectl, query.selector, query.namespace)
                async with aclosing(pods):
                    async for pod in pods:
                        if len(self._seen) < SEEN_MAX:
                            self._seen.add(pod)
                        if not any(pod in calls.pods for calls in self._calls):
                            self._appeared.set()
            await asyncio.sleep(LIST_S)

    def _tell(self, text: str) -> None:
        if text != self._told:
            self._told = text
            self._say(text)

    async def _list(self, slots: asyncio.Semaphore, *, is_first: bool) -> None:
        """List the pods, and begin to pull the events of new ones."""
        query = self.query
        pods = await labelled_pods(self._kubectl, query.selector, query.namespace, some=is_first)
        if not query.follow and not by_node(pods):
            raise UsageError(f"no pod that matches -l {query.selector} is scheduled yet")
        earlier, self._seen = self._seen, set()
        pods += earlier.difference(pods)
        self._forget_gone(set(pods))
        asked = {pod for calls in self._calls for pod in calls.pods}
        new = by_node(pod for pod in pods if pod not in asked)
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
            for _, named in pods_filters(some_pods, query.where):
                if any(
                    calls.node == node and not task.done() and calls.add(named)
                    for calls, task in self._calls.items()
                ):
                    continue
                client = AgentClient(self._kubectl, agents[node], slots)
                calls = _Calls(self, client, named)
                last = query.last if is_first else None
                self._calls[calls] = asyncio.create_task(self._follow(calls, self.new(node, last)))

    async def _ask_nodes(self, slots: asyncio.Semaphore) -> None:
        """Begin to pull the events of all nodes."""
        agents = await agent_pods(self._kubectl, self._agent_namespace)
        for node in await nodes_without_agent(self._kubectl, agents, self._say):
            self.failed = True
            self._say(f"{node}: has no agent; its events are missing")
        for node, agent in agents.items():
            calls = _Calls(self, AgentClient(self._kubectl, agent, slots), [])
            copy = self.new(node, self.query.last)
            self._calls[calls] = asyncio.create_task(self._follow(calls, copy))

    def _forget_gone(self, listed: set[NamedPod]) -> None:
        """Forget pods that were not listed the second time, and end calls without pods."""
        asked = {pod for calls in self._calls for pod in calls.pods}
        before, self._gone = self._gone, asked - listed
        gone = before & self._gone
        for calls, task in list(self._calls.items()):
            calls.pods = [pod for pod in calls.pods if pod not in gone]
            if not calls.pods and (calls.has_caught_up or task.done()):
                task.cancel()
                del self._calls[calls]

    @property
    def must_share(self) -> bool:
        """Whether there are more calls than may forward a port at the same time."""
        return sum(not task.done() for task in self._calls.values()) > TOGETHER

    def new(self, node: str, last: int | None = None) -> Copy:
        """Return a copy that is not written yet."""
        self._number += 1
        return Copy(node, self._folder / f"{self._number}-{node}.db", last)

    def say(self, node: str, text: str) -> None:
        """Say why a node sends nothing; "": that it does again."""
        self._say(text or f"{node}: connected again")

    async def _follow(self, calls: _Calls, copy: Copy) -> None:
        is_shown = False

        def show(_: int) -> None:
            nonlocal is_shown
            if not is_shown:
                is_shown = True
                self.copies.put(copy)

        follow = self.query.follow
        pulled = partial(pull, calls.responses(copy.last), copy.node, copy.path)
        try:
            if follow:
                await pulled(follow=True, on_caught_up=show, on_renumbered=self._tell)
            else:
                show(await pulled(on_renumbered=self._tell))
        except UsageError as error:
            # kubectl fails for all nodes.
            self._fail(error)
        except NriScopeError as error:
            self.failed = True
            self._say(f"{error}; the events of its pods are missing from here on")
        finally:
            copy.is_complete = True


class _Calls:
    """The calls of one node's agent about some pods, one after the other."""

    def __init__(self, owner: LabelledEvents, client: AgentClient, pods: list[NamedPod]) -> None:
        self._owner = owner
        self._client = client
        self.pods = pods
        self._new: list[NamedPod] = []
        """Pods that the present call does not ask for."""
        self._added = asyncio.Event()
        """Set when there are some."""
        self.has_caught_up = False
        """Whether everything was sent that was recorded before."""
        self._sent: dict[tuple[str, str], int] = {}
        """Newest event of new pods, by recording and id of the pod, until the call caught up."""

    @property
    def node(self) -> str:
        return self._client.node

    def add(self, pods: list[NamedPod]) -> bool:
        """Ask for more pods, and return True; False if the filter would be too long."""
        if len(pods_filters([*self.pods, *pods], self._owner.query.where)) > 1:
            return False
        self.pods = [*self.pods, *pods]
        self._new += pods
        self._added.set()
        return True

    async def responses(self, last: int | None) -> Responses:
        """Yield responses. A call that is replaced is resumed without loss or repetition."""
        cursor, follow = "", self._owner.query.follow
        while self.pods or not self._owner.query.selector:
            new, self._new = self._new, []
            self._added.clear()
            if new and cursor:
                # The call has ended at the cursor, so these events reach at least as far.
                await self._pull_earlier(new)
            request = replace(
                self._request(self.pods),
                last=0 if last is None else max(last, 1),
                follow=follow,
                after=cursor,
            )
            begun: float | None = None
            async with aclosing(self._events(request, patient=follow)) as responses:
                while (response := await self._next(responses)) is not None:
                    begun = begun or monotonic()
                    cursor = response.cursor or cursor
                    caught_up = response.heartbeat is not None and response.heartbeat.caught_up
                    if caught_up:
                        self.has_caught_up = True
                        self._sent.clear()
                    if not self._is_repeated(response):
                        yield response
                    is_turn_over = self._owner.must_share and monotonic() >= begun + TURN_S
                    if follow and caught_up and (self._new or is_turn_over):
                        break
                else:
                    if not self._new:
                        return

    async def _next(self, responses: Responses) -> v1.GetEventsResponse | None:
        """Return the next response; None at the end, and as soon as pods are added to a call that
        has caught up, also while its agent does not answer.
        """
        if not (self._owner.query.follow and self.has_caught_up):
            return await anext(responses, None)
        waiting = asyncio.ensure_future(anext(responses, None))
        added = asyncio.create_task(self._added.wait())
        try:
            await asyncio.wait({waiting, added}, return_when=asyncio.FIRST_COMPLETED)
            return waiting.result() if waiting.done() else None
        finally:
            waiting.cancel()
            added.cancel()
            await asyncio.gather(waiting, added, return_exceptions=True)

    def _request(self, pods: list[NamedPod]) -> v1.GetEventsRequest:
        query = self._owner.query
        where = pods_filters(pods, query.where)[0][0] if pods else query.where
        return v1.GetEventsRequest(
            where=where,
            since=query.since,
            until=query.until,
            namespaces=namespaces_of(pods),
        )

    def _events(self, request: v1.GetEventsRequest, *, patient: bool) -> Responses:
        return self._client.events(request, partial(self._owner.say, self.node), patient=patient)

    def _is_repeated(self, response: v1.GetEventsResponse) -> bool:
        event = response.event
        return event is not None and event.id <= self._sent.get((event.recording, event.pod_id), 0)

    async def _pull_earlier(self, pods: list[NamedPod]) -> None:
        """Write what was recorded about new pods so far."""
        copy = self._owner.new(self.node)
        copy.is_complete = True
        await pull(self._earlier(pods), self.node, copy.path)
        self._owner.copies.put(copy)

    async def _earlier(self, pods: list[NamedPod]) -> Responses:
        async with aclosing(self._events(self._request(pods), patient=True)) as responses:
            async for response in responses:
                if response.event is not None:
                    event = response.event
                    self._sent[event.recording, event.pod_id] = event.id
                # The gaps were sent by the first call.
                if response.gap is None:
                    yield response
