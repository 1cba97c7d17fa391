# SPDX-License-Identifier: Apache-2.0
"""What the shown recording was made from, if it is temporary."""

from __future__ import annotations

from typing import NamedTuple


class Source(NamedTuple):
    """What a temporary recording was made from."""

    name: str
    """As the title shows it."""
    command: tuple[str, ...]
    """Words of the command that shows it again."""
