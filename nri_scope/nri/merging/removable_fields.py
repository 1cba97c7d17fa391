# SPDX-License-Identifier: Apache-2.0
"""Merge steps for fields whose members plugins can also remove, by a ``-`` before the key.

They only occur in adjustments, so `merged` is never None.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import AdjustmentRefused

from .fields import MOUNTS, NAMESPACES, RDT, SYSCTL, AdjustableField
from .owners import Turn

REMOVAL = "-"
NOT_PASSED_ON = "NRI does not pass on the removal of the runtime's own value"
"""The reason why a removal has no effect; only values of earlier plugins are removed."""


@dataclass(frozen=True, slots=True)
class KeyedMap:
    """A map. A removal without a new value leaves the key in the request to the next plugin."""

    name: str
    field: AdjustableField
    empty: str | Message
    """The value of a removal's entry."""

    def merge(self, source: Message, current: Message, merged: Message | None, turn: Turn) -> None:
        """Claim and set each key, and add removals to the merged adjustment."""
        entries = getattr(source, self.name)
        if self.field in turn.rules.unknown:
            for key in sorted(entries):
                turn.supports(self.field, key if _removes(key) else entries[key], key)
            return
        if not entries:
            return
        removed = {key[1:] for key in entries if _removes(key)}
        current_map, result = getattr(current, self.name), getattr(merged, self.name)
        for key in sorted(entries):
            if _removes(key):
                continue
            self.before_setting(turn)
            if key in removed:
                turn.clear(self.field, key)
                _put(result, REMOVAL + key, self.empty)
                removed.discard(key)
            turn.claim(self.field, key)
            _put(current_map, key, entries[key])
            _put(result, key, entries[key])
        for key in sorted(removed):
            self.remove(key, result, turn)

    def before_setting(self, turn: Turn) -> None:
        """Run a check before a key is set; for subclasses."""

    def remove(self, key: str, result: Any, turn: Turn) -> None:
        """Add the removal of a key without a new value to the merged map `result`."""
        _put(result, REMOVAL + key, self.empty)


@dataclass(frozen=True, slots=True)
class Sysctls(KeyedMap):
    """The map of sysctls, with two bugs of NRI releases."""

    def before_setting(self, turn: Turn) -> None:
        """Raise AdjustmentRefused on NRI 0.11, where the runtime crashes."""
        if turn.rules.panics_on_sysctl:
            raise AdjustmentRefused("panic: assignment to entry in nil map")

    def remove(self, key: str, result: Any, turn: Turn) -> None:
        """Add the removal, among the annotations for some versions of NRI."""
        if turn.rules.sysctl_removals_as_annotations:
            turn.adjustment.annotations[REMOVAL + key] = ""
            reason = f"NRI {turn.rules.version} removes the annotation {key} instead"
            turn.drop(SYSCTL.path_of(key), REMOVAL + key, reason)
        else:
            KeyedMap.remove(self, key, result, turn)


def _put(entries: Any, key: str, value: object) -> None:
    if isinstance(value, Message):
        entries[key].CopyFrom(value)
    else:
        entries[key] = value


