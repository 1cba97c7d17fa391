# SPDX-License-Identifier: Apache-2.0
"""Reproducible random containers and adjustments that use all fields."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api

# Few keys, so that adjustments match members of the container. By field name, or by message and
# field.
_TEXTS = {
    "destination": ["/a", "/a/b", "/dev/shm", "//x", "c", "/a/../b/", "/", "/z//y"],
    "options": ["ro", "rw", "rbind", "rprivate", "nosuid"],
    "LinuxDevice.path": ["/dev/a", "/dev/b", "/dev/c"],
    "LinuxDevice.type": ["b", "c", "p"],
    "LinuxNamespace.type": ["pid", "network", "mount", "user", "time"],
    "KeyValue.key": ["A", "B", "C", "D", ""],
    "POSIXRlimit.type": ["RLIMIT_CORE", "RLIMIT_NOFILE"],
    "page_size": ["2MB", "1GB"],
}
_ENV = ["A=1", "B=2", "A=3", "C", "=x", "B=", "E=f=g"]
_KEYS = ["a", "b", "c", "/d~", "é"]
_MARKED = {"KeyValue.key", "LinuxDevice.path", "LinuxNamespace.type", "Mount.destination"}
_NUMBERS = {
    FieldDescriptor.CPPTYPE_INT32: (0, 1, 7, -1),
    FieldDescriptor.CPPTYPE_INT64: (0, 1, 7, -1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 1, 0o660),
    FieldDescriptor.CPPTYPE_UINT64: (0, 1, 2**63),
    FieldDescriptor.CPPTYPE_BOOL: (False, True),
}


class RandomMessages:
    """Source of random messages."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self._removals = False

    def container(self) -> api.Container:
        container = api.Container()
        self._fill(container, 0.7)
        container.env[:] = self.random.choices(_ENV, k=self.random.randint(0, 5))
        return container

    def adjustment(self) -> api.ContainerAdjustment:
        """Return an adjustment as after merging: removals first, no leading empty argument."""
        adjustment = api.ContainerAdjustment()
        self._removals = True
        self._fill(adjustment, self.random.choice((0.2, 0.5, 0.9)))
        self._removals = False
        _removals_first(adjustment.env, lambda each: each.key)
        _removals_first(adjustment.mounts, lambda each: each.destination)
        _removals_first(adjustment.linux.devices, lambda each: each.path)
        _removals_first(adjustment.linux.namespaces, lambda each: each.type)
        while adjustment.args[:1] == [""]:
            del adjustment.args[0]
        return adjustment

    def _fill(self, message: Message, likely: float) -> None:
        for field in message.DESCRIPTOR.fields:
            if self.random.random() > likely:
                continue
            value = getattr(message, field.name)
            kind = field.message_type
            if kind is not None and kind.GetOptions().map_entry:
                self._fill_map(value, kind.fields_by_name["value"])
            elif field.is_repeated:
                for _ in range(self.random.randint(0, 3)):
                    if kind is None:
                        value.append(self._scalar(field))
                    else:
                        self._fill(value.add(), 0.8)
            elif kind is None:
                setattr(message, field.name, self._scalar(field))
            else:
                value.SetInParent()
                self._fill(value, 0.6)
        self._name(message)

    def _fill_map(self, value: Any, field: Any) -> None:
        # With a removal and a value for one key, Go applies them in random order.
        for key in self.random.sample(_KEYS, self.random.randint(0, 3)):
            name = f"-{key}" if self._removals and self.random.random() < 0.4 else key
            if field.message_type is None:
                value[name] = self._scalar(field)
            else:
                self._fill(value[name], 0.5)

    def _name(self, message: Message) -> None:
        """Set the key of `message`, sometimes marked for removal."""
        for path in _TEXTS:
            kind, _, name = path.rpartition(".")
            if kind == message.DESCRIPTOR.name:
                setattr(message, name, self._text(path))
        if isinstance(message, api.Mount):
            message.destination = self._text("Mount.destination")

    def _text(self, path: str) -> str:
        name = path.rpartition(".")[2]
        text = self.random.choice(_TEXTS.get(path) or _TEXTS.get(name) or ["", "x", "y", "=z"])
        marked = self._removals and path in _MARKED and self.random.random() < 0.3
        return f"-{text}" if marked else text

    def _scalar(self, field: Any) -> object:
        if field.enum_type is not None:
            return self.random.choice([value.number for value in field.enum_type.values])
        if field.cpp_type in _NUMBERS:
            return self.random.choice(_NUMBERS[field.cpp_type])
        return self._text(field.name)


def _removals_first(items: Any, key: Callable[[Any], str]) -> None:
    ordered = sorted(items, key=lambda each: not key(each).startswith("-"))
    copies = [type(each).FromString(each.SerializeToString()) for each in ordered]
    del items[:]
    items.extend(copies)
