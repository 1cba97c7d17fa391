# SPDX-License-Identifier: Apache-2.0
"""The interface of renderers of rounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, Protocol, TypeAlias

from ..attribution.attributed_changes import NameOf, RoundDiff

Format: TypeAlias = Literal["text", "json", "markdown"]


class Renderer(Protocol):
    """Renderer of rounds as lines without line ends. Call `head`, `round` for each, then `end`."""

    changed: bool
    """Whether any round so far had a change."""

    def head(self, title: str, details: Sequence[str] = ()) -> Iterator[str]:
        """Yield the title, and details such as the connections that saw the rounds."""
        ...

    def round(self, diff: RoundDiff, name_of: NameOf) -> Iterator[str]:
        """Yield the lines of one round, or store them for `end`."""
        ...

    def end(self) -> Iterator[str]:
        """Yield the stored lines, and a summary or legend."""
        ...
