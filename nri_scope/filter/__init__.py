# SPDX-License-Identifier: Apache-2.0
"""Parse the filter language to one tree, and apply it in SQL and in Python.

In: the text of ``--where``, of the filter bar, of export and replay. Out: a `Filter`, which selects
rows of a recording by SQL and events that are not in a file by a Python function, with equal
results; errors name the position and the nearest word. This room never opens a recording.
"""

from __future__ import annotations

from .compiled import Filter as Filter
from .compiled import parse as parse
from .fields import FIELDS as FIELDS
from .fields import Field as Field
from .sql import register as register
