# SPDX-License-Identifier: Apache-2.0
"""The chain: each request goes to the plugins one after the other; requests do not overlap."""

from __future__ import annotations

import asyncio

from google.protobuf.message import DecodeError, Message

from nri_scope._gen.nri.api_pb2 import StateChangeEvent
from nri_scope.nri.events import Event
from nri_scope.nri.methods import METHODS, PLUGIN_SERVICE, STATE_CHANGE_EVENTS

from .answer import Answer
from .plugin import Plugin
from .state_change import as_state_change


class Chain:
    """The plugins that get events, in the order of their indices.

    `send` asks the plugins one after the other, also with ValidateContainerAdjustment. How real
    runtimes handle events and answers is up to `operations`.
    """

    def __init__(self, *, by_name: bool = False) -> None:
        """Start without plugins; ``by_name`` orders them by name."""
        self._by_name = by_name
        self.lock = asyncio.Lock()
        """Held while a request passes through the chain, from the first plugin to the last."""
        self._plugins: list[Plugin] = []

    @property
    def plugins(self) -> tuple[Plugin, ...]:
        """The connected plugins, in the order in which they are asked."""
        return tuple(plugin for plugin in self._plugins if not plugin.link.closed)

    def add(self, plugin: Plugin) -> None:
        """Add a plugin; equal indices keep the order of arrival (undefined in real runtimes)."""
        self._plugins.append(plugin)
        self._plugins.sort(key=lambda one: one.name if self._by_name else one.index)

    def remove(self, plugin: Plugin) -> None:
        """Remove a plugin, if it is there."""
        if plugin in self._plugins:
            self._plugins.remove(plugin)

    async def send(
        self,
        method: str,
        payload: bytes,
        event: Event | None,
        timeout_ns: int,
        *,
        service: str = PLUGIN_SERVICE,
        only: str = "",
        whatever: bool = False,
    ) -> list[Answer]:
        """Ask every plugin that wants ``event``, each with a deadline of its own.

        A plugin that vanishes or is late is dropped and the next one is asked. An error status
        ends the chain, as its last answer, unless ``whatever`` asks all plugins regardless.
        """
        answers: list[Answer] = []
        async with self.lock:
            for plugin in self.plugins:
                if not plugin.subscribes(event) or only not in ("", plugin.id):
                    continue
                answer = await plugin.deliver(
                    method, payload, event=event, timeout_ns=timeout_ns, service=service
                )
                answers.append(answer)
                if answer.stops_chain and not whatever:
                    break
        return answers


def request_for(event: Event, request: Message, *, dedicated: bool) -> tuple[str, bytes]:
    """Return method and payload for ``event``, whose own request message is ``request``."""
    expected = METHODS[event.name].request
    if not isinstance(request, expected):
        raise TypeError(f"{event.name} takes {expected.__name__}, not {type(request).__name__}")
    if dedicated or event not in STATE_CHANGE_EVENTS:
        return event.name, request.SerializeToString()
    return "StateChange", as_state_change(event, request)


def event_of(method: str, payload: bytes, service: str = PLUGIN_SERVICE) -> Event | None:
    """Return the event of a request; None for requests without a known event."""
    if service != PLUGIN_SERVICE:
        return None
    if method != "StateChange":
        known = METHODS.get(method)
        return None if known is None else known.event
    try:
        return Event(StateChangeEvent.FromString(payload).event)
    except (DecodeError, ValueError):
        return None
