# SPDX-License-Identifier: Apache-2.0
"""For whom tokens are made: equal originals have equal tokens in one scope, and nowhere else.

Who can write a value into one container sees its token. Where that were the token of the same value
in another container, guesses could be tried out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import NamedTuple

from nri_scope.recording.cache import RecentlyUsed

from . import tokens

_REMEMBERED = 10_000
"""Containers of which it is known whose they are."""


class Scope(NamedTuple):
    """Whose a text is."""

    name: str
    """For `Tokens.scope`."""
    pod: str
    """Whose names stay visible in it."""


NAMES = Scope(tokens.NAMES, "names")
"""Names and ids, wherever they are met."""


class Scopes:
    """Finds whose a part of a recording is."""

    def __init__(self, linked: Mapping[str, str] | None = None) -> None:
        """``linked``: what containers and pods, by their ids, are called instead; those of one
        name are one.
        """
        self._linked = linked or {}
        self._containers: RecentlyUsed[str, Scope] = RecentlyUsed(_REMEMBERED)

    def pod(self, pod: str) -> Scope:
        """A pod, without its containers."""
        return Scope(self._name("pod", pod), f"pod {pod}")

    def container(self, container: str, pod: str = "", name: str = "") -> Scope:
        """A container; ``pod``, its pod's id, and ``name`` are remembered for when only the id is
        told.
        """
        if not pod:
            known = self._containers.get(container)
            if known is not None:
                return known
        # iSulad has no id yet when a container is created, and another name for it afterwards.
        is_isulad = name.startswith("k8s_")
        if (is_isulad or not container) and pod and name:
            bare = name.split("_")[1] if is_isulad else name
            whose = f"container {bare} of {self._name('pod', pod)}"
        else:
            whose = self._name("container", container)
        scope = Scope(whose, f"pod {pod}" if pod else f"container {container}")
        if container and pod:
            self._containers.put(container, scope)
        return scope

    def content(self, place: str, content: bytes) -> Scope:
        """What is about no container: only the same content again is of the same scope."""
        name = f"{place} {hashlib.sha256(content).hexdigest()}"
        return Scope(name, name)

    def _name(self, kind: str, of: str) -> str:
        linked = self._linked.get(of)
        return f"{kind} {of}" if linked is None else f"{kind}s called {linked}"