@dataclass(frozen=True, slots=True)
class KeyedList:
    """A list whose members have keys.

    Removed members are deleted from the next plugin's list and from the merged adjustment. Only for
    mounts, the removal itself is added to the merged adjustment. So the removal of a variable or a
    device that no earlier plugin set has no effect.
    """

    name: str
    field: AdjustableField
    key: Callable[[Any], str]
    """Returns the key of a member of the reply's list."""
    shown_key: Callable[[Any], str]
    """Returns the key of a member of the container's list."""
    shown_form: Callable[[Any], Any] | None = None
    """Converts a member to the form in the container's list; None if the forms are equal."""

    def merge(self, source: Message, current: Message, merged: Message | None, turn: Turn) -> None:
        """Remove, claim and add members."""
        entries = getattr(source, self.name)
        if not entries:
            return
        key_of = self.key
        removed = {key_of(entry)[1:]: entry for entry in entries if _removes(key_of(entry))}
        added = {key_of(entry): entry for entry in entries if not _removes(key_of(entry))}
        current_list, result = getattr(current, self.name), getattr(merged, self.name)
        deleted = _delete(result, key_of, removed)
        for key in deleted:
            turn.clear(self.field, key)
        _delete(current_list, self.shown_key, removed.keys() | added.keys())
        for entry in entries:
            if not _removes(key_of(entry)):
                turn.claim(self.field, key_of(entry))
                result.append(entry)
        for key in sorted(removed.keys() - added.keys()):
            if self.field is MOUNTS and turn.rules.passes_mount_removals:
                result.append(removed[key])
            elif key not in deleted:
                turn.drop(self.field.path_of(key), REMOVAL + key, NOT_PASSED_ON)
        # Keys in `added` are unique: adding one twice would have been a conflict.
        self._extend_shown(current_list, list(added.values()), result, turn)

    def _extend_shown(self, shown_list: Any, added: list[Any], result: Any, turn: Turn) -> None:
        if self.shown_form is not None:
            shown_list.extend(map(self.shown_form, added))
        elif added and turn.rules.shows_whole_lists:
            del shown_list[:]
            shown_list.extend(result)
            shown_list.append(added[-1])
        else:
            shown_list.extend(added)


def _removes(key: str) -> bool:
    return key.startswith(REMOVAL)


def _delete(entries: Any, key_of: Callable[[Any], str], keys: Collection[str]) -> dict[str, None]:
    """Delete the members with these keys; return the keys found, in reverse order of the list."""
    paths: dict[str, None] = {}
    if not keys:
        return paths
    everything = list(entries)
    remaining = [entry for entry in everything if key_of(entry) not in keys]
    if len(remaining) < len(everything):
        for key in map(key_of, reversed(everything)):
            if key in keys:
                paths[key] = None
        # Refilled, because each single deletion would move all later members.
        del entries[:]
        entries.extend(remaining)
    return paths


@dataclass(frozen=True, slots=True)
class Namespaces:
    """Namespaces, at most one of each type in the container. A removal is also claimed."""

    def merge(self, source: Message, current: Message, merged: Message | None, turn: Turn) -> None:
        """Claim each type, and add values and removals to the merged adjustment."""
        assert isinstance(source, api.LinuxContainerAdjustment)
        assert isinstance(current, api.LinuxContainer)
        assert isinstance(merged, api.LinuxContainerAdjustment)
        if not source.namespaces:
            return
        by_type = {namespace.type: namespace for namespace in current.namespaces}
        for namespace in source.namespaces:
            key = namespace.type.removeprefix(REMOVAL)
            if not turn.supports(NAMESPACES, namespace, key):
                continue
            turn.claim(NAMESPACES, key)
            if _removes(namespace.type):
                by_type.pop(key, None)
            else:
                by_type[key] = namespace
            merged.namespaces.append(namespace)
        remaining = list(by_type.values())
        del current.namespaces[:]
        current.namespaces.extend(remaining)


@dataclass(frozen=True, slots=True)
class Rdt:
    """The members of RDT, and a flag that removes all of them. See `HIDDEN_FIELDS`."""

    def merge(self, source: Message, current: Message, merged: Message | None, turn: Turn) -> None:
        """Remove, claim and set members. Any adjustment with a Linux part adds an ``rdt {}``."""
        assert isinstance(source, api.LinuxContainerAdjustment)
        assert isinstance(merged, api.LinuxContainerAdjustment)
        requested = source.rdt
        if RDT["clos_id"] in turn.rules.unknown:
            for descriptor, value in requested.ListFields():
                turn.supports(RDT.get(descriptor.name, RDT["clos_id"]), value)
            return
        merged.rdt.SetInParent()
        if requested.remove:
            for field in RDT.values():
                turn.clear(field)
            merged.rdt.CopyFrom(api.LinuxRdt(remove=True))
        for descriptor, value in requested.ListFields():
            if descriptor.name in RDT:
                turn.claim(RDT[descriptor.name])
                getattr(merged.rdt, descriptor.name).CopyFrom(value)
                merged.rdt.remove = False
