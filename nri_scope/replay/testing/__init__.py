# SPDX-License-Identifier: Apache-2.0
"""Run replays in tests, for `nri_scope.pytest_plugin` and for other frameworks.

In: plugins as objects or commands, a recording, a golden. Out: a `Result` with assertions; a
failed assertion is an AssertionError with an explanation. This package never imports pytest.
"""

from .replay_run import perform as perform
from .replay_run import plugin_set_of as plugin_set_of
from .result import Goldens as Goldens
from .result import Result as Result
from .result import failure_report as failure_report
from .result import problem as problem
