# SPDX-License-Identifier: Apache-2.0
"""Format requests and replies on one line, in a short version of the golden's form."""

from __future__ import annotations

from collections.abc import Iterator

from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.identity import plugin_id
from nri_scope.nri.plain import UNKNOWN, Plain
from nri_scope.recording.display import many

from .reply_values import MARK, MOUNT_KEY, REMOVED, NameOf, plain_reply

NOTHING = "{}"
"""Text of an empty reply: no change."""

PARTS_MAX = 24
"""Maximum number of parts shown of one message; `show` prints all."""
VALUE_MAX = 48
"""Maximum number of characters of one value."""

# Fields that only contain other fields, and are not shown themselves.
_WRAPPERS = frozenset({"adjust", "linux", "resources", "linux_resources"})
# Mappings whose values are texts.
_TEXTS = frozenset({"annotations", "env", "sysctl", "unified"})
# Mappings and lists of which only the keys are shown.
_KEYED = frozenset({"devices", "namespaces", "net_devices", "hooks", "CDI_devices"})
# The subject of a request, which is already on the line.
_SUBJECTS = frozenset({"pod", "container", "pods", "containers"})
_EVENTS_MAX = 3


def request_words(message: Message, name_of: NameOf) -> str:
    """Describe the content of a request without its subject; "" if there is none."""
    match message:
        case api.RegisterPluginRequest():
            return plugin_id(message.plugin_idx, message.plugin_name)
        case api.ConfigureRequest():
            runtime = f"{message.runtime_name} {message.runtime_version}".strip()
            config = f", {many(len(message.config), 'character')} of config"
            return runtime + (config if message.config else "")
        case api.SynchronizeRequest():
            counts = (
                f"{many(len(message.pods), 'pod')}, {many(len(message.containers), 'container')}"
            )
            return counts + (", more parts follow" if message.more else "")
        case api.StateChangeEvent():
            return ""
        case api.ValidateContainerAdjustmentRequest():
            changes = type(message)(adjust=message.adjust, update=message.update)
            return _words(changes, name_of)
    content: Message = type(message)()
    content.CopyFrom(message)
    for name in _SUBJECTS.intersection(message.DESCRIPTOR.fields_by_name):
        content.ClearField(name)
    return _words(content, name_of)


def reply_words(message: Message, name_of: NameOf) -> str:
    """Describe a reply; `NOTHING` if it is empty."""
    if isinstance(message, api.ConfigureResponse):
        policy = "".join(f", {field.name}" for field, _ in message.failure_policy.ListFields())
        return _events(plain_reply(message, name_of).get("events")) + policy
    if isinstance(message, api.UpdateContainersResponse):
        failed = [name_of(update.container_id) or update.container_id for update in message.failed]
        return f"failed: {_listed(failed)}" if failed else NOTHING
    return _words(message, name_of) or NOTHING


def synchronized_names(request: Message) -> Iterator[tuple[str, str]]:
    """Yield id and ``namespace/pod/container`` of each container in a Synchronize request.

    A pod missing in the message is shown as ``?``.
    """
    if isinstance(request, api.SynchronizeRequest):
        pods = {pod.id: f"{pod.namespace}/{pod.name}" for pod in request.pods}
        for container in request.containers:
            yield container.id, f"{pods.get(container.pod_sandbox_id, '?')}/{container.name}"


def _events(names: Plain) -> str:
    if not isinstance(names, list):
        return f"events {names}"
    shown = ", ".join(map(str, names[:_EVENTS_MAX]))
    return f"{len(names)} events" if len(names) > _EVENTS_MAX else f"events {shown}"


def _words(message: Message, name_of: NameOf) -> str:
    return _listed(list(_parts(plain_reply(message, name_of))))


def _listed(parts: list[str]) -> str:
    more = len(parts) - PARTS_MAX
    return ", ".join([*parts[:PARTS_MAX], *([f"and {more} more"] if more > 0 else [])])


def _parts(fields: dict[str, Plain], path: str = "") -> Iterator[str]:
    for name, value in fields.items():
        if name == UNKNOWN:
            yield f"{path}unknown fields"
        elif name in _WRAPPERS and isinstance(value, dict):
            yield from _parts(value, path)
        elif name in ("update", "evict") and isinstance(value, dict):
            yield from _update_parts(name, value)
        elif name == "mounts" and isinstance(value, list):
            yield from (f"mount {_destination(one)}" for one in value)
        elif name in _TEXTS and isinstance(value, dict):
            yield from (f"{_kind(name)} {_assigned(key, one)}" for key, one in value.items())
        elif name in _KEYED and isinstance(value, dict | list):
            yield from (f"{_kind(name)} {one}" for one in value if isinstance(one, str))
        elif name == "rlimits" and isinstance(value, dict):
            yield from (f"rlimit {key}={_limits(one)}" for key, one in value.items())
        elif isinstance(value, dict) and value:
            yield from _parts(value, f"{path}{name}.")
        else:
            yield _assigned(f"{path}{name}", value)


def _update_parts(name: str, values: dict[str, Plain]) -> Iterator[str]:
    """Yield requested updates or evictions of containers, each with the container's name."""
    for container, request in values.items():
        fields = request if isinstance(request, dict) else {}
        parts = [part for part in _parts(fields) if not part.startswith("container_id=")]
        yield f"{name} {container} {{{_listed(parts)}}}"


def _kind(name: str) -> str:
    return "CDI device" if name == "CDI_devices" else name.removesuffix("s").replace("_", " ")


def _limits(limit: Plain) -> str:
    """Format limits as ulimit and prlimit(1) do: soft, then hard."""
    if isinstance(limit, dict) and limit.keys() == {"soft", "hard"}:
        return f"{limit['soft']}:{limit['hard']}"
    return _short(limit)


def _destination(mount: Plain) -> str:
    return str(mount.get(MOUNT_KEY, "")) if isinstance(mount, dict) else str(mount)


def _assigned(key: str, value: Plain) -> str:
    if value == REMOVED and key.startswith(MARK):
        return key
    return f"{key}={_short(value)}"


def _short(value: Plain) -> str:
    match value:
        case bool():
            text = "true" if value else "false"
        case list():
            text = f"[{', '.join(map(_short, value))}]"
        case dict():
            text = f"{{{', '.join(_assigned(key, one) for key, one in value.items())}}}"
        case _:
            text = str(value)
    return text if len(text) <= VALUE_MAX else f"{text[: VALUE_MAX - 1]}…"
