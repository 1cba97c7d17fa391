# SPDX-License-Identifier: Apache-2.0
"""Return types of handlers, and the replies built from returned values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import UsageError
from nri_scope.nri.lifecycle import CREATE, STOP, UPDATE, VALIDATE

from .adjustment import Adjustment
from .update import Eviction, Update

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
    CREATE: create_reply,
    UPDATE: update_reply,
    STOP: stop_reply,
    VALIDATE: validate_reply,
}
"""Builders of replies by event; the replies of other events are empty."""


def _sorted(
    handler: str, value: object, allowed: tuple[type[Adjustment | Update | Eviction], ...]
) -> tuple[list[Adjustment], list[Update], list[Eviction]]:
    """Sort a handler's results by type; raise `UsageError` for other types than ``allowed``."""
    adjustments: list[Adjustment] = []
    updates: list[Update] = []
    evictions: list[Eviction] = []
    for one in _listed(value):
        if not isinstance(one, allowed):
            articles = ", ".join(_with_article(kind.__name__) for kind in allowed)
            several = "a list of them" if len(allowed) > 1 else "a list of Updates"
            raise _wrong_type(handler, one, f"{articles}, {several}, or None", inside=value)
        if isinstance(one, Adjustment):
            adjustments.append(one)
        elif isinstance(one, Update):
            updates.append(one)
        else:
            evictions.append(one)
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
