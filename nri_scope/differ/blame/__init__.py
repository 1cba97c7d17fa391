# SPDX-License-Identifier: Apache-2.0
"""Show a container's spec line by line, with the owner and the previous value of each line.

In: a container's history from `attribution`. Out: lines with a gutter, or a JSON document.
This package never attributes changes, and never reads a recording.
"""

from .document import document as document
from .owned_lines import OwnedLine as OwnedLine
from .owned_lines import View as View
from .owned_lines import lines as lines
from .owned_lines import view as view
from .path_history import PathHistory as PathHistory
from .path_history import path_histories as path_histories
from .path_history import resolve as resolve
from .path_history import whole_container_requests as whole_container_requests
from .text import alerts as alerts
from .text import body as body
from .text import head as head
from .text import history_body as history_body
from .text import legend as legend
from .text import limits as limits
from .text import name_lines as name_lines
from .text import requests as requests
from .text import summary as summary
