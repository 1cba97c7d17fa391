# SPDX-License-Identifier: Apache-2.0
"""Owners of fields: a field of a container belongs to the plugin that set it."""

from __future__ import annotations

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import AdjustmentRefused

from .fields import HOOKS, Field
from .version_rules import Rules

_REMOVED = "-"
"""Prefix of the name of an owner that removed the value and did not set it again."""


class Owners:
    """The owners of one container's fields; a field that is set as a whole has the key None."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._plugins: dict[tuple[int, str | None], str] = {}

    def claim(self, field: Field, plugin: str, key: str | None = None) -> None:
        """Make `plugin` the owner. Raises AdjustmentRefused if the field is taken.

        The same plugin may have taken it: setting a field twice in a reply is a conflict too.
        """
        other = self._plugins.get((field.number, key))
        if other is not None and other != _REMOVED + plugin:
            raise AdjustmentRefused(self._conflict(field, plugin, other, key))
        self._plugins[field.number, key] = plugin

    def clear(self, field: Field, plugin: str, key: str | None = None) -> None:
        """Release the field from its owner, for `plugin` to set it."""
        if self._rules.clearing_owns:
            self._plugins[field.number, key] = _REMOVED + plugin
        else:
            self._plugins.pop((field.number, key), None)

    def join_hooks(self, plugin: str) -> None:
        """Add `plugin` to the owners of hooks, which are joined by commas and never conflict.

        Runtimes before 0.10 do not keep these owners; keeping them is harmless and informative.
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
        """Fill in the owners in the message that a validator gets."""
        for (number, key), plugin in self._plugins.items():
            if key is None:
                message.simple[number] = plugin
            else:
                message.compound[number].owners[key] = plugin

    def _conflict(self, field: Field, plugin: str, other: str, key: str | None) -> str:
        if self._rules.names_fields:
            # For a simple field, the name is followed by the blank that would precede a key.
            subject = f"{field.name} {key or ''}"
        else:
            subject = field.noun if key is None else f"{field.noun} {key}"
        both = f"{quoted(plugin)} and {quoted(other.removeprefix(_REMOVED))}"
        return f"plugins {both} both tried to set {subject}"


class Ownership:
    """Owners by container id."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._by_id: dict[str, Owners] = {}

    def of(self, container_id: str) -> Owners:
        """Return the owners of one container."""
        owners = self._by_id.get(container_id)
        if owners is None:
            owners = self._by_id[container_id] = Owners(self._rules)
        return owners

    def message(self) -> api.OwningPlugins:
        """Return the message that a validator gets, without containers that have no owned field."""
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
    """Quote as Go's ``%q`` does: in double quotes, with every unprintable character escaped."""
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
