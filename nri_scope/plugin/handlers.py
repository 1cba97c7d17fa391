# SPDX-License-Identifier: Apache-2.0
"""Handlers: the methods that a plugin may have, and a check of those that it has."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from nri_scope._gen.nri.api_pb2 import (
    Container,
    LinuxResources,
    PodSandbox,
    ValidateContainerAdjustmentRequest,
)
from nri_scope.errors import UsageError
from nri_scope.nri.events import Event

from .handle import RuntimeHandle
from .replies import CreateReply, Rejection, UpdateReply, UpdatesReply


class BasePlugin:
    """All handlers, for editors and type checkers; a plugin need not derive from it.

    A plugin is an object with some of these methods, plain or ``async``. It subscribes to the
    events for which it has a method; methods inherited from this class do not count. A plain
    handler blocks the event loop: use ``async`` if it waits for anything.

    An exception becomes an error status: for most events, the runtime then fails the operation and
    asks no further plugin. `time_left` returns the time that a handler has left.
    """

    def configure(self, config: str, runtime: RuntimeHandle) -> Awaitable[None] | None:
        """Handle the first call of each session. ``config`` is always empty for a plugin that the
        runtime did not launch. Raise `UsageError` to reject it and end the plugin.
        """
        return None

    def synchronize(
        self, pods: Sequence[PodSandbox], containers: Sequence[Container]
    ) -> Awaitable[UpdatesReply] | UpdatesReply:
        """Handle the second call, with all existing pods and containers. Parts are joined."""
        return None

    def run_pod_sandbox(self, pod: PodSandbox) -> Awaitable[None] | None:
        """Handle a pod that is about to run."""
        return None

    def update_pod_sandbox(
        self, pod: PodSandbox, overhead: LinuxResources, resources: LinuxResources
    ) -> Awaitable[None] | None:
        """Handle a pod whose resources are about to change (NRI 0.9.1 and later)."""
        return None

    def post_update_pod_sandbox(self, pod: PodSandbox) -> Awaitable[None] | None:
        """Handle a pod whose resources have changed (NRI 0.9.1 and later)."""
        return None

    def stop_pod_sandbox(self, pod: PodSandbox) -> Awaitable[None] | None:
        """Handle a pod that has been stopped."""
        return None

    def remove_pod_sandbox(self, pod: PodSandbox) -> Awaitable[None] | None:
        """Handle a pod that has been removed."""
        return None

    def create_container(
        self, pod: PodSandbox, container: Container
    ) -> Awaitable[CreateReply] | CreateReply:
        """Handle a container that is about to be created; the reply may change it and others."""
        return None

    def post_create_container(
        self, pod: PodSandbox, container: Container
    ) -> Awaitable[None] | None:
        """Handle a container that has been created."""
        return None

    def start_container(self, pod: PodSandbox, container: Container) -> Awaitable[None] | None:
        """Handle a container that is about to start."""
        return None

    def post_start_container(self, pod: PodSandbox, container: Container) -> Awaitable[None] | None:
        """Handle a container that has started."""
        return None

    def update_container(
        self, pod: PodSandbox, container: Container, resources: LinuxResources
    ) -> Awaitable[UpdateReply] | UpdateReply:
        """Handle a request for new resources, which an `Update` of this container changes."""
        return None

    def post_update_container(
        self, pod: PodSandbox, container: Container
    ) -> Awaitable[None] | None:
        """Handle a container whose resources have changed."""
        return None

    def stop_container(
        self, pod: PodSandbox, container: Container
    ) -> Awaitable[UpdatesReply] | UpdatesReply:
        """Handle a container that is about to stop or has stopped. The pod may have only an id."""
        return None

    def remove_container(self, pod: PodSandbox, container: Container) -> Awaitable[None] | None:
        """Handle a container that has been removed."""
        return None

    def validate_container_adjustment(
        self, request: ValidateContainerAdjustmentRequest
    ) -> Awaitable[Rejection] | Rejection:
        """Validate a container that all plugins have adjusted; return a reason to reject it.

        If this handler raises or misses its deadline, the creation of the container fails. (NRI
        0.10 and later.)
        """
        return None

    def shutdown(self) -> Awaitable[None] | None:
        """Handle the runtime's request to end. No known runtime sends it."""
        return None

    def closed(self, reason: str) -> Awaitable[None] | None:
        """Handle the end of a session. External plugins reconnect automatically."""
        return None


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


EVENT_HANDLERS: dict[Event, str] = {event: _snake(event.name) for event in Event}
"""The handler of each event."""

_NAMES = frozenset({"configure", "synchronize", "shutdown", "closed", *EVENT_HANDLERS.values()})

Handler = Callable[..., object]
"""A method of the plugin's object; its arguments are those of the method of `BasePlugin`."""


@dataclass(frozen=True, slots=True)
class Handlers:
    """Checked handlers of one object."""

    by_name: dict[str, Handler]

    @property
    def events(self) -> frozenset[Event]:
        """The events that have a handler."""
        return frozenset(event for event, name in EVENT_HANDLERS.items() if name in self.by_name)

    @classmethod
    def of(cls, plugin: object) -> Handlers:
        """Find the handlers of an object.

        Raises `UsageError` for an object without any, a class instead of an object, a misspelt name
        (``CreateContainer``), and a method with other arguments.
        """
        if isinstance(plugin, type):
            name = plugin.__name__
            raise UsageError(f"{name} is a class", f"pass an instance: {name}()")
        found: dict[str, Handler] = {}
        for name in dir(plugin):
            intended = _intended_name(name)
            if not intended or name.startswith("_"):
                continue
            handler: object = getattr(plugin, name)
            if not callable(handler) or _inherited(name, handler):
                continue
            if name != intended:
                raise UsageError(
                    f"{type(plugin).__name__}.{name} is not a handler", f"rename it to {intended}"
                )
            _check_arguments(type(plugin).__name__, name, handler)
            found[name] = handler
        if not found:
            raise UsageError(
                f"{type(plugin).__name__} has no handlers",
                "define methods such as create_container",
            )
        return cls(found)


def _intended_name(name: str) -> str:
    plain = name.replace("_", "").lower()
    for one in _NAMES:
        if plain in (one.replace("_", ""), "on" + one.replace("_", "")):
            return one
    return ""


def _inherited(name: str, handler: object) -> bool:
    return getattr(handler, "__func__", None) is getattr(BasePlugin, name, handler)


def _check_arguments(owner: str, name: str, handler: Handler) -> None:
    expected = list(inspect.signature(getattr(BasePlugin, name)).parameters)[1:]
    try:
        signature = inspect.signature(handler)
    except (TypeError, ValueError):
        # Some callables have no signature.
        return
    try:
        signature.bind(*expected)
    except TypeError as error:
        raise UsageError(
            f"{owner}.{name}{signature} does not accept the arguments of the handler",
            f"it is called as {name}({', '.join(expected)})",
        ) from error
