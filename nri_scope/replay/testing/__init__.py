# SPDX-License-Identifier: Apache-2.0
"""Replays in a test: what `nri_scope.pytest_plugin` imports once a test makes one.

Knows nothing of pytest; what a test has to hear comes as an AssertionError with a text to read.
"""

from .container_comparison import explain
from .error_wording import problem
from .failure_report import story
from .goldens import CHECK, NONE, UPDATE, Goldens
from .plugin_arguments import casting_of
from .replay_run import perform
from .result import Result, Timing

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
