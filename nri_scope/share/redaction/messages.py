# SPDX-License-Identifier: Apache-2.0
"""Redact NRI messages field by field."""

from __future__ import annotations

from collections.abc import (
    Callable,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    MutableSequence,
)
from typing import TYPE_CHECKING, cast

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api

from . import commands, mount_options, value_places
from .credentials import redact_keyed
from .limits import PART
from .name_kinds import NameKind

if TYPE_CHECKING:
    from .engine import Engine
    from .scope import Scope

_MAX_ROUNDS = 4
_Map = MutableMapping[str | int, str | Message]
TextFunction = Callable[["Engine", str, str], str]


def _redact_text(engine: Engine, text: str, place: str) -> str:
    return engine.redact_text(text, place)


def _redact_key(engine: Engine, text: str, place: str) -> str:
    return engine.redact_key(text, place)


def _name_function(kind: NameKind) -> TextFunction:
    return lambda engine, text, place: value_places.redact_name(engine, kind, text, place)


def _with_removal(function: TextFunction) -> TextFunction:
    """Extend ``function`` to keys that are marked for removal with a leading dash."""

    def extended(engine: Engine, text: str, place: str) -> str:
        for _ in range(_MAX_ROUNDS):
            before = text
            text = function(engine, text, place)
            if text[:1] == "-":
                text = "-" + function(engine, text[1:], place)
            if text == before:
                break
        return text

    return extended


_redact_path = _with_removal(_redact_text)
_FIELD_FUNCTIONS: dict[str, TextFunction] = {
    "PodSandbox.id": value_places.redact_id,
    "PodSandbox.uid": value_places.redact_id,
    "PodSandbox.name": _name_function(NameKind.POD),
    "PodSandbox.namespace": _name_function(NameKind.NAMESPACE),
    "Container.id": value_places.redact_id,
    "Container.pod_sandbox_id": value_places.redact_id,
    "Container.name": _name_function(NameKind.CONTAINER),
    "Container.env": value_places.redact_variable,
    "Hook.env": value_places.redact_variable,
    "Mount.destination": _redact_path,
    "LinuxDevice.path": _redact_path,
    "LinuxNamespace.type": _redact_path,
    "CDIDevice.name": _redact_key,
    "Image.name": value_places.redact_image,
    "Image.digest": _redact_key,
    "Image.config_digest": _redact_key,
    "ContainerUpdate.container_id": value_places.redact_id,
    "ContainerEviction.container_id": value_places.redact_id,
    "PluginInstance.name": _name_function(NameKind.PLUGIN),
    "PluginInstance.index": _redact_key,
    "RegisterPluginRequest.plugin_name": _name_function(NameKind.PLUGIN),
    "RegisterPluginRequest.plugin_idx": _redact_key,
    "ConfigureRequest.runtime_name": _name_function(NameKind.RUNTIME),
    "ConfigureRequest.runtime_version": _redact_key,
}
"""Functions for particular text fields; all other fields are free text."""
_LIST_FUNCTIONS: dict[str, Callable[[Engine, list[str], str], list[str]]] = {
    "Container.args": commands.redact_arguments,
    "Hook.args": commands.redact_arguments,
    "ContainerAdjustment.args": commands.redact_arguments,
    "Mount.options": mount_options.redact_options,
}
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


def redact_message(engine: Engine, message: Message, scope: Scope) -> None:
    """Put tokens into ``message``; ``scope`` applies to texts outside of its containers."""
    _drop_unknown(engine, message)
    for pod, container in _subjects(message):
        _note_names(engine, pod, container)
    # Annotations and arguments, which may contain values of variables, precede the variables.
    with engine.within(scope):
        redacted = message
        for _ in range(_MAX_ROUNDS):
            before = engine.known.progress
            if not engine.is_counting:
                # Redact the original in each round, so that the second pass finds it in the cache.
                redacted = _copy(message)
            _redact_fields(engine, redacted, "")
            if engine.known.progress == before:
                break
        if redacted is not message:
            message.CopyFrom(redacted)


def _copy(message: Message) -> Message:
    copy = type(message)()
    copy.CopyFrom(message)
    return copy


def is_about_one(message: Message) -> bool:
    """Return whether a message is only about one pod, or one container and its pod."""
    if isinstance(message, _SYNCHRONIZE) or any(
        getattr(message, field, ()) for field in ("update", "evict", "failed")
    ):
        return False
    return all(
        pod is None or container is None or container.pod_sandbox_id in {pod.id, ""}
        for pod, container in _subjects(message)
    )


