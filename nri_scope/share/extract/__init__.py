# SPDX-License-Identifier: Apache-2.0
"""Create a new recording from all or part of another recording.

In: an open recording, a selection of events, and a redactor, if any. Out: a new file with the
chosen events and the context needed for replays and comparisons. Only entries are copied, never
pages, deleted rows or logs of the original.
"""

from .extraction import Extracted as Extracted
from .extraction import extract as extract
from .selected_events import NothingSelectedError as NothingSelectedError
from .selected_events import Selection as Selection
