# SPDX-License-Identifier: Apache-2.0
"""What was replaced so far: each original with its token."""

from __future__ import annotations

from typing import NamedTuple


class Original(NamedTuple):
    """A value that was replaced."""

    value: str
    token: str
    rule: str
    is_searchable: bool
    """Whether the value, met anywhere, means a leak: it is neither so short nor so common that it
    may stand somewhere by chance, nor a name that the rules leave visible. Such a one is replaced
    wherever it occurs; any other is replaced in its place only.
    """
