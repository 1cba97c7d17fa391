# SPDX-License-Identifier: Apache-2.0
"""A container's spec line by line, with who put each line there and what was there before."""

from .document import document
from .lines import Line, lines
from .markdown import markdown
from .past import Past, asked_for, past, resolve
from .pasttext import past_body
from .text import Paper, body, head, legend
from .view import View, view

__all__ = [
    "Line",
    "Paper",
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
