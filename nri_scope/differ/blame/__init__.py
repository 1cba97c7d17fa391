# SPDX-License-Identifier: Apache-2.0
"""Show a container's spec line by line, with the owner of each line and its former value.

In: a container's history from `attribution`. Out: lines with a gutter, Markdown or a document for
programs. This package never decides who made a change, and never reads a recording.
"""

from .document import document
from .folding import View, view
from .markdown import markdown
from .owned_lines import OwnedLine, lines
from .path_history import Past, asked_for, past, resolve
from .path_history_text import past_body
from .text import body, head, legend

__all__ = [
    "OwnedLine",
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
