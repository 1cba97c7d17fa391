# SPDX-License-Identifier: Apache-2.0
"""Handlers: the methods that a plugin may have, and a check of those that it has."""

from __future__ import annotations

import difflib
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
from nri_scope.nri.failure_policy import NO_POLICY, FailurePolicy

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

    failure_policy: str = ""
    """What the runtime does when the plugin does not answer, see `run` (NRI 0.12.4 and later)."""

    def configure(self, config: str, runtime: RuntimeHandle) -> Awaitable[None] | None:
        """Handle the first call of each session. ``config`` is what the runtime sends to a plugin
        that it launches, or else the file of ``--config``. Raise `UsageError` to reject it and end
        the plugin.
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
    """Checked handlers of one object, and its failure policy."""

    by_name: dict[str, Handler]
    failure_policy: FailurePolicy = NO_POLICY

    @property
    def events(self) -> frozenset[Event]:
        """The events that have a handler."""
        return frozenset(event for event, name in EVENT_HANDLERS.items() if name in self.by_name)

    @classmethod
    def of(cls, plugin: object) -> Handlers:
        """Find the handlers of an object.

        Raises `UsageError` for an object without any, a class instead of an object, a method with
        other arguments, a method that seems to be a misspelt handler (see `_intended`), and an
        unknown failure policy.
        """
        if isinstance(plugin, type):
            name = plugin.__name__
            raise UsageError(f"{name} is a class", f"pass an instance: {name}()")
        owner = type(plugin).__name__
        handlers: dict[str, Handler] = {}
        others: dict[str, Handler] = {}
        for name in dir(plugin):
            if name.startswith("_") or not (name in _NAMES or _spelled_like(name)):
                # Do not read other attributes: they may be properties.
                continue
            value: object = getattr(plugin, name)
            if not callable(value) or isinstance(value, type):
                continue
            if name not in _NAMES:
                others[name] = value
            elif getattr(value, "__func__", None) is not getattr(BasePlugin, name):
                _check_arguments(owner, name, value)
                handlers[name] = value
        for name, method in others.items():
            if intended := _intended(name, method, handlers):
                raise UsageError(
                    f"{owner}.{name} is not a handler",
                    f"rename it to {intended}; if it is not meant to be one, to _{name}",
                )
        if not handlers:
            raise UsageError(f"{owner} has no handlers", "define methods such as create_container")
        policy: object = getattr(plugin, "failure_policy", "")
        if not isinstance(policy, str):
            raise UsageError(f"{owner}.failure_policy is not text", 'write it as "fail_request"')
        return cls(handlers, FailurePolicy.parse(policy))


_SIMILAR = 0.8
"""Similarity, by difflib, from which a name may be that of a handler with a typing error."""

_ALMOST_EQUAL = 0.9
"""Similarity from which it is one whatever the arguments, unless something was only added."""


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def _spellings() -> dict[str, list[str]]:
    """Return the handlers by other spellings of their names, without underscores and capitals.

    These are the names of other languages ("CreateContainer"), with "on" in front, and without
    the subject ("run_pod", "on_create").
    """
    spellings: dict[str, list[str]] = {}
    # Of "on_stop", the handler for containers is named first.
    for name in sorted(_NAMES, key=lambda handler: (handler.endswith("sandbox"), handler)):
        plain = _plain(name)
        verb = plain.removesuffix("container").removesuffix("podsandbox")
        short = plain.removesuffix("sandbox")
        for spelling in {plain, f"on{plain}", short, f"on{short}", f"on{verb}"}:
            spellings.setdefault(spelling, []).append(name)
    spellings["onclose"] = ["closed"]
    return spellings


_SPELLINGS = _spellings()


def _spelled_like(name: str) -> list[str]:
    """Return the handlers that ``name`` may stand for, nearest first."""
    return _SPELLINGS.get(_plain(name)) or difflib.get_close_matches(
        name.lower(), _NAMES, n=1, cutoff=_SIMILAR
    )


def _intended(name: str, method: Handler, implemented: dict[str, Handler]) -> str:
    """Return the handler for which ``method`` is misspelt; "" if it is a method of another purpose.

    It is misspelt if the plugin lacks the handler and the name is another spelling of it; or a
    similar one, if the method takes the handler's arguments or the name has other letters instead
    of only more or fewer ("update_containers", "close").
    """
    handlers = _spelled_like(name)
    if any(one in implemented for one in handlers):
        return ""
    handler = handlers[0]
    if _plain(name) in _SPELLINGS:
        return handler
    similarity = difflib.SequenceMatcher(None, name.lower(), handler).ratio()
    differs = name not in handler and handler not in name
    if (similarity >= _ALMOST_EQUAL and differs) or _argument_problem(handler, method) is None:
        return handler
    return ""


def _check_arguments(owner: str, name: str, handler: Handler) -> None:
    if error := _argument_problem(name, handler):
        raise UsageError(
            f"{owner}.{name}{inspect.signature(handler)} does not accept the arguments of the "
            "handler",
            f"it is called as {name}({', '.join(_arguments(name))})",
        ) from error


def _argument_problem(name: str, method: Handler) -> TypeError | None:
    """Return the error of calling ``method`` as the handler ``name``; None if it has none."""
    try:
        signature = inspect.signature(method)
    except (TypeError, ValueError):
        # Some callables have no signature.
        return None
    try:
        signature.bind(*_arguments(name))
    except TypeError as error:
        return error
    return None


def _arguments(name: str) -> list[str]:
    return list(inspect.signature(getattr(BasePlugin, name)).parameters)[1:]
