# SPDX-License-Identifier: Apache-2.0
"""Run replays in tests, for `nri_scope.pytest_plugin` and for other frameworks.

In: plugins as objects or commands, a recording, a golden. Out: a `Result` with assertions; a
failed assertion is an AssertionError with an explanation. This package never imports pytest.
"""

from .failure_report import explain as explain
from .failure_report import failure_report as failure_report
from .goldens import CHECK as CHECK
from .goldens import NONE as NONE
from .goldens import UPDATE as UPDATE
from .goldens import Goldens as Goldens
from .plugin_arguments import plugin_set_of as plugin_set_of
from .replay_run import perform as perform
from .result import Result as Result
from .result import problem as problem