def scope_of(engine: Engine, message: Message) -> Scope | None:
    """Return the scope of a message or part; None if it is about no container or pod."""
    scopes = engine.scopes
    match message:
        case api.PodSandbox(id=pod):
            return scopes.pod(pod)
        case api.Container(id=container, pod_sandbox_id=pod, name=name):
            return scopes.container(container, pod, name) if container or pod else None
        case api.ContainerUpdate(container_id=container):
            return scopes.container(container) if container else None
        case api.ContainerEviction(container_id=container):
            return scopes.container(container) if container else None
        case _:
            if isinstance(message, _SYNCHRONIZE):
                return None
            pod_of, each = next(_subjects(message), (None, None))
            if each is not None:
                of = each.pod_sandbox_id or (pod_of.id if pod_of is not None else "")
                return scopes.container(each.id, of, each.name)
            return scopes.pod(pod_of.id) if pod_of is not None else None


def _drop_unknown(engine: Engine, message: Message) -> None:
    if not engine.is_on("unknown-fields"):
        return
    before = message.ByteSize()
    if before:
        message.DiscardUnknownFields()
        if message.ByteSize() != before:
            engine.count("unknown-fields", message.DESCRIPTOR.name)


def _subjects(message: Message) -> Iterator[tuple[api.PodSandbox | None, api.Container | None]]:
    """Yield pods and containers, whose names stay visible."""
    match message:
        case api.PodSandbox():
            yield message, None
        case api.Container():
            yield None, message
        case _SYNCHRONIZE():
            for pod in message.pods:
                yield pod, None
            for container in message.containers:
                yield None, container
        case _:
            parts = {field.name: value for field, value in message.ListFields()}
            if "pod" in parts or "container" in parts:
                yield (
                    cast("api.PodSandbox | None", parts.get("pod")),
                    cast("api.Container | None", parts.get("container")),
                )


def _note_names(
    engine: Engine, pod: api.PodSandbox | None, container: api.Container | None
) -> None:
    if pod is not None:
        with engine.within(engine.scopes.pod(pod.id)):
            value_places.note_name(engine, NameKind.NAMESPACE, pod.namespace)
            value_places.note_name(engine, NameKind.POD, pod.name)
            value_places.note_name(engine, None, pod.id)
            value_places.note_name(engine, None, pod.uid)
            value_places.note_map_names(engine, pod.labels)
            value_places.note_map_names(engine, pod.annotations)
    if container is not None:
        of = container.pod_sandbox_id or (pod.id if pod is not None else "")
        with engine.within(engine.scopes.container(container.id, of, container.name)):
            value_places.note_name(engine, NameKind.CONTAINER, container.name)
            value_places.note_name(engine, None, container.id)
            value_places.note_map_names(engine, container.labels)
            value_places.note_map_names(engine, container.annotations)
            if container.image.name:
                value_places.note_image(engine, container.image.name)


def _redact_fields(engine: Engine, message: Message, place: str) -> None:
    engine.work.spend(PART)
    kind = message.DESCRIPTOR.name
    place = _ROOT_PLACES.get(kind, place)
    if isinstance(message, api.KeyValue):
        shown = _with_removal(value_places.redact_variable_name)(engine, message.key, place)
        name = message.key.removeprefix("-")
        message.value = value_places.redact_variable_value(
            engine, name, message.value, f"{place}.{shown.removeprefix('-')}"
        )
        message.key = shown
        return
    if isinstance(message, api.CompoundFieldOwners):
        _redact_owners(engine, message, place)
        return
    is_kept = isinstance(message, api.PodSandbox | api.Container) and engine.is_unbounded
    for field, value in message.ListFields():
        if is_kept and not isinstance(value, str | int):
            _redact_field_cached(engine, message, field, place)
        else:
            _redact_field(engine, message, field, value, place)


def _redact_field(
    engine: Engine, message: Message, field: FieldDescriptor, value: object, place: str
) -> None:
    where = f"{place}.{field.name}" if place else field.name
    field_name = f"{message.DESCRIPTOR.name}.{field.name}"
    if isinstance(value, str):
        redacted = _FIELD_FUNCTIONS.get(field_name, _redact_text)(engine, value, where)
        if redacted != value:
            setattr(message, field.name, redacted)
    elif isinstance(value, Message):
        _redact_part(engine, value, where)
    elif _is_map(field):
        _redact_map(engine, cast("_Map", value), field, field_name, where)
    elif field.message_type is not None:
        for child in cast("Iterable[Message]", value):
            _redact_part(engine, child, where)
    elif field.type == FieldDescriptor.TYPE_STRING:
        _redact_list(engine, cast("MutableSequence[str]", value), field_name, where)


