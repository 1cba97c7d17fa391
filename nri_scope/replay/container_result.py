# SPDX-License-Identifier: Apache-2.0
"""The result of a replay for one container."""

from __future__ import annotations

import json
import zlib
from typing import TypeAlias, cast

from nri_scope.oci import Change, Spec, changes

_FAST = 1
"""zlib's fastest level: half of the time, for a tenth more memory."""

_Specs: TypeAlias = "tuple[Spec, Spec]"
"""Before and after."""


class ContainerResult:
    """One container at the end of the replay, or of its life.

    A container that has ended is kept packed, in about a tenth of the memory.
    """

    __slots__ = ("_kept", "_owners", "created", "existed", "failure", "name")

    def __init__(self, name: str, before: Spec, spec: Spec) -> None:
        self.name = name
        """``namespace/pod/container``; with ``#2`` for the second of that name, and so on."""
        self.created = True
        """False where its creation failed here."""
        self.failure = ""
        """Why it failed, in the runtime's words."""
        self.existed = False
        """It was there before the replay began."""
        self._kept: _Specs | bytes = before, spec
        """Packed: the compressed JSON of both."""
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
        """The spec as the runtime would have made it without any plugin."""
        return self._specs()[0]

    @before.setter
    def before(self, spec: Spec) -> None:
        self._kept = spec, self._specs()[1]

    @property
    def spec(self) -> Spec:
        """The spec with all plugins."""
        return self._specs()[1]

    @spec.setter
    def spec(self, spec: Spec) -> None:
        self._kept = self._specs()[0], spec

    @property
    def changes(self) -> tuple[Change, ...]:
        """The changes that all plugins made together."""
        before, spec = self._specs()
        return () if before is spec else changes(before, spec)

    @property
    def owners(self) -> dict[str, str]:
        """The plugin (``NN-name``) that changed each path last."""
        return dict(sorted(self._owners.items()))

    def owner(self, path: str) -> str:
        """Return the plugin that last changed ``path``, or anything below it; "" where none did."""
        found = ""
        for owned, plugin in self._owners.items():
            if owned == path or owned.startswith(f"{path}/") or path.startswith(f"{owned}/"):
                found = plugin
        return found

    def own(self, path: str, plugin: str) -> None:
        """Note that ``plugin`` changed ``path`` now."""
        # Put last: the newest owner wins where paths are nested.
        self._owners.pop(path, None)
        self._owners[path] = plugin

    def pack(self) -> None:
        """Pack it, when its changes are complete; it can still be read."""
        if not isinstance(self._kept, bytes):
            before, spec = self._kept
            # Both are much the same, so that the second one takes next to nothing. Surrogates,
            # which come of undecodable names, survive as escapes.
            text = json.dumps((spec,) if before == spec else (before, spec))
            self._kept = zlib.compress(text.encode("ascii"), _FAST)

    def _specs(self) -> _Specs:
        if isinstance(self._kept, bytes):
            specs = cast("list[Spec]", json.loads(zlib.decompress(self._kept)))
            return specs[0], specs[-1]
        return self._kept
