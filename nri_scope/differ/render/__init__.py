# SPDX-License-Identifier: Apache-2.0
"""Render the differ's findings as text, Markdown and JSON.

In: rounds and comparisons. Out: lines, with untrusted values escaped. This package never searches
for evidence, and never writes its lines to a stream.
"""

from __future__ import annotations

from ..attribution.attributed_changes import NameOf as NameOf
from .document import JsonRenderer
from .markdown import MarkdownRenderer
from .renderer import Format as Format
from .renderer import Renderer as Renderer
from .text import TextRenderer


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
    match output_format:
        case "json":
            return JsonRenderer(live=live, quiet_unchanged=quiet_unchanged)
        case "markdown":
            return MarkdownRenderer(live=live, quiet_unchanged=quiet_unchanged)
    return TextRenderer(width=width, live=live, quiet_unchanged=quiet_unchanged)
