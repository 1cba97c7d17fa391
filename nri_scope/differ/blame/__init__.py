# SPDX-License-Identifier: Apache-2.0
"""A container's spec line by line, with who put each line there and what was there before."""

from .document import document
from .folding import View, view
from .markdown import markdown
from .owned_lines import Line, lines
from .path_history import Past, asked_for, past, resolve
from .path_history_text import past_body
from .text import body, head, legend

__all__ = [
    "Line",
    "Past",
    "View",
    "asked_for",
    "body",
    "document",
    "head",
    "legend",
    "lines",
    "markdown",
    "past",
    "past_body",
    "resolve",
    "view",
]
