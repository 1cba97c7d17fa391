# SPDX-License-Identifier: Apache-2.0
"""What to replace and what to leave, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules of one redaction, in the order in which they are asked."""

    DEFAULT: ClassVar[Rules]

    @classmethod
    def read(cls, path: Path) -> Rules:
        """The default rules as the file ``path`` changes them.

        Raises UsageError, which names the file, the line and the reason.
        """
        raise NotImplementedError


Rules.DEFAULT = Rules()
