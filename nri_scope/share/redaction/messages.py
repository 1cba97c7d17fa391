# SPDX-License-Identifier: Apache-2.0
"""Redact NRI messages field by field."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, MutableSequence
from functools import cache
from typing import NamedTuple, cast

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.request_subject import name_of_pod

from . import fields, texts
from .builtin import BuiltIn
from .engine import Engine
from .names import NameKind
from .tokens import TokenScope

_Map = MutableMapping[str | int, str | Message]
TextFunction = Callable[[Engine, str, str], str]


def _name_function(kind: NameKind) -> TextFunction:
    return lambda engine, text, place: fields.redact_name(engine, kind, text, place)


_FIELD_FUNCTIONS: dict[str, TextFunction] = {
    "PodSandbox.id": fields.redact_id,
    "PodSandbox.uid": fields.redact_id,
    "PodSandbox.name": _name_function(NameKind.POD),
    "PodSandbox.namespace": _name_function(NameKind.NAMESPACE),
    "Container.id": fields.redact_id,
    "Container.pod_sandbox_id": fields.redact_id,
    "Container.name": _name_function(NameKind.CONTAINER),
    "Container.env": fields.redact_variable,
    "Hook.env": fields.redact_variable,
    "CDIDevice.name": Engine.redact_text,
    "Image.name": fields.redact_image,
    "ContainerUpdate.container_id": fields.redact_id,
    "ContainerEviction.container_id": fields.redact_id,
    "PluginInstance.name": _name_function(NameKind.PLUGIN),
    "RegisterPluginRequest.plugin_name": _name_function(NameKind.PLUGIN),
    "ConfigureRequest.runtime_name": _name_function(NameKind.RUNTIME),
    "ConfigureRequest.runtime_version": _name_function(NameKind.RUNTIME),
}
"""Functions for particular text fields; all other fields are free text."""
_ITEM_FIELDS = frozenset(
    {"Container.args", "Hook.args", "ContainerAdjustment.args", "Mount.options"}
)
_KEPT_FIELDS = frozenset({"Image.digest", "Image.config_digest"})
_MAP_FIELDS = frozenset(
    {
        "PodSandbox.labels",
        "PodSandbox.annotations",
        "Container.labels",
        "Container.annotations",
        "ContainerAdjustment.annotations",
    }
)
_SYNCHRONIZE = api.SynchronizeRequest
"""The message that lists all pods and containers, and belongs to none of them."""
_ROOT_PLACES = {"PodSandbox": "pod", "Container": "container", "ContainerAdjustment": "adjust"}
_SCOPED = api.ContainerUpdate, api.ContainerEviction, api.PodSandbox, api.Container
"""Parts of messages with their own scope."""


def redact_message(engine: Engine, message: Message, scope: TokenScope) -> None:
    """Put tokens into ``message``; ``scope`` applies to texts outside of its containers."""
    if engine.is_on(BuiltIn.UNKNOWN_FIELDS):
        before = message.ByteSize()
        message.DiscardUnknownFields()
        if message.ByteSize() != before:
            engine.count(BuiltIn.UNKNOWN_FIELDS, message.DESCRIPTOR.name)
    note_names(engine, message)
    with engine.within(scope):
        _redact_fields(engine, message, "")


def note_names(engine: Engine, message: Message) -> None:
    """Note the names of the pods and containers in a message."""
    for pod, container in _subjects(message):
        if pod is not None:
            with engine.within(engine.scopes.pod(pod.id)):
                fields.note_name(engine, NameKind.NAMESPACE, pod.namespace)
                fields.note_name(engine, NameKind.POD, pod.name)
                fields.note_id(engine, pod.id)
                fields.note_id(engine, pod.uid)
                fields.note_values(engine, pod.labels)
                fields.note_values(engine, pod.annotations)
        if container is not None:
            of = container.pod_sandbox_id or (pod.id if pod is not None else "")
            with engine.within(engine.scopes.container(container.id, of, container.name)):
                fields.note_name(engine, NameKind.CONTAINER, container.name)
                fields.note_id(engine, container.id)
                fields.note_values(engine, container.labels)
                fields.note_values(engine, container.annotations)
                fields.note_image(engine, container.image.name)


def scope_of(engine: Engine, message: Message) -> TokenScope | None:
    """Return the scope of a message or part; None if it is about no container or pod."""
    scopes = engine.scopes
    for each, _ in _subjects(message):
        if each is not None:
            scopes.note_pod(each.id, each.namespace, name_of_pod(each))
    match message:
        case api.PodSandbox(id=pod):
            return scopes.pod(pod)
        case api.Container(id=container, pod_sandbox_id=pod, name=name):
            return scopes.container(container, pod, name) if container or pod else None
        case api.ContainerUpdate() | api.ContainerEviction():
            container = message.container_id
            return scopes.container(container) if container else None
        case _:
            if isinstance(message, _SYNCHRONIZE):
                return None
            pod_of, own = next(_subjects(message), (None, None))
            if own is not None:
                of = own.pod_sandbox_id or (pod_of.id if pod_of is not None else "")
                return scopes.container(own.id, of, own.name)
            return scopes.pod(pod_of.id) if pod_of is not None else None


def _subjects(message: Message) -> Iterator[tuple[api.PodSandbox | None, api.Container | None]]:
    """Yield pods and containers, whose names stay visible."""
    match message:
        case api.PodSandbox():
            yield message, None
        case api.Container():
            yield None, message
        case _SYNCHRONIZE():
            yield from ((pod, None) for pod in message.pods)
            yield from ((None, container) for container in message.containers)
        case _:
            parts = {field.name: value for field, value in message.ListFields()}
            if "pod" in parts or "container" in parts:
                yield (
                    cast("api.PodSandbox | None", parts.get("pod")),
                    cast("api.Container | None", parts.get("container")),
                )


def _redact_fields(engine: Engine, message: Message, place: str) -> None:
    place = _ROOT_PLACES.get(message.DESCRIPTOR.name, place)
    if isinstance(message, api.KeyValue):
        name = message.key.removeprefix("-")
        shown = fields.redact_key(engine, message.key, place)
        where = f"{place}.{shown.removeprefix('-')}"
        message.value = fields.redact_variable_value(engine, name, message.value, where)
        message.key = shown
        return
    if isinstance(message, api.CompoundFieldOwners):
        _redact_owners(engine, message, place)
        return
    present = message.ListFields()
    # Most events change only a container's state or times.
    is_whole = message.DESCRIPTOR.name == "Container" and len(present) > 1
    for field, value in present:
        known = _text_field(field)
        if known is None:
            continue
        where = f"{place}.{known.name}" if place else known.name
        if isinstance(value, str):
            redacted = known.function(engine, value, where)
            if redacted != value:
                setattr(message, known.name, redacted)
        elif isinstance(value, Message):
            _redact_part(engine, value, where)
        elif is_whole:
            alone = type(message)()
            getattr(alone, known.name).MergeFrom(value)
            if _redact_cached(engine, alone, place):
                message.ClearField(known.name)
                message.MergeFrom(alone)
        else:
            _redact_members(engine, value, known, where)


class _TextField(NamedTuple):
    """A field with texts."""

    name: str
    qualified_name: str
    function: TextFunction
    """What redacts a text."""
    has_messages: bool


@cache
def _text_field(field: FieldDescriptor) -> _TextField | None:
    """Return what is known of a field; None if it has no texts, or they stay."""
    name, inner = ".".join(field.full_name.rsplit(".", 2)[1:]), field.message_type
    is_text = field.type == FieldDescriptor.TYPE_STRING
    if name in _KEPT_FIELDS or not (is_text or (inner and any(map(_text_field, inner.fields)))):
        return None
    function = _FIELD_FUNCTIONS.get(name, Engine.redact_text)
    return _TextField(field.name, name, function, inner is not None)


def _redact_members(engine: Engine, value: object, field: _TextField, place: str) -> None:
    """Redact the map, the messages or the texts of a field."""
    if isinstance(value, MutableMapping):
        _redact_map(engine, cast("_Map", value), field.qualified_name, place)
    elif field.has_messages:
        for child in cast("Iterable[Message]", value):
            _redact_part(engine, child, place)
    else:
        items = cast("MutableSequence[str]", value)
        original = list(items)
        if field.qualified_name in _ITEM_FIELDS:
            shown = fields.redact_items(engine, original, place)
        else:
            shown = [field.function(engine, text, place) for text in original]
        if shown != original:
            items[:] = shown


def _redact_part(engine: Engine, message: Message, place: str) -> None:
    """Redact a message in another; most mounts, namespaces and pods are those of other events."""
    if not isinstance(message, _SCOPED):
        _redact_cached(engine, message, place)
        return
    with engine.within(scope_of(engine, message) or engine.scope):
        redact = _redact_fields if isinstance(message, api.Container) else _redact_cached
        redact(engine, message, place)


def _redact_cached(engine: Engine, message: Message, place: str) -> bool:
    """Redact a message, with a cache; return whether it was changed."""

    def redact() -> bytes:
        _redact_fields(engine, message, place)
        return message.SerializeToString(deterministic=True)

    content = message.SerializeToString(deterministic=True)
    redacted = engine.redact_part(place, content, redact)
    if redacted != content:
        message.ParseFromString(redacted)
    return redacted != content


def _redact_map(engine: Engine, content: _Map, field_name: str, place: str) -> None:
    if field_name in _MAP_FIELDS:
        original = dict(cast("Mapping[str, str]", content))
        redacted = fields.redact_map(engine, original, place)
        if redacted != original:
            content.clear()
            content.update(redacted)
        return
    for key in sorted(content):
        shown = fields.redact_key(engine, key, place) if isinstance(key, str) else key
        value = content[key]
        where = f"{place}.{shown}"
        if isinstance(value, Message):
            _redact_fields(engine, value, where)
            if shown != key:
                cast("Message", content[shown]).CopyFrom(value)
        elif field_name == "FieldOwners.simple":
            content[shown] = fields.redact_name(engine, NameKind.PLUGIN, value, where)
        else:
            content[shown] = texts.redact_keyed(engine, str(key).removeprefix("-"), value, where)
        if shown != key:
            del content[key]


def _redact_owners(engine: Engine, message: api.CompoundFieldOwners, place: str) -> None:
    """Redact a map of owners: keys as in the owned field, values as plugin names."""
    field = place.rpartition(".")[2]
    is_text = field in {str(int(api.Mounts)), str(int(api.Devices))}
    function = Engine.redact_text if is_text else fields.redact_key
    owners = dict(message.owners)
    redacted = {
        function(engine, key, place): fields.redact_name(engine, NameKind.PLUGIN, owner, place)
        for key, owner in owners.items()
    }
    if redacted != owners:
        message.owners.clear()
        message.owners.update(redacted)
