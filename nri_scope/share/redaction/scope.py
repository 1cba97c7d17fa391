# SPDX-License-Identifier: Apache-2.0
"""Scopes of tokens: equal originals have equal tokens in one scope, different ones in others.

A user who can write a value into one container sees its token. If the same value had the same token
in another container, the user could verify guesses about values of that container.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import NamedTuple

from nri_scope._gen.nri.api_pb2 import Container
from nri_scope.nri.request_subject import name_of_container
from nri_scope.recording.cache import RecentlyUsed

from . import tokens

_MAX_CONTAINERS = 10_000
"""Number of containers whose pods are remembered."""


class Scope(NamedTuple):
    """The unit to which a text belongs for the choice of tokens."""

    name: str
    """The value for `Tokens.scope`."""
    pod: str
    """The pod whose visible names may be shown; the text's own unit if its pod is unknown."""


NAMES_SCOPE = Scope(tokens.NAMES_SCOPE, "names")
"""The scope of all names and ids."""


class Scopes:
    """Finds the scopes of a recording's parts."""

    def __init__(self, linked: Mapping[str, str] | None = None) -> None:
        """``linked``: names for containers and pods by id; units with one name share a scope."""
        self._linked = linked or {}
        self._containers: RecentlyUsed[str, Scope] = RecentlyUsed(_MAX_CONTAINERS)

    def pod(self, pod: str) -> Scope:
        """Return the scope of a pod without its containers."""
        return Scope(self._name("pod", pod), f"pod {pod}")

    def container(self, container: str, pod: str = "", name: str = "") -> Scope:
        """Return the scope of a container; its ``pod`` (an id) and ``name`` are remembered for
        texts that contain only the container's id.
        """
        if not pod:
            known = self._containers.get(container)
            if known is not None:
                return known
        # iSulad has no id when a container is being created, and changes the name afterwards.
        bare = name_of_container(Container(name=name))
        if (bare != name or not container) and pod and name:
            unit = f"container {bare} of {self._name('pod', pod)}"
        else:
            unit = self._name("container", container)
        scope = Scope(unit, f"pod {pod}" if pod else f"container {container}")
        if container and pod:
            self._containers.put(container, scope)
        return scope

    def content(self, place: str, content: bytes) -> Scope:
        """Return a scope for text about no container; only identical content shares it."""
        name = f"{place} {hashlib.sha256(content).hexdigest()}"
        return Scope(name, name)

    def _name(self, kind: str, object_id: str) -> str:
        linked = self._linked.get(object_id)
        return f"{kind} {object_id}" if linked is None else f"{kind}s called {linked}"
