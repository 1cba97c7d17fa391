# SPDX-License-Identifier: Apache-2.0
"""Show a container's spec line by line, with the owner and the previous value of each line.

In: a container's history from `attribution`. Out: lines with a gutter, or a JSON document.
This package never attributes changes, and never reads a recording.
"""

from .output import document as document
from .output import page as page
from .owned_lines import OwnedLine as OwnedLine
from .owned_lines import lines as lines
from .path_history import PathHistory as PathHistory
from .path_history import path_histories as path_histories
from .path_history import resolve as resolve
from .text import View as View
from .text import alerts as alerts
from .text import body as body
from .text import legend as legend
from .text import limits as limits
from .text import name_lines as name_lines
from .text import requests as requests
from .text import summary as summary
from .text import view as view
