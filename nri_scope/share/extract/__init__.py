# SPDX-License-Identifier: Apache-2.0
"""A new recording from a part of another one, or from all of it.

Nothing but rows that belong to the part is written: no page, deleted row or log of the original
gets into it. What the part needs to be replayed and compared comes along, as its context.
"""

from .extraction import extract
from .message_changes import Change
from .result import Extracted
from .selection import Selection

__all__ = ["Change", "Extracted", "Selection", "extract"]
