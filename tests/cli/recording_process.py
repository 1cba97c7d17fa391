# SPDX-License-Identifier: Apache-2.0
"""The real ``record`` command as a child process."""

from __future__ import annotations

import functools

from tests.cli.running import Running, running

Record = Running
recording = functools.partial(running, "record")
"""``nri-scope record ARGUMENTS``, as `running` starts it."""
