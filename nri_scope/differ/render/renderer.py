# SPDX-License-Identifier: Apache-2.0
"""What a renderer of rounds does, whatever it makes of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, Protocol, TypeAlias

from nri_scope.differ.model import RoundDiff

Format: TypeAlias = Literal["text", "json", "markdown"]

NameOf: TypeAlias = Callable[[str], str]
"""From a container's id to ``ns/pod/container``, or to as much of it as is known."""


class Renderer(Protocol):
    """Makes lines, without line ends, of rounds: first `head`, then `round` by `round`, `end`."""

    changed: bool
    """Whether any round so far changed something."""

    def head(self, title: str) -> Iterator[str]:
        """What is shown and who saw it, in one sentence."""
        ...

    def round(self, diff: RoundDiff, name_of: NameOf) -> Iterator[str]:
        """One round; may give its lines at the `end` only."""
        ...

    def end(self) -> Iterator[str]:
        """What is left to be said."""
        ...
