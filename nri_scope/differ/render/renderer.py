# SPDX-License-Identifier: Apache-2.0
"""What a renderer of rounds does, whatever it makes of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, Protocol, TypeAlias

from ..attribution.model import NameOf, RoundDiff

Format: TypeAlias = Literal["text", "json", "markdown"]


class Renderer(Protocol):
    """Makes lines, without line ends, of rounds: first `head`, then `round` by `round`, `end`."""

    changed: bool
    """Whether any round so far changed something."""

    def head(self, title: str, details: Sequence[str] = ()) -> Iterator[str]:
        """What is shown, and in words who saw it."""
        ...

    def round(self, diff: RoundDiff, name_of: NameOf) -> Iterator[str]:
        """One round; may give its lines at the `end` only."""
        ...

    def end(self) -> Iterator[str]:
        """What is left to be said."""
        ...
