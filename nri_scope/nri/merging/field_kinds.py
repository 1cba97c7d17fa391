# SPDX-License-Identifier: Apache-2.0
"""Merge steps for the kinds of fields.

A step copies one field of a reply's message (``source``) to the corresponding messages in the
request (``shown``: the container as the next plugin sees it) and in the merged adjustment
(``merged``). All steps claim a value before setting it, and treat a key with a leading ``-`` as a
removal.

Upstream iterates over maps in Go's random order; here, keys are in alphabetical order, and
namespaces in the order of the reply. Where upstream's result is random (the order of namespaces and
of removed mounts, and which of several conflicts within one map is reported), the result here is
always the same one of the possible results.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api

from .fields import ARGS, Field
from .reply_context import Turn


class MergeStep(Protocol):
    """The merging of one field."""

    def merge(self, source: Message, shown: Message, merged: Message | None, turn: Turn) -> None:
        """Merge the field. Raises AdjustmentRefused. `merged` is None in an update."""


def _targets(name: str, *messages: Message | None) -> list[Any]:
    return [getattr(message, name) for message in messages if message is not None]


@dataclass(frozen=True, slots=True)
class Whole:
    """A field that one plugin sets as a whole: a message, or a string that is not empty."""

    name: str
    field: Field
    hidden: bool = False
    """Whether the next plugins do not see the field."""

    def merge(self, source: Message, shown: Message, merged: Message | None, turn: Turn) -> None:
        """Claim the field and replace it."""
        value = getattr(source, self.name)
        if not (value if isinstance(value, str) else source.HasField(self.name)):
            return
        if not turn.supports(self.field, value):
            return
        turn.claim(self.field)
        _set(self.name, value, None if self.hidden else shown, merged)


def _set(name: str, value: Any, *messages: Message | None) -> None:
    for message in messages:
        if message is None:
            continue
        if isinstance(value, str):
            setattr(message, name, value)
        else:
            getattr(message, name).CopyFrom(value)


@dataclass(frozen=True, slots=True)
class Group:
    """A message whose members are claimed individually (memory, cpu)."""

    name: str
    members: dict[str, Field]

    def merge(self, source: Message, shown: Message, merged: Message | None, turn: Turn) -> None:
        """Claim and replace each member that is set, in the order of their numbers."""
        if not source.HasField(self.name):
            return
        targets = _targets(self.name, shown, merged)
        for descriptor, value in getattr(source, self.name).ListFields():
            turn.claim(self.members[descriptor.name])
            _set(descriptor.name, value, *targets)


@dataclass(frozen=True, slots=True)
class Appended:
    """A list to which plugins append members; none are removed."""

    name: str
    field: Field
    key: Callable[[Any], str] | None = None
    """Returns a member's key; None if members have no keys and are not claimed."""
    hidden: bool = False
    """Whether the next plugins do not see the field."""

    def merge(self, source: Message, shown: Message, merged: Message | None, turn: Turn) -> None:
        """Claim and append each member."""
        entries = getattr(source, self.name)
        if not entries:
            return
        targets = _targets(self.name, None if self.hidden else shown, merged)
        for entry in entries:
            key = None if self.key is None else self.key(entry)
            if not turn.supports(self.field, entry, key):
                continue
            if key is not None:
                turn.claim(self.field, key)
            for target in targets:
                target.append(entry)


@dataclass(frozen=True, slots=True)
class AppendedMap:
    """A map to which plugins add keys; none are removed."""

    name: str
    field: Field

    def merge(self, source: Message, shown: Message, merged: Message | None, turn: Turn) -> None:
        """Claim and set each key."""
        entries = getattr(source, self.name)
        if not entries:
            return
        targets = _targets(self.name, shown, merged)
        for key in sorted(entries):
            turn.claim(self.field, key)
            for target in targets:
                target[key] = entries[key]


@dataclass(frozen=True, slots=True)
class Args:
    """The command line. With an empty first argument, it replaces another plugin's command line."""

    def merge(self, source: Message, shown: Message, merged: Message | None, turn: Turn) -> None:
        """Claim and replace the command line."""
        assert isinstance(source, api.ContainerAdjustment)
        args = list(source.args)
        if not args or not turn.supports(ARGS, " ".join(args)):
            return
        if not args[0]:
            turn.clear(ARGS)
            del args[0]
        turn.claim(ARGS)
        for target in _targets("args", shown, merged):
            target[:] = args


@dataclass(frozen=True, slots=True)
class Hooks:
    """Hooks of all kinds; they are appended to earlier hooks and never conflict."""

    def merge(self, source: Message, shown: Message, merged: Message | None, turn: Turn) -> None:
        """Append the hooks, and add the plugin to their owners."""
        assert isinstance(source, api.ContainerAdjustment)
        requested = source.hooks.ListFields()
        for descriptor, hooks in requested:
            for target in _targets("hooks", shown, merged):
                getattr(target, descriptor.name).extend(hooks)
        if requested:
            turn.owners.join_hooks(turn.plugin)