def _redact_field_cached(
    engine: Engine, message: Message, field: FieldDescriptor, place: str
) -> None:
    """Redact one field, with a cache: most events change only a container's state or times."""
    single = type(message)()
    value, content_copy = getattr(message, field.name), getattr(single, field.name)
    content_copy.MergeFrom(value)
    if isinstance(content_copy, Message):
        # Present even if empty.
        content_copy.SetInParent()

    def redact() -> bytes:
        _redact_field(engine, single, field, content_copy, place)
        return single.SerializeToString(deterministic=True)

    content = single.SerializeToString(deterministic=True)
    redacted = engine.redact_part(
        f"{place}.{field.name} ".encode() + content, redact, is_field=True
    )
    if redacted != content:
        message.ClearField(field.name)
        message.MergeFromString(redacted)


def _redact_part(engine: Engine, message: Message, place: str) -> None:
    if isinstance(message, api.ContainerUpdate | api.ContainerEviction):
        with engine.within(scope_of(engine, message) or engine.scope):
            _redact_fields(engine, message, place)
        return
    if not isinstance(message, api.PodSandbox | api.Container):
        _redact_fields(engine, message, place)
        return
    with engine.within(scope_of(engine, message) or engine.scope):
        _redact_part_cached(engine, message, place)


def _redact_part_cached(engine: Engine, message: Message, place: str) -> None:
    def redact() -> bytes:
        _redact_fields(engine, message, place)
        return message.SerializeToString(deterministic=True)

    content = message.SerializeToString(deterministic=True)
    redacted = engine.redact_part(f"{place} {type(message).__name__} ".encode() + content, redact)
    if redacted != content:
        message.ParseFromString(redacted)


def _is_map(field: FieldDescriptor) -> bool:
    kind = field.message_type
    return kind is not None and kind.GetOptions().map_entry


def _redact_list(
    engine: Engine, content: MutableSequence[str], field_name: str, place: str
) -> None:
    texts = list(content)
    whole = _LIST_FUNCTIONS.get(field_name)
    function = _FIELD_FUNCTIONS.get(field_name, _redact_text)
    if whole is not None:
        redacted = whole(engine, texts, place)
    else:
        redacted = []
        for number, text in enumerate(texts):
            if engine.is_exhausted():
                redacted.append(engine.replace_rest(texts[number:], place))
                break
            redacted.append(function(engine, text, place))
    if redacted != texts:
        content[:] = redacted


def _redact_map(
    engine: Engine, content: _Map, field: FieldDescriptor, field_name: str, place: str
) -> None:
    entry = field.message_type
    assert entry is not None
    if field_name in _MAP_FIELDS:
        redacted = value_places.redact_map(engine, cast("Mapping[str, str]", content), place)
        if redacted is not None:
            content.clear()
            content.update(redacted)
        return
    has_text_keys = entry.fields_by_name["key"].type == FieldDescriptor.TYPE_STRING
    keys = sorted(content)
    for number, key in enumerate(keys):
        if has_text_keys and engine.is_exhausted():
            rest = engine.replace_rest(map(str, keys[number:]), place)
            for each in keys[number:]:
                del content[each]
            if entry.fields_by_name["value"].type == FieldDescriptor.TYPE_STRING:
                content[rest] = rest
            break
        shown = _with_removal(_redact_key)(engine, str(key), place) if has_text_keys else key
        value = content[key]
        where = f"{place}.{shown}"
        if isinstance(value, Message):
            _redact_fields(engine, value, where)
            if shown != key:
                cast("Message", content[shown]).CopyFrom(value)
        else:
            keyed = redact_keyed(engine, str(key).removeprefix("-"), value, where)
            text = engine.redact_text(value, where) if keyed is None else keyed
            if shown != key or text != value:
                content[shown] = text
        if shown != key:
            del content[key]


def _redact_owners(engine: Engine, message: api.CompoundFieldOwners, place: str) -> None:
    """Redact a map of owners: keys as in the owned field, values as plugin names."""
    field = place.rpartition(".")[2]
    function = _OWNED_KEY_FUNCTIONS.get(field, _redact_key)
    owners = dict(message.owners)
    redacted = {
        _with_removal(function)(engine, key, place): value_places.redact_name(
            engine, NameKind.PLUGIN, owner, place
        )
        for key, owner in owners.items()
    }
    if redacted != owners:
        message.owners.clear()
        message.owners.update(redacted)


_OWNED_KEY_FUNCTIONS: dict[str, TextFunction] = {
    str(int(api.Mounts)): _redact_text,
    str(int(api.Devices)): _redact_text,
    str(int(api.Env)): value_places.redact_variable_name,
}
