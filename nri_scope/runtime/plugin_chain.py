# SPDX-License-Identifier: Apache-2.0
"""The chain of plugins: they get each request one after the other; requests do not overlap."""

from __future__ import annotations

import asyncio

from google.protobuf.message import DecodeError, Message

from nri_scope._gen.nri.api_pb2 import StateChangeEvent
from nri_scope.nri.events import Event
from nri_scope.nri.methods import METHODS, PLUGIN_SERVICE, STATE_CHANGE_EVENTS

from .answer import Answer
from .lifecycle import as_state_change
from .plugin import Plugin


class Chain:
    """The plugins that get events, in the order of their indices.

    `send` asks one plugin after the other, even for ValidateContainerAdjustment. `operations` adds
    the rules of real runtimes for events and answers.
    """

    def __init__(self, *, by_name: bool = False) -> None:
        """Create an empty chain; ``by_name`` orders plugins by name."""
        self._by_name = by_name
        self.lock = asyncio.Lock()
        """Held while a request passes through the chain, from the first plugin to the last."""
        self.registered: list[Plugin] = []
        """The plugins in order, also those closed since the last request or registration: only at
        the end of either, runtimes remove them."""

    @property
    def plugins(self) -> tuple[Plugin, ...]:
        """The connected plugins, in the order in which they are asked."""
        return tuple(plugin for plugin in self.registered if not plugin.link.closed)

    def add(self, plugin: Plugin) -> None:
        """Add a plugin; equal indices keep the order of arrival (undefined in real runtimes)."""
        self.registered.append(plugin)
        self.registered.sort(key=lambda one: one.name if self._by_name else one.index)
        self.remove_closed()

    def remove_closed(self) -> None:
        """Remove closed plugins, at the end of a request or registration."""
        self.registered = list(self.plugins)

    async def send(
        self,
        method: str,
        payload: bytes,
        event: Event | None,
        timeout_ns: int,
        *,
        service: str = PLUGIN_SERVICE,
        only: str = "",
        ignore_errors: bool = False,
    ) -> list[Answer]:
        """Send a request to every subscriber of ``event``, each with its own deadline.

        ``only`` restricts it to one plugin (``NN-name``). A plugin that disconnects or misses its
        deadline is dropped, and the next one is asked. An error status ends the chain, as the last
        answer, unless ``ignore_errors`` is set.
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
                if answer.stops_chain and not ignore_errors:
                    break
            self.remove_closed()
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
