# SPDX-License-Identifier: Apache-2.0
"""Ids, uids and addresses of pods and containers, derived from names: each run has the same ones.

A message may contain the id of its pod or container in other fields, such as paths and annotations.
A copy of a pod, and a container that is created again, get these texts with their own ids.
"""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Mapping, MutableMapping, MutableSequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.plain import is_map

FIRST_PID = 10_001

_LONG = 20
"""Minimum length of an id that is replaced inside of texts: a short one may be part of a word."""
_KEYS_OF_NAMES = ("sandbox-name", "pod.name", "KubeName", "HOSTNAME")
"""Ends of the keys of annotations, labels and variables whose value is the name of a pod."""

M = TypeVar("M", bound=Message)


def derived_id(*names: object) -> str:
    """Return 64 hexadecimal digits, as the ids of runtimes have, for names."""
    return hashlib.sha256("/".join(map(str, names)).encode()).hexdigest()


def derived_uid(*names: object) -> str:
    """Return a UUID for names."""
    digits = derived_id("uid", *names)
    parts = digits[:8], digits[8:12], f"4{digits[13:16]}", f"8{digits[17:20]}", digits[20:32]
    return "-".join(parts)


def pod_copy(pod: api.PodSandbox, number: int) -> tuple[api.PodSandbox, NewTexts]:
    """Return copy ``number``, from 1, of a pod, and its texts by those of the original.

    ``pod`` has an id and a uid. The addresses of copies follow one another.
    """
    name = f"{pod.name}-{number}"
    uid = derived_uid(pod.uid, number)
    ids = {
        pod.id: derived_id("pod", pod.id, number),
        pod.uid: uid,
        # In names of systemd's slices, a dash separates levels.
        pod.uid.replace("-", "_"): uid.replace("-", "_"),
    }
    texts = NewTexts(ids, {pod.name: name})
    copy = texts.in_copy(pod)
    copy.name = name
    copy.ips[:] = [_next_address(address, number - 1) for address in pod.ips]
    return copy, texts


def _next_address(text: str, step: int) -> str:
    try:
        return str(ipaddress.ip_address(text) + step)
    except ValueError:
        return text


@dataclass(frozen=True, slots=True)
class NewTexts:
    """New texts for old ones in messages."""

    ids: Mapping[str, str]
    """Ids, which are replaced wherever they are a whole text, and long ones inside of texts."""
    names: Mapping[str, str] = field(default_factory=dict[str, str])
    """Names of pods, which are replaced only where a text is known to be a pod's name."""

    def in_copy(self, message: M) -> M:
        """Return a copy of a message with the new texts."""
        copy = type(message)()
        copy.CopyFrom(message)
        self._replace(copy)
        return copy

    def _replace(self, message: Message) -> None:
        for one, value in message.ListFields():
            if isinstance(value, str):
                setattr(message, one.name, self._text(value))
            elif isinstance(value, Message):
                self._replace(value)
            elif is_map(one):
                entries = cast("MutableMapping[str, Any]", value)
                for key in list(entries):
                    if isinstance(entries[key], Message):
                        self._replace(entries[key])
                    elif isinstance(entries[key], str):
                        entries[key] = self._text(entries[key], key)
            elif not isinstance(value, int):
                items = cast("MutableSequence[Any]", value)
                for at, item in enumerate(list(items)):
                    if isinstance(item, Message):
                        self._replace(item)
                    elif isinstance(item, str):
                        items[at] = self._item(item)

    def _item(self, text: str) -> str:
        name, equals, value = text.partition("=")
        return f"{name}={self._text(value, name)}" if equals else self._text(text)

    def _text(self, text: str, key: str = "") -> str:
        if key.endswith(_KEYS_OF_NAMES) and text in self.names:
            return self.names[text]
        if text in self.ids:
            return self.ids[text]
        for old, new in self.ids.items():
            if len(old) >= _LONG:
                text = text.replace(old, new)
        return text
