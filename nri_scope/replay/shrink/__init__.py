# SPDX-License-Identifier: Apache-2.0
"""Find the smallest part of a recording with which a plugin still fails in the same way.

In: a recording, a way to start the plugins, and limits. Out: a smaller recording, and on request a
test with a golden. It tries parts by writing and replaying them, and never looks into what events
mean.
"""

from .against_golden import AgainstGolden
from .failure import Check
from .search import Progress
from .shrink import Failure, Limits, Play, Shrinking, Shrunk, Wanted
from .test_case import Place, golden_of, write_test

__all__ = [
    "AgainstGolden",
    "Check",
    "Failure",
    "Limits",
    "Place",
    "Play",
    "Progress",
    "Shrinking",
    "Shrunk",
    "Wanted",
    "golden_of",
    "write_test",
]
