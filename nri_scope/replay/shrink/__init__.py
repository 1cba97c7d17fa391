# SPDX-License-Identifier: Apache-2.0
"""The smallest part of a recording with which a plugin still fails in the same way."""

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
