# SPDX-License-Identifier: Apache-2.0
"""Context for merging one plugin's reply: its claims of fields, and dropped requests."""

from __future__ import annotations

from dataclasses import dataclass

from google.protobuf import text_format
from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api

from .fields import Field
from .owners import Owners
from .version_rules import Rules

LONGEST = 200
"""Maximum length of a dropped value's text: a reply may contain a seccomp policy of 4 MiB."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """A plugin's request that this runtime ignores without an error."""

    plugin: str
    container_id: str
    """The container to be changed; "" if the reply names none."""
    path: str
    """JSON pointer into the OCI spec, as in ``nri.changes``; ``/evict`` for an eviction."""
    value: str
    """The value as text on one line, truncated to ``LONGEST`` characters."""
    reason: str


@dataclass(slots=True)
class Turn:
    """The merging of a plugin's requests for one container."""

    rules: Rules
    plugin: str
    container_id: str
    owners: Owners
    dropped: list[Dropped]
    adjustment: api.ContainerAdjustment
    """The whole merged adjustment; an empty one in an update."""

    def claim(self, field: Field, key: str | None = None) -> None:
        """Claim a field. Raises AdjustmentRefused if it has an owner."""
        self.owners.claim(field, self.plugin, key)

    def clear(self, field: Field, key: str | None = None) -> None:
        """Remove a field's owner."""
        self.owners.clear(field, self.plugin, key)

    def drop(self, path: str, value: object, reason: str) -> None:
        """Record that `value` was dropped."""
        dropped = Dropped(self.plugin, self.container_id, path, text_of(value), reason)
        self.dropped.append(dropped)

    def supports(self, field: Field, value: object, key: str | None = None) -> bool:
        """Return whether this runtime's NRI version has the field; if not, drop `value`."""
        if field not in self.rules.unknown:
            return True
        version = self.rules.version
        self.drop(field.path_of(key), value, f"NRI {version} has no such field")
        return False


def text_of(value: object) -> str:
    """Return a value as text on one line; truncated text ends with an ellipsis."""
    if isinstance(value, Message):
        value = text_format.MessageToString(value, as_one_line=True)
    text = str(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
