# SPDX-License-Identifier: Apache-2.0
"""Show a container's spec line by line, with the owner and the previous value of each line.

In: a container's history from `attribution`. Out: lines with a gutter, Markdown or a JSON document.
This package never attributes changes, and never reads a recording.
"""

from .document import document as document
from .owned_lines import OwnedLine as OwnedLine
from .owned_lines import View as View
from .owned_lines import lines as lines
from .owned_lines import view as view
from .path_history import PathHistory as PathHistory
from .path_history import asked_for as asked_for
from .path_history import past as past
from .path_history import resolve as resolve
from .text import body as body
from .text import head as head
from .text import legend as legend
from .text import markdown as markdown
from .text import past_body as past_body
