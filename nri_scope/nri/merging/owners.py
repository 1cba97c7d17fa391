# SPDX-License-Identifier: Apache-2.0
"""Context for merging one plugin's reply: version rules, owners of fields, dropped requests.

The plugin that set a field of a container owns it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from google.protobuf import text_format
from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import FieldConflict

from ..versions import V0_7, V0_10, V0_11, V0_12, NriVersion, known_version
from .fields import FIELDS, HOOKS, AdjustableField

V0_3 = known_version("0.3.0")
V0_12_3 = known_version("0.12.3")


@dataclass(frozen=True, slots=True)
class MergingRules:
    """The merging rules of a runtime on one NRI version."""

    version: NriVersion | None
    """None for the newest."""
    unknown: frozenset[AdjustableField]
    """Fields that this version's API does not have."""
    shows_whole_lists: bool
    """Whether (before 0.3) the next plugin sees only the mounts or devices set by earlier plugins,
    the last of them twice, instead of all mounts or devices.
    """
    passes_mount_removals: bool
    """Whether (from 0.7) plugins' removals of mounts are in the merged adjustment."""
    names_fields: bool
    """Whether (from 0.10) a conflict message has the field's name in the enum Field."""
    clearing_owns: bool
    """Whether (from 0.10) a plugin owns a field that it removed, so that a later plugin must remove
    the field again to set it. Before 0.10, a removal only removed the owner.
    """
    loses_hook_owners: bool
    """Whether (0.10 and 0.11) only the last owner of hooks is recorded instead of all, and marked
    as if it had removed them.
    """
    panics_on_sysctl: bool
    """Whether (0.11) sysctls are written to a nil map, which crashes the runtime."""
    sysctl_removals_as_annotations: bool
    """Whether (0.11 to 0.12.2) the removal of a sysctl is added to the annotations: the sysctl
    stays, and an annotation of the same name is removed.
    """


@lru_cache(maxsize=64)
def rules_of(version: NriVersion | None) -> MergingRules:
    """Return the rules of an NRI version; None for the newest."""

    def before(limit: NriVersion) -> bool:
        return version is not None and version < limit

    return MergingRules(
        version=version,
        unknown=frozenset(field for field in FIELDS if before(known_version(field.since))),
        shows_whole_lists=before(V0_3),
        passes_mount_removals=not before(V0_7),
        names_fields=not before(V0_10),
        clearing_owns=not before(V0_10),
        loses_hook_owners=before(V0_12) and not before(V0_10),
        panics_on_sysctl=before(V0_12) and not before(V0_11),
        sysctl_removals_as_annotations=before(V0_12_3) and not before(V0_11),
    )


_REMOVED = "-"
"""Prefix of an owner's name if the plugin removed the value and did not set it again."""


class Owners:
    """The owners of one container's fields. The key of a field without members is None."""

    def __init__(self, rules: MergingRules) -> None:
        self._rules = rules
        self._plugins: dict[tuple[int, str | None], str] = {}

    def claim(self, field: AdjustableField, plugin: str, key: str | None = None) -> None:
        """Make `plugin` the owner. Raises FieldConflict if the field has an owner.

        This includes the plugin itself: setting a field twice in one reply is a conflict.
        """
        owner = self._plugins.get((field.number, key))
        if owner is not None and owner != _REMOVED + plugin:
            raise self._conflict(field, plugin, owner.removeprefix(_REMOVED), key)
        self._plugins[field.number, key] = plugin

    def clear(self, field: AdjustableField, plugin: str, key: str | None = None) -> None:
        """Remove the field's owner, so that `plugin` can set the field."""
        if self._rules.clearing_owns:
            self._plugins[field.number, key] = _REMOVED + plugin
        else:
            self._plugins.pop((field.number, key), None)

    def join_hooks(self, plugin: str) -> None:
        """Add `plugin` to the owners of hooks, which are joined by commas and never conflict.

        Runtimes before NRI 0.10 do not record these owners; recording them here is harmless.
        """
        before = self._plugins.get((HOOKS.number, None))
        if before is None:
            owner = plugin
        elif self._rules.loses_hook_owners:
            owner = _REMOVED + plugin
        else:
            owner = f"{before},{plugin}"
        self._plugins[HOOKS.number, None] = owner

    def __bool__(self) -> bool:
        return bool(self._plugins)

    def write_to(self, message: api.FieldOwners) -> None:
        """Set the owners in the message for validators."""
        for (number, key), plugin in self._plugins.items():
            if key is None:
                message.simple[number] = plugin
            else:
                message.compound[number].owners[key] = plugin

    def _conflict(
        self, field: AdjustableField, plugin: str, owner: str, key: str | None
    ) -> FieldConflict:
        if self._rules.names_fields:
            # Upstream's text has the space before the key even if there is no key.
            subject = f"{field.name} {key or ''}"
        else:
            subject = field.noun if key is None else f"{field.noun} {key}"
        problem = f"plugins {quoted(plugin)} and {quoted(owner)} both tried to set {subject}"
        return FieldConflict(problem, plugin, owner, subject)


class Ownership:
    """Owners by container id."""

    def __init__(self, rules: MergingRules) -> None:
        self._rules = rules
        self._by_id: dict[str, Owners] = {}

    def of(self, container_id: str) -> Owners:
        """Return the owners of one container."""
        owners = self._by_id.get(container_id)
        if owners is None:
            owners = self._by_id[container_id] = Owners(self._rules)
        return owners

    def message(self) -> api.OwningPlugins:
        """Return the message for validators, without containers that have no owned fields."""
        message = api.OwningPlugins()
        for container_id, owners in self._by_id.items():
            if owners:
                owners.write_to(message.owners[container_id])
        return message


_NAMED = {
    '"': r"\"",
    "\\": r"\\",
    "\a": r"\a",
    "\b": r"\b",
    "\f": r"\f",
    "\n": r"\n",
    "\r": r"\r",
    "\t": r"\t",
    "\v": r"\v",
}


def quoted(text: str) -> str:
    """Quote text as Go's ``%q`` does: in double quotes, with unprintable characters escaped."""
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(character: str) -> str:
    if named := _NAMED.get(character):
        return named
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


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

    rules: MergingRules
    plugin: str
    container_id: str
    owners: Owners
    dropped: list[Dropped]
    adjustment: api.ContainerAdjustment
    """The whole merged adjustment; an empty one in an update."""

    def claim(self, field: AdjustableField, key: str | None = None) -> None:
        """Claim a field. Raises FieldConflict if it has an owner."""
        self.owners.claim(field, self.plugin, key)

    def clear(self, field: AdjustableField, key: str | None = None) -> None:
        """Remove a field's owner."""
        self.owners.clear(field, self.plugin, key)

    def drop(self, path: str, value: object, reason: str) -> None:
        """Record that `value` was dropped."""
        dropped = Dropped(self.plugin, self.container_id, path, text_of(value), reason)
        self.dropped.append(dropped)

    def supports(self, field: AdjustableField, value: object, key: str | None = None) -> bool:
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
