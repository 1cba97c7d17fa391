# SPDX-License-Identifier: Apache-2.0
"""Replays in a test: what `nri_scope.pytest_plugin` imports once a test makes one.

Knows nothing of pytest; what a test has to hear comes as an AssertionError with a text to read.
"""

from .casting import casting_of
from .compare import explain
from .goldens import CHECK, NONE, UPDATE, Goldens
from .performance import perform
from .result import Result, Timing
from .story import story
from .words import problem

__all__ = [
    "CHECK",
    "NONE",
    "UPDATE",
    "Goldens",
    "Result",
    "Timing",
    "casting_of",
    "explain",
    "perform",
    "problem",
    "story",
]
