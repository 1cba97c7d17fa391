# SPDX-License-Identifier: Apache-2.0
"""The kinds of fields, and how each is merged.

A step takes one field of a reply's message (``source``) and puts it into the messages at the same
place in the request (``shown``: the container as the next plugin sees it) and in the merged
adjustment (``merged``). All steps claim a value before setting it, and treat a key with a leading
``-`` as a removal.

Upstream walks its maps in Go's random order; here keys go in alphabetical order, and namespaces
keep the order in which they came. So if upstream's outcome is random (the order of namespaces and
of removed mounts; which of several conflicts within one map is reported), ours is one of the
possible ones, always the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api

from .fields import ARGS, Field
from .turn import Turn


class MergeStep(Protocol):
    """The merging of one field."""

    def merge(self, source: Message, shown: Message, merged: Message | None, turn: Turn) -> None:
        """Merge the field. Raises AdjustmentRefused at a conflict. `merged`: None in an update."""


def _targets(name: str, *messages: Message | None) -> list[Any]:
    return [getattr(message, name) for message in messages if message is not None]


@dataclass(frozen=True, slots=True)
class Whole:
    """A field that one plugin sets as a whole: a message or, if not empty, a string."""

    name: str
    field: Field
    hidden: bool = False
    """Whether it is hidden from the next plugins."""

    def merge(self, source: Message, shown: Message, merged: Message | None, turn: Turn) -> None:
        """Claim the field and replace it."""
        value = getattr(source, self.name)
        if not (value if isinstance(value, str) else source.HasField(self.name)):
            return
        if not turn.knows(self.field, value):
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
    """A message whose members are claimed one by one (memory, cpu)."""

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
    """A list to which plugins add members, each with its own key; none are removed."""

    name: str
    field: Field
    key: Callable[[Any], str] | None = None
    """A member's key; None if members have no keys and are not claimed."""
    hidden: bool = False

    def merge(self, source: Message, shown: Message, merged: Message | None, turn: Turn) -> None:
        """Claim and add each member."""
        entries = getattr(source, self.name)
        if not entries:
            return
        targets = _targets(self.name, None if self.hidden else shown, merged)
        for entry in entries:
            key = None if self.key is None else self.key(entry)
            if not turn.knows(self.field, entry, key):
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
    """The command line. An empty first argument takes it from the plugin that set it."""

    def merge(self, source: Message, shown: Message, merged: Message | None, turn: Turn) -> None:
        """Claim and replace the command line."""
        assert isinstance(source, api.ContainerAdjustment)
        args = list(source.args)
        if not args or not turn.knows(ARGS, " ".join(args)):
            return
        if not args[0]:
            turn.clear(ARGS)
            del args[0]
        turn.claim(ARGS)
        for target in _targets("args", shown, merged):
            target[:] = args


@dataclass(frozen=True, slots=True)
class Hooks:
    """Hooks of all kinds: added to earlier ones, never in conflict."""

    def merge(self, source: Message, shown: Message, merged: Message | None, turn: Turn) -> None:
        """Add the hooks, and join their owners."""
        assert isinstance(source, api.ContainerAdjustment)
        wanted = source.hooks.ListFields()
        for descriptor, hooks in wanted:
            for target in _targets("hooks", shown, merged):
                getattr(target, descriptor.name).extend(hooks)
        if wanted:
            turn.owners.join_hooks(turn.plugin)
