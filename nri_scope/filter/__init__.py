# SPDX-License-Identifier: Apache-2.0
"""Parse the filter language into one tree, and evaluate it in SQL and in Python.

In: the text of ``--where`` or of the filter bar, points in time as typed, and the time span of a
recording. Out: a `Filter`, which selects rows of a recording by SQL, and events that are not in a
file by a Python function, with equal results; errors contain the position and the nearest word.
This package never opens a recording.
"""

from __future__ import annotations

from .compiled import Filter as Filter
from .compiled import parse as parse
from .compiled import parse_workload as parse_workload
from .fields import FIELDS as FIELDS
from .fields import FilterField as FilterField
from .moments import TimeSpan as TimeSpan
from .sql import register as register
