# SPDX-License-Identifier: Apache-2.0
"""The real ``tap`` command as a child process, and plugins for it."""

from __future__ import annotations

import functools
import sys
from pathlib import Path

from tests.cli.running import PATIENCE, Running, running
from tests.runtime_emulation.scripts import ROOT

__all__ = ["PATIENCE", "Tap", "no_larger_than", "plugin_file", "tapping"]

Tap = Running
tapping = functools.partial(running, "tap")
"""``nri-scope tap ARGUMENTS``, as `running` starts it."""


def no_larger_than(size: int) -> tuple[str, ...]:
    """Return a command prefix that limits written files to ``size`` bytes."""
    return "prlimit", f"--fsize={size}"


def plugin_file(path: Path, body: str = "", *, name: str = "thing", start: str = "") -> Path:
    """Write an executable Python plugin that runs ``start`` and has the methods ``body``."""
    methods = body or "    def post_start_container(self, pod, container):\n        pass"
    path.write_text(
        f"""#!{sys.executable}
import os, sys
sys.path.insert(0, {str(ROOT)!r})
{start}
from nri_scope.plugin import api, run

class Thing:
{methods}

run(Thing(), name={name!r}, index="33")
"""
    )
    path.chmod(0o755)
    return path
