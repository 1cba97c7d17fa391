# SPDX-License-Identifier: Apache-2.0
"""Requests of a runtime to its plugins: operations, single events, stored and unknown requests."""

from __future__ import annotations

from google.protobuf.message import Message

from nri_scope.errors import RpcError
from nri_scope.nri.events import Event
from nri_scope.nri.methods import PLUGIN_SERVICE
from nri_scope.wire import Code

from .answer import Answer
from .operations import Operation
from .outcome import Outcome
from .plugin import Plugin
from .plugin_chain import Chain, event_of, request_for
from .profile import Profile

UNKNOWN_METHOD = "CheckpointContainer"
"""RPC of an event that no NRI version has."""
UNKNOWN_EVENT = b"\x08\x63"
"""Request of an event that no NRI version has: a StateChange with event 99."""


class Dispatcher:
    """Sender of requests to admitted plugins: the base of `Runtime`."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        """Behaviour of this runtime."""
        self._chain = Chain(by_name=profile.dispatch_rules.orders_by_name)

    @property
    def plugins(self) -> tuple[Plugin, ...]:
        """The plugins that get events, in the order in which they are asked."""
        return self._chain.plugins

    async def dispatch(self, event: Event, request: Message) -> list[Answer]:
        """Send ``request``, the event's own request message, to all subscribers of ``event``.

        It is sent as the event's own RPC or as StateChange, depending on the profile. Returns an
        answer for each plugin that was asked; an error status ends the list.
        """
        method, payload = request_for(event, request, dedicated=self.profile.dedicated_rpcs)
        return await self._chain.send(method, payload, event, self._request_timeout_ns)

    async def operate(self, event: Event, request: Message, *, timeout_ns: int = 0) -> Outcome:
        """Perform ``event`` as this runtime does, with all consequences of the answers.

        ``request`` is the event's own request message, with the container as it is before any
        plugin adjusts it. Replies are merged, and validators are asked if there are any.
        ``timeout_ns`` is each plugin's deadline (0: the profile's).
        """
        timeout_ns = timeout_ns or self._request_timeout_ns
        return await Operation(self._chain, self.profile, event, request, timeout_ns).perform()

    async def send(
        self,
        method: str,
        payload: bytes,
        *,
        timeout_ns: int = 0,
        service: str = PLUGIN_SERVICE,
        plugin: str = "",
    ) -> list[Answer]:
        """Send a request byte for byte, with the deadline ``timeout_ns`` (0: the profile's).

        It is sent to the subscribers of its event; with ``plugin`` (``NN-name``), only to that one
        of them. Requests without a known event are sent to every plugin.
        """
        return await self._chain.send(
            method,
            payload,
            event_of(method, payload, service),
            timeout_ns or self._request_timeout_ns,
            service=service,
            only=plugin,
        )

    async def send_unknown(self) -> list[Answer]:
        """Send every plugin an event that no NRI version has, as a later runtime might.

        It has its own RPC. Plugins that do not implement that RPC, and all plugins on a runtime
        before NRI 0.12, get it as a StateChange. An error does not end the chain. (A real runtime
        would send it only to subscribers: to plugins with an empty mask.)
        """
        if not self.profile.dedicated_rpcs:
            return await self._send_unknown("StateChange")
        answers: list[Answer] = []
        for answer in await self._send_unknown(UNKNOWN_METHOD):
            if isinstance(answer.error, RpcError) and answer.error.code == Code.UNIMPLEMENTED:
                answers += await self._send_unknown("StateChange", answer.plugin) or [answer]
            else:
                answers.append(answer)
        return answers

    async def _send_unknown(self, method: str, plugin: str = "") -> list[Answer]:
        timeout_ns = self._request_timeout_ns
        return await self._chain.send(
            method, UNKNOWN_EVENT, None, timeout_ns, only=plugin, ignore_errors=True
        )

    @property
    def _request_timeout_ns(self) -> int:
        return self.profile.request_timeout_ms * 1_000_000
