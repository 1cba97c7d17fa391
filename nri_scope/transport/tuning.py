# SPDX-License-Identifier: Apache-2.0
"""Settings of the Python process that keep the reply path short."""

from __future__ import annotations

import gc
import sys

SWITCH_INTERVAL = 0.00005
"""Seconds after which the writer thread hands the interpreter over to a reply that is due.
Python's default of 5 ms would be the longest pause by far."""


def prepare_process() -> None:
    """Tune the interpreter for short pauses; call it once, when everything is imported."""
    sys.setswitchinterval(SWITCH_INTERVAL)
    # What exists now stays; the collector need not look at it again. What an event leaves behind
    # is freed by counting references, so collecting rarely spares pauses in the middle of a reply.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
