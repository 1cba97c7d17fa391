# SPDX-License-Identifier: Apache-2.0
"""Handlers: the methods that a plugin may have, a check of those that it has, and their replies."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api
from nri_scope._gen.nri.api_pb2 import (
    Container,
    LinuxResources,
    PodSandbox,
    ValidateContainerAdjustmentRequest,
)
from nri_scope.errors import UsageError
from nri_scope.nri.events import Event
from nri_scope.nri.runtime_setup import NO_POLICY, FailurePolicy

from .adjustment import Adjustment
from .handle import RuntimeHandle
from .resources import Eviction, Update

CreateReply = Adjustment | Update | Eviction | Iterable[Adjustment | Update | Eviction] | None
"""Reply of `create_container`: at most one adjustment, updates and evictions of others."""

UpdateReply = Update | Eviction | Iterable[Update | Eviction] | None
"""Reply of `update_container`: updates of any containers, and evictions."""

UpdatesReply = Update | Iterable[Update] | None
"""Reply of `stop_container` and `synchronize`: updates of other containers."""

Rejection = str | None
"""Reply of `validate_container_adjustment`: the reason to reject the container, or None."""


def create_reply(handler: str, value: object) -> Message:
    """Build the reply to CreateContainer, always with ``adjust``: iSulad aborts without one."""
    adjustments, updates, evictions = _sorted(handler, value, (Adjustment, Update, Eviction))
    if len(adjustments) > 1:
        raise UsageError(f"{handler} returned {len(adjustments)} Adjustments", "return one at most")
    return api.CreateContainerResponse(
        adjust=adjustments[0].message if adjustments else api.ContainerAdjustment(),
        update=[one.message for one in updates],
        evict=[one.message for one in evictions],
    )


def update_reply(handler: str, value: object) -> Message:
    """Build the reply to UpdateContainer."""
    _, updates, evictions = _sorted(handler, value, (Update, Eviction))
    return api.UpdateContainerResponse(
        update=[one.message for one in updates], evict=[one.message for one in evictions]
    )


def stop_reply(handler: str, value: object) -> Message:
    """Build the reply to StopContainer."""
    _, updates, _ = _sorted(handler, value, (Update,))
    return api.StopContainerResponse(update=[one.message for one in updates])


def synchronize_reply(handler: str, value: object) -> Message:
    """Build the reply to the last part of Synchronize."""
    _, updates, _ = _sorted(handler, value, (Update,))
    return api.SynchronizeResponse(update=[one.message for one in updates])


def validate_reply(handler: str, value: object) -> Message:
    """Build the reply to ValidateContainerAdjustment."""
    if value is not None and not isinstance(value, str):
        raise _wrong_type(handler, value, "a reason to reject, as a str, or None")
    return api.ValidateContainerAdjustmentResponse(reject=value is not None, reason=value or "")


def empty_reply(handler: str, value: object) -> Message:
    """Build the empty reply."""
    if value is not None:
        raise _wrong_type(handler, value, "None")
    return api.Empty()


ReplyOf = Callable[[str, object], Message]
"""Builds a reply of the value that a handler, named first, returned; raises `UsageError`."""

REPLIES: dict[str, ReplyOf] = {
    "CreateContainer": create_reply,
    "UpdateContainer": update_reply,
    "StopContainer": stop_reply,
    "ValidateContainerAdjustment": validate_reply,
}
"""Builders of replies by event; the replies of other events are empty."""


def _sorted(
    handler: str, value: object, allowed: tuple[type[Adjustment | Update | Eviction], ...]
) -> tuple[list[Adjustment], list[Update], list[Eviction]]:
    """Sort a handler's results by type; raise `UsageError` for other types than ``allowed``."""
    adjustments: list[Adjustment] = []
    updates: list[Update] = []
    evictions: list[Eviction] = []
    for item in _listed(value):
        if not isinstance(item, allowed):
            articles = ", ".join(_with_article(kind.__name__) for kind in allowed)
            several = "a list of them" if len(allowed) > 1 else "a list of Updates"
            raise _wrong_type(handler, item, f"{articles}, {several}, or None", inside=value)
        if isinstance(item, Adjustment):
            adjustments.append(item)
        elif isinstance(item, Update):
            updates.append(item)
        else:
            evictions.append(item)
    return adjustments, updates, evictions


def _listed(value: object) -> Iterable[object]:
    if value is None:
        return ()
    # The items of text and mappings are no results, so the error is about the whole value.
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping):
        return value
    return (value,)


def _wrong_type(handler: str, value: object, wanted: str, inside: object = None) -> UsageError:
    name = type(value).__name__
    where = "" if inside is None or inside is value else f" in a {type(inside).__name__}"
    return UsageError(f"{handler} returned {name}{where} ({value!r:.100})", f"return {wanted}")


def _with_article(name: str) -> str:
    return f"an {name}" if name[0] in "AEIOU" else f"a {name}"


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
    if any(name in implemented for name in handlers):
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
