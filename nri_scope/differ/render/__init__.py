# SPDX-License-Identifier: Apache-2.0
"""Render the differ's results as text and JSON.

In: rounds. Out: lines, with untrusted values escaped. This package never searches for evidence, and
never writes its lines to a stream.
"""

from __future__ import annotations

from typing import TypeAlias

from ..attribution.attributed_changes import NameOf as NameOf
from .document import JsonRenderer
from .text import TextRenderer
from .values import Format as Format

Renderer: TypeAlias = JsonRenderer | TextRenderer
"""Renderer of rounds as lines without line ends. Call `head`, `round` for each, then `end`."""


def renderer(
    output_format: Format,
    *,
    width: int | None = None,
    live: bool = False,
    quiet_unchanged: bool = False,
) -> Renderer:
    """Return a renderer for `output_format`.

    ``width`` limits the columns of text; None for no limit. ``live``: render each round
    immediately; JSON is then one object per line.
    """
    if output_format == "json":
        return JsonRenderer(live=live, quiet_unchanged=quiet_unchanged)
    return TextRenderer(width=width, live=live, quiet_unchanged=quiet_unchanged)
