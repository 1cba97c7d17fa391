# SPDX-License-Identifier: Apache-2.0
"""Compare what `pods_of` makes of a manifest with what a plugin got, field by field.

Values that a cluster assigns (`ASSIGNED`) are replaced by their names on both sides first, wherever
they occur.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api

Fields = dict[str, str]
"""Values by path: ``container.linux.resources.cpu.shares.value``."""

ASSIGNED: Mapping[str, re.Pattern[str]] = {
    name: re.compile(pattern)
    for name, pattern in {
        "uid of the pod": r"pod\.uid=(.+)",
        "id of the sandbox": r"pod\.id=(.+)",
        "process of the sandbox": r"pod\.pid=(.+)|=/proc/(\d+)/ns/",
        "address of the pod": r"pod\.ips\[0\]=(.+)|container\.env\[POD_IP\]=(.+)",
        "id of the container": r"container\.id=(.+)",
        "network namespace": r"pod\.linux\.namespaces\[network\]\.path=.*/(?:cni-)?([^/]+)",
        "volume of the token": r"/kube-api-access-(\w{5})",
        "termination log": r"\.source=.*/containers/[^/]+/([0-9a-f]{8})",
        "time of the kubelet": r"pod\.annotations\[kubernetes\.io/config\.seen\]=(.+)",
        "uid of the job": r"pod\.labels\[controller-uid\]=(.+)",
        "revision of the template": (
            r"pod\.labels\[(?:pod-template-hash|controller-revision-hash)\]=(?:.*-)?(.+)"
        ),
        "name of the pod": r"pod\.name=.*-(\w{5})",
    }.items()
}
"""Patterns of values that a cluster assigns, in ``path=value``."""

# Lists by the field that identifies an item.
_KEYS = {
    "mounts": "destination",
    "namespaces": "type",
    "devices": "path",
    "hugepage_limits": "page_size",
    "rlimits": "type",
    "CDI_devices": "name",
}


@dataclass(frozen=True)
class Difference:
    """A field that differs; None for a side without it."""

    path: str
    expected: str | None
    actual: str | None


def differences(
    expected: Sequence[tuple[str, Message]], actual: Sequence[tuple[str, Message]]
) -> tuple[list[Difference], set[str]]:
    """Return what differs between named messages, and the assigned values that were replaced."""
    sides = [dict(_all_fields(side)) for side in (expected, actual)]
    replaced = [_replacements(fields) for fields in sides]
    wanted, found = (
        _substituted(fields, assigned) for fields, assigned in zip(sides, replaced, strict=True)
    )
    different = [
        Difference(path, wanted.get(path), found.get(path))
        for path in dict.fromkeys([*wanted, *found])
        if wanted.get(path) != found.get(path)
    ]
    used = {name for name in replaced[0] if replaced[0][name] != replaced[1].get(name)}
    return different, used


def _all_fields(messages: Sequence[tuple[str, Message]]) -> Iterator[tuple[str, str]]:
    for name, message in messages:
        yield from _fields(name, message)


def _fields(path: str, message: Message) -> Iterator[tuple[str, str]]:
    for field, value in message.ListFields():
        place = f"{path}.{field.name}"
        if isinstance(value, Message):
            yield place, "present"
            yield from _fields(place, value)
        elif field.message_type is not None and field.message_type.GetOptions().map_entry:
            for key, item in value.items():
                yield f"{place}[{key}]", str(item)
        elif field.name == "env":
            variables = [variable.partition("=") for variable in value]
            names = [name for name, _, _ in variables]
            yield f"{place}.order", " ".join(names)
            # The runtime adds its own before those of the kubelet, which have a random order.
            if "HOSTNAME" in names:
                yield f"{place}.start", " ".join(names[: names.index("HOSTNAME") + 1])
            for name, _, content in variables:
                yield f"{place}[{name}]", content
        elif field.name in _KEYS and not isinstance(message, api.LinuxResources):
            yield from _keyed(place, value, _KEYS[field.name])
        elif field.name == "hugepage_limits":
            yield from _keyed(place, value, "page_size")
        elif isinstance(value, str | int | bool | float):
            yield place, str(value)
        elif field.name == "options":
            yield place, ",".join(value)
        else:
            for index, item in enumerate(value):
                if isinstance(item, Message):
                    yield from _fields(f"{place}[{index}]", item)
                else:
                    yield f"{place}[{index}]", str(item)


def _keyed(place: str, items: Sequence[Message], key: str) -> Iterator[tuple[str, str]]:
    yield f"{place}.order", " ".join(str(getattr(item, key)) for item in items)
    for item in items:
        yield from _fields(f"{place}[{getattr(item, key)}]", item)


def _replacements(fields: Fields) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, pattern in ASSIGNED.items():
        for path, value in fields.items():
            if match := pattern.search(f"{path}={value}"):
                found[name] = next(filter(None, match.groups()))
                break
    return found


def _substituted(fields: Fields, assigned: Mapping[str, str]) -> Fields:
    names = {value: name for name, value in reversed([*assigned.items()])}
    # Short values may be parts of others.
    parts = (
        re.escape(value)
        if len(value) > 15
        else f"(?<![0-9A-Za-z]){re.escape(value)}(?![0-9A-Za-z])"
        for value in assigned.values()
    )
    pattern = re.compile("|".join(parts))
    return {
        path: pattern.sub(lambda match: f"<{names[match[0]]}>", value)
        for path, value in fields.items()
    }
