# SPDX-License-Identifier: Apache-2.0
"""Owners of fields: the plugin that set a field of a container owns it."""

from __future__ import annotations

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import AdjustmentRefused

from .fields import HOOKS, Field
from .version_rules import Rules

_REMOVED = "-"
"""Prefix of an owner's name if the plugin removed the value and did not set it again."""


class Owners:
    """The owners of one container's fields. The key of a field without members is None."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._plugins: dict[tuple[int, str | None], str] = {}

    def claim(self, field: Field, plugin: str, key: str | None = None) -> None:
        """Make `plugin` the owner. Raises AdjustmentRefused if the field has an owner.

        This includes the plugin itself: setting a field twice in one reply is a conflict.
        """
        other = self._plugins.get((field.number, key))
        if other is not None and other != _REMOVED + plugin:
            raise AdjustmentRefused(self._conflict(field, plugin, other, key))
        self._plugins[field.number, key] = plugin

    def clear(self, field: Field, plugin: str, key: str | None = None) -> None:
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

    def _conflict(self, field: Field, plugin: str, other: str, key: str | None) -> str:
        if self._rules.names_fields:
            # Upstream's text has the space before the key even if there is no key.
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
