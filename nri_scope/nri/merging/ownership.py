# SPDX-License-Identifier: Apache-2.0
"""The owners of the fields of every container that one request touches."""

from __future__ import annotations

from nri_scope._gen.nri import api_pb2 as api

from .owners import Owners
from .version_rules import Rules


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
        """Return the message that a validator gets; a container without an owned field
        is left out.
        """
        message = api.OwningPlugins()
        for container_id, owners in self._by_id.items():
            if owners:
                owners.write_to(message.owners[container_id])
        return message
