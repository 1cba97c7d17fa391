# SPDX-License-Identifier: Apache-2.0
"""Build the programs of all plugins that are missing; report those that cannot be had."""

from __future__ import annotations

import sys

from tests.runtime.testbed.packages import TestbedError

from .programs import build
from .table import PROGRAMS

for name in PROGRAMS:
    try:
        build(PROGRAMS, name)
    except TestbedError as error:
        sys.stderr.write(f"{name}: {error}\n")
