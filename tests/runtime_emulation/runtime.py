# SPDX-License-Identifier: Apache-2.0
"""The emulated runtime, with shortcuts for tests."""

from __future__ import annotations

from pathlib import Path

from google.protobuf.message import Message

from nri_scope.nri.events import EventKind
from nri_scope.nri.identity import parse_plugin_file
from nri_scope.runtime import Answer, Plugin
from nri_scope.runtime import EmulatedRuntime as EmulatedRuntime
from nri_scope.runtime.operations import event_of, request_for


class Runtime(EmulatedRuntime):
    """Emulated runtime, with shortcuts for tests."""

    async def dispatch(self, event: EventKind, request: Message) -> list[Answer]:
        """Send ``request``, the event's own request message, to all subscribers of ``event``.

        It is sent as the event's own RPC or as StateChange, depending on the profile. Returns an
        answer for each plugin that was asked; an error status ends the list.
        """
        method, payload = request_for(event, request, dedicated=self.profile.dedicated_rpcs)
        return await self.send(method, payload)

    async def send_to(
        self, plugin: str, method: str, payload: bytes, *, timeout_ns: int = 0
    ) -> list[Answer]:
        """Send a request as by `send`, but only to one of the subscribers, ``NN-name``."""
        timeout_ns = timeout_ns or self._request_timeout_ns
        event = event_of(method, payload)
        return await self._chain.send(method, payload, event, timeout_ns, only=plugin)

    async def launch(self, path: str | Path, *, config: str = "") -> Plugin:
        """Start the plugin at ``path``, a file named ``NN-name``; return once it gets events."""
        file = Path(path)
        index, name = parse_plugin_file(file.name)
        # A command with a slash is not searched in PATH.
        return await self.launch_command([f"{file.parent}/{file.name}"], index, name, config)

    async def wait_plugins(self, count: int) -> None:
        """Wait until at least ``count`` plugins get events."""
        await self.wait_for(lambda: len(self.plugins) >= count)
