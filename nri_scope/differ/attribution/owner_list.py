# SPDX-License-Identifier: Apache-2.0
"""The runtime's own list of the owners of fields, which it sends to validators."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.events import Event
from nri_scope.nri.changes import path_of_field, pointer
from nri_scope.nri.versions import V0_10, V0_12, NriVersion

from .observed_round import ConnectionPart

_COUNT = re.compile(r"#\d+$")
_LIMIT, _SWAP = "/linux/resources/memory/limit", "/linux/resources/memory/swap"


@dataclass(frozen=True, slots=True)
class OwnerList:
    """The owners of fields in one ValidateContainerAdjustment request."""

    event: Event
    """The event of the request."""
    request: api.ValidateContainerAdjustmentRequest
    version: NriVersion | None
    _by_container: dict[str, dict[str, tuple[str, ...]]] = field(default_factory=dict)

    @classmethod
    def of(cls, parts: Iterable[ConnectionPart]) -> OwnerList | None:
        """Return the list in the first request that can be decoded; None for none."""
        for part in parts:
            request = part.request_as(api.ValidateContainerAdjustmentRequest)
            if request is not None:
                return cls(part.event, request, part.version)
        return None

    @property
    def plugins(self) -> tuple[str, ...]:
        """All plugins of the chain (``NN-name``), in call order."""
        return tuple(f"{each.index}-{each.name}" for each in self.request.plugins)

    def owners_of(self, container: str, path: str) -> tuple[str, ...]:
        """Return the last owner of the value at `path` or of its nearest parent; () for none.

        Hooks have several owners, as plugins append to them.
        """
        paths = self._paths(container)
        candidate = path
        while candidate:
            # A second member with the same key has that key's owner.
            owners = paths.get(candidate) or paths.get(_COUNT.sub("", candidate))
            if owners is not None:
                return owners
            candidate = candidate.rpartition("/")[0]
        # The runtime sets the swap limit to the memory limit.
        return paths.get(_LIMIT, ()) if path == _SWAP else ()

    def _paths(self, container: str) -> dict[str, tuple[str, ...]]:
        known = self._by_container.get(container)
        if known is None:
            known = _paths(self.request.owners.owners.get(container))
            if self.version is None or V0_10 <= self.version < V0_12:
                # These versions keep only the last owner of hooks, though plugins append.
                known.pop("/hooks", None)
            self._by_container[container] = known
        return known


def _paths(owners: api.FieldOwners | None) -> dict[str, tuple[str, ...]]:
    if owners is None:
        return {}
    names_of = {path_of_field(number): _names(owner) for number, owner in owners.simple.items()}
    for number, compound in owners.compound.items():
        base = path_of_field(number)
        for key, owner in compound.owners.items():
            # The name of a variable ends at the first "=", also in its OCI path.
            name = key.partition("=")[0] if number == api.Env else key
            path = pointer(base, name)
            names_of[path] = tuple(dict.fromkeys((*names_of.get(path, ()), *_names(owner))))
    return names_of


def _names(text: str) -> tuple[str, ...]:
    # Owners of hooks are separated by commas; the owner of a removal has a leading dash.
    return tuple(dict.fromkeys(name.removeprefix("-") for name in text.split(",") if name))
