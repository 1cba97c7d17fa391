# SPDX-License-Identifier: Apache-2.0
"""What became of one container in a replay."""

from __future__ import annotations

import json
import zlib
from typing import TypeAlias, cast

from nri_scope.oci import Change, Spec, changes

_Packed: TypeAlias = "bytes | Spec"
"""A spec, or its compressed JSON."""


class ContainerResult:
    """One container at the end of the replay, or of its life.

    A container that has ended is kept packed, in about a tenth of the memory.
    """

    __slots__ = ("_before", "_owners", "_spec", "created", "existed", "failure", "name")

    def __init__(
        self,
        name: str,
        before: Spec,
        spec: Spec,
        created: bool = True,
        *,
        failure: str = "",
        existed: bool = False,
    ) -> None:
        self.name = name
        """``namespace/pod/container``; with ``#2`` for the second of that name, and so on."""
        self.created = created
        """False where its creation failed here."""
        self.failure = failure
        """Why it failed, in the runtime's words."""
        self.existed = existed
        """It was there before the replay began."""
        self._before: _Packed = before
        self._spec: _Packed = spec
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
        """As the runtime would have made it without any plugin."""
        return _unpacked(self._before)

    @before.setter
    def before(self, spec: Spec) -> None:
        self._before = spec

    @property
    def spec(self) -> Spec:
        """As it is with all of them."""
        return _unpacked(self._spec)

    @spec.setter
    def spec(self, spec: Spec) -> None:
        self._spec = spec

    @property
    def changes(self) -> tuple[Change, ...]:
        """What the plugins together made of it."""
        if self._before is self._spec:
            return ()
        return changes(self.before, self.spec)

    @property
    def owners(self) -> dict[str, str]:
        """The plugin (``NN-name``) that changed each path last."""
        return dict(sorted(self._owners.items()))

    def owner(self, path: str) -> str:
        """The plugin that changed ``path``, or what is below it, last; "" where none did."""
        found = ""
        for owned, plugin in self._owners.items():
            if owned == path or owned.startswith(f"{path}/") or path.startswith(f"{owned}/"):
                found = plugin
        return found

    def own(self, path: str, plugin: str) -> None:
        """``plugin`` changed ``path`` now."""
        # Put last: the newest owner wins where paths are nested.
        self._owners.pop(path, None)
        self._owners[path] = plugin

    def pack(self) -> None:
        """Nothing happens to it any more; it can still be read."""
        if isinstance(self._before, bytes):
            return
        same = self._spec is self._before or self._spec == self._before
        self._before = _packed(self._before)
        self._spec = self._before if same else _packed(self.spec)


def _packed(spec: Spec) -> bytes:
    # Surrogates, which come of undecodable names, survive as escapes.
    return zlib.compress(json.dumps(spec).encode("ascii"), level=1)


def _unpacked(spec: _Packed) -> Spec:
    if isinstance(spec, bytes):
        return cast("Spec", json.loads(zlib.decompress(spec)))
    return spec
