# SPDX-License-Identifier: Apache-2.0
"""Make a new recording from a part of another one, or from all of it.

In: an open recording, a selection of events, and a change of messages (redaction). Out: a new file
with the chosen events and the context that replays and comparisons need. Only rows are copied,
never pages, deleted rows or logs of the original.
"""

from .extraction import Extracted, extract
from .message_changes import Change
from .selected_events import Selection

__all__ = ["Change", "Extracted", "Selection", "extract"]
