# SPDX-License-Identifier: Apache-2.0
"""Result of a replay for one container."""

from __future__ import annotations

import json
import zlib
from typing import TypeAlias, cast

from nri_scope.specs import Change, Spec, changes, path_of

_COMPRESSION_LEVEL = 1
"""Fastest level of zlib: half the default's time, for 10 % more memory."""

_Specs: TypeAlias = "tuple[Spec, Spec]"
"""Specs before and after."""


class ContainerResult:
    """Container at the end of the replay, or at its removal.

    A removed container is stored compressed, in about a tenth of the memory.
    """

    __slots__ = ("_content", "_owners", "created", "existed", "failure", "name")

    def __init__(self, name: str, before: Spec, spec: Spec) -> None:
        self.name = name
        """``namespace/pod/container``; with ``#2`` for the second of that name, and so on."""
        self.created = True
        """Whether its creation succeeded in this replay."""
        self.failure = ""
        """The runtime's error if the creation failed; else ""."""
        self.existed = False
        """Whether it existed before the replay began."""
        self._content: _Specs | bytes = before, spec
        """The two specs, or their compressed JSON after `pack`."""
        self._owners: dict[str, str] = {}

    def __repr__(self) -> str:
        failed = "" if self.created else ", created=False"
        return f"ContainerResult(name={self.name!r}{failed})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ContainerResult):
            return NotImplemented
        return (
            self.name == other.name
            and self.created == other.created
            and self.before == other.before
            and self.spec == other.spec
            and self.owners == other.owners
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def before(self) -> Spec:
        """The spec without the plugins' changes."""
        return self._specs()[0]

    @before.setter
    def before(self, spec: Spec) -> None:
        self._content = spec, self._specs()[1]

    @property
    def spec(self) -> Spec:
        """The spec with the plugins' changes."""
        return self._specs()[1]

    @spec.setter
    def spec(self, spec: Spec) -> None:
        self._content = self._specs()[0], spec

    @property
    def changes(self) -> tuple[Change, ...]:
        """The combined changes of all plugins."""
        before, spec = self._specs()
        return () if before is spec else changes(before, spec)

    @property
    def owners(self) -> dict[str, str]:
        """The plugin (``NN-name``) that changed each path last."""
        return dict(sorted(self._owners.items()))

    def owner(self, path: str) -> str:
        """Return the plugin that last changed ``path``, or anything below it; "" if none did.

        ``path`` may also be a label, such as ``env FOO``.
        """
        found = ""
        path = path_of(path) or path
        for owned, plugin in self._owners.items():
            if owned == path or owned.startswith(f"{path}/") or path.startswith(f"{owned}/"):
                found = plugin
        return found

    def own(self, path: str, plugin: str) -> None:
        """Record ``plugin`` as the owner of ``path``."""
        # The newest owner must be last: `owner` prefers it for nested paths.
        self._owners.pop(path, None)
        self._owners[path] = plugin

    def pack(self) -> None:
        """Compress the specs. They remain readable."""
        if not isinstance(self._content, bytes):
            before, spec = self._content
            # The two are similar, so the second takes almost no space. JSON escapes preserve
            # surrogates of undecodable names.
            text = json.dumps((spec,) if before == spec else (before, spec))
            self._content = zlib.compress(text.encode("ascii"), _COMPRESSION_LEVEL)

    def _specs(self) -> _Specs:
        if isinstance(self._content, bytes):
            specs = cast("list[Spec]", json.loads(zlib.decompress(self._content)))
            return specs[0], specs[-1]
        return self._content
