# SPDX-License-Identifier: Apache-2.0
"""Run replays in a test, for `nri_scope.pytest_plugin` and for other frameworks.

In: plugins as objects or commands, a recording, a golden. Out: a `Result` with assertions; a
failure is an AssertionError whose text explains it. This package never knows pytest.
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
